package dev.millstream.client;

import java.io.IOException;
import java.nio.channels.ByteChannel;

/** A connection to the agent that can be reopened. Not thread-safe. */
abstract class Transport<C extends ByteChannel> {
    private C channel;

    boolean isOpen() {
        return channel != null;
    }

    /** Connects. Throws if it is certain that no agent is listening. */
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

    /** Passes a whole packet to the kernel. */
    void send(Packet packet) throws IOException {
        write(channel, packet);
    }

    /** Throws if the last packet is known to be lost. */
    void check() throws IOException {
        check(channel);
    }

    /** Closes the connection and ignores errors. */
    void close() {
        try {
            if (channel != null) {
                channel.close();
            }
        } catch (IOException ignored) {
            // The channel is closed either way.
        }
        channel = null;
    }

    /** Returns whether an error of {@link #send} means that the previous packet was lost as well. */
    abstract boolean meansLastLost(Exception error);

    abstract C connect() throws IOException;

    abstract void probe(C opened) throws IOException;

    abstract void write(C to, Packet packet) throws IOException;

    abstract void check(C opened) throws IOException;
}
