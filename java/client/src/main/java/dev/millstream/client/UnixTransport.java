package dev.millstream.client;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;

/** A Unix stream socket with length-prefixed messages. A write fails immediately once the agent has closed its end. */
final class UnixTransport extends Transport<SocketChannel> {
    private final UnixDomainSocketAddress address;

    UnixTransport(Path path) {
        address = UnixDomainSocketAddress.of(path);
    }

    @Override
    SocketChannel connect() throws IOException {
        return SocketChannel.open(address);
    }

    @Override
    void probe(SocketChannel opened) {
        // Connecting already fails without a listener.
    }

    @Override
    void write(SocketChannel to, Packet packet) throws IOException {
        ByteBuffer message = packet.message(true);
        while (message.hasRemaining()) {
            to.write(message);
        }
    }

    @Override
    void check(SocketChannel opened) {
        // Writes already report all errors.
    }

    @Override
    boolean meansLastLost(Exception error) {
        return false;
    }
}
