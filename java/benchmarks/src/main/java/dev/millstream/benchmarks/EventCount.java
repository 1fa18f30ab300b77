package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;

/** Counts the events of a type in a recording by their headers, because parsing millions of complete events takes seconds. */
final class EventCount {
    private static final int CHUNK_HEADER_BYTES = 68;
    private static final int CHUNK_SIZE_OFFSET = 8;

    private EventCount() {}

    /** Returns the number of events with this type id. */
    static long of(Path file, long type) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            long count = 0;
            for (int chunk = 0; chunk < bytes.limit(); ) {
                int end = Math.toIntExact(chunk + bytes.getLong(chunk + CHUNK_SIZE_OFFSET));
                count += inChunk(bytes, chunk + CHUNK_HEADER_BYTES, end, type);
                chunk = end;
            }
            return count;
        }
    }

    /** Counts the events of a type in a chunk. Each event starts with its size, which includes the size field, and its type id. */
    private static long inChunk(ByteBuffer bytes, int first, int end, long type) {
        long count = 0;
        for (int event = first; event < end; ) {
            bytes.position(event);
            int size = (int) varint(bytes);
            if (varint(bytes) == type) {
                count++;
            }
            event += size;
        }
        return count;
    }

    private static long varint(ByteBuffer bytes) {
        long value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = bytes.get();
            value |= (next & 0x7FL) << shift;
            if (next >= 0) {
                return value;
            }
        }
    }
}
