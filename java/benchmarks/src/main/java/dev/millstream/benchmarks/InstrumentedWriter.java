package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** Creates and commits one event per write, in the write path. */
final class InstrumentedWriter implements ChannelWriter {
    private final SocketChannel channel;
    private final Peer.Lookup peers;

    InstrumentedWriter(SocketChannel channel, Peer.Lookup peers) {
        this.channel = channel;
        this.peers = peers;
    }

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        WriteEvent event = new WriteEvent();
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
