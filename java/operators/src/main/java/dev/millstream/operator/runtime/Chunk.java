package dev.millstream.operator.runtime;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Events in the format of {@link ChunkLayout}, until they are sent. */
final class Chunk {
    private static final int START_BYTES = 4 << 10;
    private static final byte[] NO_MEMBERS = new byte[0];

    private byte[] bytes = new byte[START_BYTES];
    private int used;
    private int events;

    byte[] bytes() {
        return bytes;
    }

    int used() {
        return used;
    }

    int events() {
        return events;
    }

    boolean isFull() {
        return used >= ChunkLayout.CHUNK_BYTES;
    }

    void clear() {
        used = 0;
        events = 0;
    }

    /** Adds an event. Adds nothing if it throws an exception. */
    void add(String message, Map<?, ?> fields) {
        byte[] text = text(message);
        Map<String, Object> others = new LinkedHashMap<>();
        long time = split(fields, others);
        byte[] members = others.isEmpty() ? NO_MEMBERS : members(others);
        reserve(ChunkLayout.EVENT_HEADER_BYTES + text.length + members.length);
        ByteBuffer to = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).position(used);
        to.putLong(time).putInt(text.length).putInt(members.length).put(text).put(members);
        used = to.position();
        events++;
    }

    private void reserve(int more) {
        if (used + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(used + more, bytes.length * 2));
        }
    }

    private static byte[] text(String message) {
        if (message == null) {
            throw new WrongTypeException("an event needs a message; use an empty string for no message");
        }
        if (message.length() > ChunkLayout.TEXT_BYTES_MAX) {
            throw tooLong("the message");
        }
        byte[] text = message.getBytes(StandardCharsets.UTF_8);
        if (text.length > ChunkLayout.TEXT_BYTES_MAX) {
            throw tooLong("the message");
        }
        return text;
    }

    /** Returns the members of the fields' JSON object, without its braces. */
    private static byte[] members(Map<String, Object> fields) {
        byte[] object = Json.eventBytes(fields);
        if (object.length - 2 > ChunkLayout.TEXT_BYTES_MAX) {
            throw tooLong("the fields' JSON");
        }
        return Arrays.copyOfRange(object, 1, object.length - 1);
    }

    private static WrongTypeException tooLong(String what) {
        return new WrongTypeException(what + " exceeds " + ChunkLayout.TEXT_BYTES_MAX + " bytes");
    }

    /** Copies all fields except the time. Returns the time. */
    private static long split(Map<?, ?> fields, Map<String, Object> others) {
        if (fields == null) {
            throw new WrongTypeException("fields must be a map, not null");
        }
        long time = ChunkLayout.TIME_UNKNOWN;
        for (Map.Entry<?, ?> field : fields.entrySet()) {
            String name = name(field.getKey());
            if (name.equals(Columns.TIMESTAMP)) {
                time = time(field.getValue());
            } else {
                others.put(name, field.getValue());
            }
        }
        return time;
    }

    private static String name(Object key) {
        String name = key == null ? "" : Canonical.wellFormed(key.toString());
        int length = name.getBytes(StandardCharsets.UTF_8).length;
        if (length == 0 || length > ChunkLayout.NAME_BYTES_MAX) {
            throw new WrongTypeException("a field name must be 1 to " + ChunkLayout.NAME_BYTES_MAX + " bytes, not " + length);
        }
        if (name.equals(Columns.MESSAGE) || name.startsWith(Columns.META)) {
            throw new WrongTypeException("'" + name + "' is not a valid field name");
        }
        return name;
    }

    private static long time(Object value) {
        if (!(value instanceof Instant time)) {
            throw new WrongTypeException("timestamp must be an Instant, not " + (value == null ? "null" : value.getClass().getName()));
        }
        if (!Times.isInNanoseconds(time)) {
            throw new WrongTypeException("timestamp " + time + " is not in the years 1678 to 2261");
        }
        return ChronoUnit.NANOS.between(Instant.EPOCH, time);
    }
}
