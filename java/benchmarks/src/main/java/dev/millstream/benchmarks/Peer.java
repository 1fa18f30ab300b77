package dev.millstream.benchmarks;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.channels.SocketChannel;

/**
 * The data of a write event about the other end of a connection.
 *
 * @param host the name with which the connection was made
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

    /** Cuts host and address out of the text of the address, as JDK 17 does for its own event. */
    static Peer byStringWork(SocketChannel channel) throws IOException {
        InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        String text = remote.getAddress().toString();
        int slash = text.lastIndexOf('/');
        return new Peer(text.substring(0, slash), text.substring(slash + 1), remote.getPort());
    }

    /** Asks the address for host and address, as later JDKs do for their own event. */
    static Peer byMethods(SocketChannel channel) throws IOException {
        InetSocketAddress remote = (InetSocketAddress) channel.getRemoteAddress();
        return new Peer(remote.getHostString(), remote.getAddress().getHostAddress(), remote.getPort());
    }

    /** Returns a lookup that answers for one channel what {@link #byMethods} found at first. */
    static Lookup cached(SocketChannel channel) throws IOException {
        Peer peer = byMethods(channel);
        return any -> peer;
    }
}
