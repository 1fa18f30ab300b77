package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** Calls static methods to check whether to record a write and to pass the data, as the JDK's classes do with a mirror event. */
final class MirrorWriter implements ChannelWriter {
    private final SocketChannel channel;
    private final Peer.Lookup peers;

    MirrorWriter(SocketChannel channel, Peer.Lookup peers) {
        this.channel = channel;
        this.peers = peers;
    }

    @Override
    public int write(ByteBuffer bytes) throws IOException {
        if (!WriteMirror.enabled()) {
            return channel.write(bytes);
        }
        long start = WriteMirror.timestamp();
        int written = channel.write(bytes);
        long duration = WriteMirror.timestamp() - start;
        if (WriteMirror.shouldCommit(duration)) {
            Peer peer = peers.of(channel);
            WriteMirror.commit(duration, peer.host(), peer.address(), peer.port(), written);
        }
        return written;
    }
}
