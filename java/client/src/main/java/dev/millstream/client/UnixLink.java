package dev.millstream.client;

import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;

/** A Unix stream: each message follows its length. The kernel says at once when the agent has closed its end. */
final class UnixLink extends Link<SocketChannel> {
    private final UnixDomainSocketAddress address;

    UnixLink(Path path) {
        address = UnixDomainSocketAddress.of(path);
    }

    @Override
    SocketChannel connect() throws IOException {
        return SocketChannel.open(address);
    }

    @Override
    void probe(SocketChannel opened) {
        // Connecting was the probe.
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
        // A write fails by itself.
    }

    @Override
    boolean losesLast(Exception error) {
        return false;
    }
}
