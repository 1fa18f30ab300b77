package dev.millstream.client;

import java.io.IOException;
import java.nio.channels.ByteChannel;

/** The way to the agent. One thread uses it. */
abstract class Link<C extends ByteChannel> {
    private C channel;

    boolean isOpen() {
        return channel != null;
    }

    /** Connects; an error if nobody listens, as far as that can be known. */
    void open() throws IOException {
        C opened = connect();
        try {
            probe(opened);
        } catch (IOException error) {
            opened.close();
            throw error;
        }
        channel = opened;
    }

    /** Hands a packet to the kernel, whole. */
    void send(Packet packet) throws IOException {
        write(channel, packet);
    }

    /** An error if the packet that was sent last is known to be lost. */
    void check() throws IOException {
        check(channel);
    }

    /** Lets the connection go; nothing that the kernel says then matters. */
    void close() {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException ignored) {
            // It is gone either way.
        }
        channel = null;
    }

    /** Whether an error of {@link #send} tells that the packet before is lost too. */
    abstract boolean losesLast(Exception error);

    abstract C connect() throws IOException;

    abstract void probe(C opened) throws IOException;

    abstract void write(C to, Packet packet) throws IOException;

    abstract void check(C opened) throws IOException;
}
