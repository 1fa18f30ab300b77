package dev.millstream.benchmarks;

import java.io.IOException;
import java.text.ParseException;
import jdk.jfr.Configuration;
import jdk.jfr.Recording;

/** Prints {@code ready} and exits: the program whose startup is measured, alone or with a recording that a separate thread starts. */
public final class StartUp {
    private StartUp() {}

    /**
     * Runs the program. With the {@code async} argument, starts a recording in a thread, and the process waits for the thread before it
     * exits.
     */
    public static void main(String[] arguments) {
        if (arguments.length > 0 && arguments[0].equals("async")) {
            new Recorder().start();
        }
        System.out.println("ready");
    }

    /** Starts the recording. This is a class because the first lambda of a process takes longer than the process's main method. */
    private static final class Recorder extends Thread {
        @Override
        public void run() {
            try {
                new Recording(Configuration.getConfiguration("default")).start();
            } catch (IOException | ParseException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
