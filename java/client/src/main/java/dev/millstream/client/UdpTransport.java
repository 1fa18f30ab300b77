package dev.millstream.client;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.nio.ByteBuffer;
import java.nio.channels.DatagramChannel;
import java.util.concurrent.locks.LockSupport;

/**
 * A UDP transport. If no process listens on the port, the host responds to a datagram with an ICMP error, which the kernel reports to the
 * next call. On the loopback interface, the error is available immediately.
 */
final class UdpTransport extends Transport<DatagramChannel> {
    /** Pause before retrying a datagram if the send buffer is full. */
    private static final long SEND_RETRY_NS = 100_000;

    private final String host;
    private final int port;
    private final ByteBuffer response = ByteBuffer.allocate(1);

    UdpTransport(String host, int port) {
        this.host = host;
        this.port = port;
    }

    /** Resolves the address for each connection, because the address may have changed. */
    @Override
    DatagramChannel connect() throws IOException {
        InetSocketAddress address = new InetSocketAddress(host, port);
        if (address.isUnresolved()) {
            throw new IOException("cannot resolve the host '" + host + "'");
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

    /** Sends an empty line, which the agent ignores. Java does not send empty datagrams. */
    @Override
    void probe(DatagramChannel opened) throws IOException {
        opened.write(ByteBuffer.wrap(new byte[] {'\n'}));
        check(opened);
    }

    @Override
    void write(DatagramChannel to, Packet packet) throws IOException {
        ByteBuffer message = packet.message(false);
        while (to.write(message) == 0) {
            LockSupport.parkNanos(SEND_RETRY_NS);
            if (Thread.currentThread().isInterrupted()) {
                throw new IOException("interrupted while the send buffer is full");
            }
        }
    }

    @Override
    void check(DatagramChannel opened) throws IOException {
        opened.read(response.clear());
    }

    @Override
    boolean meansLastLost(Exception error) {
        return error instanceof PortUnreachableException;
    }
}
