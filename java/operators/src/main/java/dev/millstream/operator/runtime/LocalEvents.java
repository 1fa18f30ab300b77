package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Reads chunks of events as the agent does, for collector tests. */
public final class LocalEvents {
    private final byte[] chunk;
    private int at;

    private LocalEvents(byte[] chunk) {
        this.chunk = chunk;
    }

    /**
     * An event of a collector.
     *
     * @param time null if the event has no time
     */
    public record LocalEvent(String message, Map<String, Object> fields, Instant time) {}

    /** Reads the events of a chunk. */
    static List<LocalEvent> read(long address, long bytes) {
        return new LocalEvents(Memory.bytes(address, bytes)).all();
    }

    private List<LocalEvent> all() {
        List<LocalEvent> events = new ArrayList<>();
        while (at < chunk.length) {
            events.add(event());
        }
        return events;
    }

    private LocalEvent event() {
        long time = number(ChunkLayout.EVENT_TIME, Long.BYTES);
        int messageBytes = (int) number(ChunkLayout.EVENT_MESSAGE_BYTES, Integer.BYTES);
        int membersBytes = (int) number(ChunkLayout.EVENT_MEMBERS_BYTES, Integer.BYTES);
        at += ChunkLayout.EVENT_HEADER_BYTES;
        String message = text(messageBytes);
        Map<String, Object> fields = fields("{" + text(membersBytes) + "}");
        return new LocalEvent(message, fields, time == ChunkLayout.TIME_UNKNOWN ? null : Times.instant(time));
    }

    private long number(int offset, int length) {
        long number = 0;
        for (int index = length - 1; index >= 0; index--) {
            number = number << 8 | chunk[at + offset + index] & 0xFF;
        }
        return number;
    }

    private String text(int length) {
        String text = new String(chunk, at, length, StandardCharsets.UTF_8);
        at += length;
        return text;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> fields(String json) {
        return (Map<String, Object>) Json.parse(json);
    }
}
