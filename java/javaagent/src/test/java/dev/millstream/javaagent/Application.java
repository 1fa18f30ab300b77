package dev.millstream.javaagent;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.CountDownLatch;
import jdk.jfr.Event;

/**
 * The program that tests start with the agent. The program prints a line, then executes the commands on standard input and responds to each
 * command.
 */
public final class Application {
    /** The address that {@code slow} connects to. No other connection uses this address. */
    static final String REMOTE = "127.0.0.3";

    /** Exceeds the amount that the kernel queues for a connection. */
    private static final int SLOW_BYTES = 8 << 20;
    private static final long SLOW_MS = 150;

    private static volatile Object kept;

    /** The clock when {@code main} was reached, and the time that the main thread had waited for a CPU until then. */
    private static long reachedNs;
    private static long waitedNs;

    private Application() {}

    /** An event of the application, enabled by default. */
    static final class Custom extends Event {}

    /** An exception of the application. */
    static final class Failure extends Exception {
        private static final long serialVersionUID = 1;
    }

    /** A class with a monitor. */
    static final class Lock {}

    /**
     * Runs the program.
     *
     * @param args unused
     * @throws Exception if a command fails
     */
    public static void main(String[] args) throws Exception {
        reachedNs = System.nanoTime();
        waitedNs = waitedNs();
        System.out.println("main");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(execute(line.split(" ")));
        }
    }

    /** Returns the time that this thread has waited for a CPU, which is the second number in schedstat. */
    private static long waitedNs() throws IOException {
        return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).split(" ")[1]);
    }

    private static Object execute(String[] command) throws Exception {
        switch (command[0]) {
            case "start" -> {
                return reachedNs - waitedNs;
            }
            case "slow" -> slow();
            case "write" -> write(Integer.parseInt(command[1]));
            case "file" -> file(Path.of(command[1]));
            case "monitor" -> monitor();
            case "throw" -> fail(Integer.parseInt(command[1]));
            case "allocate" -> allocate(Integer.parseInt(command[1]));
            case "gc" -> System.gc();
            case "heap" -> {
                System.gc();
                return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
            }
            case "custom" -> {
                return new Custom().isEnabled();
            }
            case "threads" -> {
                return Thread.getAllStackTraces().keySet().stream().map(Thread::getName).sorted().toList();
            }
            default -> throw new IOException("unknown command: " + command[0]);
        }
        return "done";
    }

    /** Writes to a remote that reads after a delay. */
    private static void slow() throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(REMOTE))) {
            Thread remote = new Thread(() -> readLate(server));
            remote.start();
            try (Socket socket = new Socket(server.getInetAddress(), server.getLocalPort())) {
                socket.getOutputStream().write(new byte[SLOW_BYTES]);
            }
            remote.join();
        }
    }

    private static void readLate(ServerSocket server) {
        try (Socket connection = server.accept()) {
            // The write has begun, so it lasts as long as the pause.
            connection.getInputStream().read();
            Thread.sleep(SLOW_MS);
            connection.getInputStream().transferTo(OutputStream.nullOutputStream());
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Writes single bytes to a remote that reads them. */
    private static void write(int count) throws Exception {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getByName(REMOTE))) {
            Thread remote = new Thread(() -> readLate(server));
            remote.start();
            try (Socket socket = new Socket(server.getInetAddress(), server.getLocalPort())) {
                OutputStream out = socket.getOutputStream();
                for (int at = 0; at < count; at++) {
                    out.write(1);
                }
            }
            remote.join();
        }
    }

    private static void file(Path path) throws IOException {
        try (FileChannel file = FileChannel.open(path, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.READ)) {
            file.write(ByteBuffer.allocate(1000));
            file.force(true);
            file.read(ByteBuffer.allocate(600), 0);
        }
    }

    private static void monitor() throws InterruptedException {
        Lock lock = new Lock();
        CountDownLatch isHeld = new CountDownLatch(1);
        Thread holder = new Thread(() -> hold(lock, isHeld));
        holder.start();
        isHeld.await();
        synchronized (lock) {
            holder.join();
        }
    }

    private static void hold(Lock lock, CountDownLatch isHeld) {
        synchronized (lock) {
            isHeld.countDown();
            try {
                Thread.sleep(SLOW_MS);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static void fail(int count) {
        for (int at = 0; at < count; at++) {
            kept = new Failure();
            kept = new AssertionError(at);
        }
    }

    private static void allocate(int megabytes) {
        for (int at = 0; at < megabytes * 64; at++) {
            kept = new long[(16 << 10) / Long.BYTES];
        }
    }
}
