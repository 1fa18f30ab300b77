package dev.millstream.benchmarks;

import java.io.IOException;
import java.text.ParseException;
import jdk.jfr.Configuration;
import jdk.jfr.Recording;

/** Prints {@code ready} and ends: the program whose start is measured, alone or with a recording that its own thread starts. */
public final class StartUp {
    private StartUp() {}

    /** With the argument {@code async}, starts a recording in a thread, which the process waits for before it ends. */
    public static void main(String[] arguments) {
        if (arguments.length > 0 && arguments[0].equals("async")) {
            new Recorder().start();
        }
        System.out.println("ready");
    }

    /** A class, as the first lambda of a process takes longer than its main method. */
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
