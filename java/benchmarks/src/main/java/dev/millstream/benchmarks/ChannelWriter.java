package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;

/** Writes to a channel, and optionally records the write as an event. */
@FunctionalInterface
interface ChannelWriter {
    /** Writes once. Returns the number of written bytes. */
    int write(ByteBuffer bytes) throws IOException;
}
