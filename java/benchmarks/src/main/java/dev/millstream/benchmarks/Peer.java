package dev.millstream.benchmarks;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;

/**
 * The peer data in a write event.
 *
 * @param host the host name that was used to connect
 * @param address the IP address as text
 * @param port the port
 */
record Peer(String host, String address, int port) {
    /** Determines the peer of a channel. */
    @FunctionalInterface
    interface Lookup {
        /** Returns the peer of a connected channel. */
        Peer of(SocketChannel channel) throws IOException;
    }

    /** Extracts host and address from the address text, as JDK 17 does for its event. */
    static Peer byStringWork(SocketChannel channel) throws IOException {
        InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        String text = remote.getAddress().toString();
        int slash = text.lastIndexOf('/');
        return new Peer(text.substring(0, slash), text.substring(slash + 1), remote.getPort());
    }

    /** Gets host and address from the address's methods, as later JDKs do for their event. */
    static Peer byMethods(SocketChannel channel) throws IOException {
        InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        return new Peer(remote.getHostString(), remote.getAddress().getHostAddress(), remote.getPort());
    }

    /** Returns a lookup for one channel that always returns the first result of {@link #byMethods}. */
    static Lookup cached(SocketChannel channel) throws IOException {
        Peer peer = byMethods(channel);
        return any -> peer;
    }
}
