package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/**
 * Uses one event for all writes of a thread. {@code begin} replaces the event's start and {@code end} its duration. The JDK does not
 * guarantee this behavior, so {@link RecordedWrites} checks both.
 */
final class ReusedEventWriter implements ChannelWriter {
    private static final ThreadLocal<WriteEvent> EVENTS = ThreadLocal.withInitial(WriteEvent::new);

    private final SocketChannel channel;
    private final Peer.Lookup peers;

    ReusedEventWriter(SocketChannel channel, Peer.Lookup peers) {
        this.channel = channel;
        this.peers = peers;
    }

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        WriteEvent event = EVENTS.get();
        if (!event.isEnabled()) {
            return channel.write(bytes);
        }
        event.begin();
        int written = channel.write(bytes);
        event.end();
        if (event.shouldCommit()) {
            event.commit(peers.of(channel), written);
        }
        return written;
    }
}
