package dev.millstream.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.concurrent.locks.LockSupport;

/**
 * UDP. Where nobody listens, the host answers a datagram with an error that the kernel gives to the next call; on the loopback interface it
 * is there at once.
 */
final class UdpLink extends Link<DatagramChannel> {
    /** Pause before a datagram is tried again that the kernel had no room for. */
    private static final long FULL_PAUSE_NS = 100_000;

    private final String host;
    private final int port;
    private final ByteBuffer answer = ByteBuffer.allocate(1);

    UdpLink(String host, int port) {
        this.host = host;
        this.port = port;
    }

    /** The address is looked up anew each time, as it may have changed. */
    @Override
    DatagramChannel connect() throws IOException {
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) {
            throw new IOException("the host '" + host + "' is not found");
        }
        DatagramChannel opened = DatagramChannel.open();
        try {
            opened.configureBlocking(false);
            return opened.connect(address);
        } catch (IOException | RuntimeException error) {
            opened.close();
            throw error;
        }
    }

    /** An empty line has no points to lose, and means nothing. An empty datagram would be as good, but Java does not send any. */
    @Override
    void probe(DatagramChannel opened) throws IOException {
        opened.write(ByteBuffer.wrap(new byte[] {'\n'}));
        check(opened);
    }

    @Override
    void write(DatagramChannel to, Packet packet) throws IOException {
        ByteBuffer message = packet.message(false);
        while (to.write(message) == 0) {
            LockSupport.parkNanos(FULL_PAUSE_NS);
            if (Thread.currentThread().isInterrupted()) {
                throw new IOException("interrupted while the kernel had no room");
            }
        }
    }

    @Override
    void check(DatagramChannel opened) throws IOException {
        opened.read(answer.clear());
    }

    @Override
    boolean losesLast(Exception error) {
        return error instanceof PortUnreachableException;
    }
}
