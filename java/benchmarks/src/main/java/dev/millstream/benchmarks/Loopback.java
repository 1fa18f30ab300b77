package dev.millstream.benchmarks;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;

/** A loopback connection with a thread that reads and discards all data. */
final class Loopback {
    /** The host and address that the connection's write events must contain. */
    static final String HOST = "localhost";

    static final String ADDRESS = "127.0.0.1";

    private static final int READ_BYTES = 1 << 16;

    private final SocketChannel channel;
    private final SocketChannel accepted;
    private final Thread reader;
    private long readBytes;
    private IOException failure;

    private Loopback(SocketChannel channel, SocketChannel accepted) {
        this.channel = channel;
        this.accepted = accepted;
        reader = new Thread(this::read, "reader");
        reader.setDaemon(true);
    }

    static Loopback open() throws IOException {
        InetAddress address = InetAddress.getByAddress(HOST, new byte[] {127, 0, 0, 1});
        try (ServerSocketChannel server = ServerSocketChannel.open().bind(new InetSocketAddress(address, 0))) {
            int port = ((InetSocketAddress) server.getLocalAddress()).getPort();
            SocketChannel channel = SocketChannel.open(new InetSocketAddress(address, port));
            Loopback loopback = new Loopback(channel, server.accept());
            loopback.reader.start();
            return loopback;
        }
    }

    SocketChannel channel() {
        return channel;
    }

    /** Returns the port that the connection's write events must contain. */
    int port() throws IOException {
        return ((InetSocketAddress) channel.getRemoteAddress()).getPort();
    }

    private void read() {
        ByteBuffer bytes = ByteBuffer.allocateDirect(READ_BYTES);
        try {
            for (int read = 0; read >= 0; read = accepted.read(bytes.clear())) {
                readBytes += read;
            }
        } catch (IOException error) {
            failure = error;
        }
    }

    /** Closes the connection after all data was read. Returns the number of read bytes. */
    long close() throws IOException, InterruptedException {
        channel.close();
        reader.join();
        accepted.close();
        if (failure != null) {
            throw failure;
        }
        return readBytes;
    }
}
