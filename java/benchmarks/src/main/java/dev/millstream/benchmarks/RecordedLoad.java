package dev.millstream.benchmarks;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/**
 * Generates the events of a recording for the number of seconds in its argument, as input for the {@code jfr} source and the JDK's tool.
 */
public final class RecordedLoad {
    private static final int WRITES = 50;
    private static final int ALLOCATIONS = 20;
    private static final int ARRAY_BYTES = 20_000;

    private RecordedLoad() {}

    /** Runs the load. */
    public static void main(String[] arguments) throws Exception {
        long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000;
        Path file = Files.createTempFile("load", null);
        Map<Integer, byte[]> kept = new HashMap<>();
        int allocated = 0;
        try (SocketChannel channel = connect()) {
            ByteBuffer bytes = ByteBuffer.allocate(100);
            while (System.nanoTime() < end) {
                for (int write = 0; write < WRITES; write++) {
                    channel.write(bytes.clear());
                }
                Files.write(file, new byte[100]);
                Files.readAllBytes(file);
                for (int allocation = 0; allocation < ALLOCATIONS; allocation++) {
                    kept.put(allocated++ % 1000, new byte[ARRAY_BYTES]);
                }
                Thread.sleep(1);
            }
        } finally {
            Files.delete(file);
        }
    }

    private static SocketChannel connect() throws IOException {
        ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
        SocketChannel channel = SocketChannel.open(server.getLocalAddress());
        SocketChannel peer = server.accept();
        Thread reader = new Thread(() -> discard(peer.socket()));
        reader.setDaemon(true);
        reader.start();
        return channel;
    }

    private static void discard(Socket socket) {
        byte[] bytes = new byte[1 << 16];
        try {
            int read;
            do {
                read = socket.getInputStream().read(bytes);
            } while (read >= 0);
        } catch (IOException error) {
            // The program ends.
        }
    }
}
