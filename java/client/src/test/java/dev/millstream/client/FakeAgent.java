package dev.millstream.client;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.Channel;
import java.nio.channels.DatagramChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;

/** Receives points from clients. Each instance is one run of an agent. */
public final class FakeAgent implements AutoCloseable {
    /** How the agent reads a stream. */
    public enum Reads {
        /** Keeps the points. */
        ALL,
        /** Reads data without decoding it. */
        DISCARD,
        /** Accepts connections, but does not read from them. */
        NOTHING
    }

    private static final int MESSAGE_BYTES_MAX = 1 << 16;

    /** The strings of each point and log event. */
    public final ConcurrentLinkedQueue<List<String>> points = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<Channel> channels = new ConcurrentLinkedQueue<>();
    private final ConcurrentLinkedQueue<Thread> threads = new ConcurrentLinkedQueue<>();

    private FakeAgent() {}

    /**
     * Listens on a Unix socket.
     *
     * @param path path of the socket; an existing file is replaced
     * @param reads how the agent reads
     * @return the running agent
     * @throws IOException if the agent cannot listen
     */
    public static FakeAgent unix(Path path, Reads reads) throws IOException {
        Files.deleteIfExists(path);
        FakeAgent agent = new FakeAgent();
        ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
        server.bind(UnixDomainSocketAddress.of(path));
        agent.channels.add(server);
        agent.start(() -> {
            while (true) {
                SocketChannel connection = server.accept();
                agent.channels.add(connection);
                if (reads != Reads.NOTHING) {
                    agent.start(() -> agent.stream(connection, reads));
                }
            }
        });
        return agent;
    }

    /**
     * Listens on a UDP port of the loopback interface.
     *
     * @param port the port, or 0 for a free port
     * @return the running agent
     * @throws IOException if the agent cannot listen
     */
    public static FakeAgent udp(int port) throws IOException {
        FakeAgent agent = new FakeAgent();
        DatagramChannel channel = DatagramChannel.open(StandardProtocolFamily.INET);
        channel.bind(new InetSocketAddress("127.0.0.1", port));
        agent.channels.add(channel);
        agent.start(() -> {
            ByteBuffer message = ByteBuffer.allocate(MESSAGE_BYTES_MAX);
            while (true) {
                channel.receive(message.clear());
                // Ignore the initial probe, an empty line.
                if (message.flip().limit() > 1) {
                    agent.points.addAll(Decoder.points(message));
                }
            }
        });
        return agent;
    }

    /**
     * Returns the UDP port.
     *
     * @return the port
     * @throws IOException if the socket is closed
     */
    public int port() throws IOException {
        return ((InetSocketAddress) ((DatagramChannel) channels.peek()).getLocalAddress()).getPort();
    }

    private void stream(SocketChannel connection, Reads reads) throws IOException {
        ByteBuffer length = ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN);
        while (true) {
            fill(connection, length.clear());
            ByteBuffer message = ByteBuffer.allocate(length.getInt(0));
            fill(connection, message);
            if (reads == Reads.ALL) {
                points.addAll(Decoder.points(message.flip()));
            }
        }
    }

    private static void fill(SocketChannel connection, ByteBuffer bytes) throws IOException {
        while (bytes.hasRemaining()) {
            if (connection.read(bytes) < 0) {
                throw new EOFException();
            }
        }
    }

    private interface Task {
        void run() throws IOException;
    }

    private void start(Task task) {
        Thread thread = new Thread(() -> {
            try {
                task.run();
            } catch (IOException closed) {
                // One side has closed the channel.
            }
        });
        thread.setDaemon(true);
        threads.add(thread);
        thread.start();
    }

    /**
     * Closes all channels and waits for the threads, so that later sends fail. A socket stays open while a thread is in a call on the
     * socket.
     */
    @Override
    public void close() throws IOException {
        closeChannels();
        threads.forEach(FakeAgent::join);
        // Close connections that were accepted in the meantime.
        closeChannels();
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException("interrupted while an agent ends", interrupted);
        }
    }

    private void closeChannels() throws IOException {
        for (Channel channel : channels) {
            channel.close();
        }
    }
}
