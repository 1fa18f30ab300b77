package dev.millstream.client;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;

/** Encodes log events as msgpack arrays: "log", level, name, message, tags, Unix milliseconds, and an array of keys and values. */
final class LogEncoder {
    private static final int FIELDS_MAX = 32;

    /** Maximum length of a string with a 16-bit header. */
    private static final int TEXT_BYTES_MAX = 0xFFFF;

    /** Maximum size of the two array headers: one for the event, one for the event's fields. */
    private static final int ARRAYS_BYTES_MAX = 1 + 3;

    /** Number of strings before the fields. */
    private static final int FIXED = 6;

    private static final String SHORTENED_FIELD = "stack";

    private LogEncoder() {}

    /** Returns the encoded event, or null if the event is invalid or exceeds {@code bytesMax} even without its stack. */
    static byte[] encode(LogLevel level, String name, String message, String tags, Instant time, String[] fields, int bytesMax) {
        if (hasNull(level, name, message, tags, fields) || hasNull((Object[]) fields)) {
            return null;
        }
        boolean isValid = Series.isValidName(Text.bytes(name)) && Series.hasValidLength(Text.bytes(tags));
        if (!isValid || fields.length % 2 != 0 || fields.length > 2 * FIELDS_MAX) {
            return null;
        }
        byte[][] texts = new byte[FIXED + fields.length][];
        String milliseconds = time == null ? "" : Long.toString(time.toEpochMilli());
        set(texts, 0, "log", level.text, name, message, tags, milliseconds);
        set(texts, FIXED, fields);
        int size = shorten(texts, fields, bytesMax);
        for (byte[] text : texts) {
            if (text.length > TEXT_BYTES_MAX) {
                return null;
            }
        }
        return size <= bytesMax ? write(texts, size) : null;
    }

    private static boolean hasNull(Object... values) {
        for (Object value : values) {
            if (value == null) {
                return true;
            }
        }
        return false;
    }

    /** Encodes the values as UTF-8. Unpaired surrogates become question marks. */
    private static void set(byte[][] texts, int from, String... values) {
        for (int at = 0; at < values.length; at++) {
            texts[from + at] = values[at].getBytes(StandardCharsets.UTF_8);
        }
    }

    /** Cuts the stack so that the event fits, if cutting the stack suffices. Returns the maximum size of the event. */
    private static int shorten(byte[][] texts, String[] fields, int bytesMax) {
        int size = ARRAYS_BYTES_MAX;
        for (byte[] text : texts) {
            size += Text.HEADER_MAX + text.length;
        }
        for (int at = 0; at < fields.length; at += 2) {
            if (fields[at].equals(SHORTENED_FIELD)) {
                byte[] stack = texts[FIXED + at + 1];
                int length = Math.min(stack.length - Math.max(0, size - bytesMax), TEXT_BYTES_MAX);
                byte[] cut = length >= stack.length ? stack : cut(stack, Math.max(0, length));
                texts[FIXED + at + 1] = cut;
                size -= stack.length - cut.length;
            }
        }
        return size;
    }

    /** Returns the whole lines within {@code length} bytes. In UTF-8, a line feed byte is never part of another character. */
    private static byte[] cut(byte[] text, int length) {
        int end = length;
        while (end > 0 && text[end] != '\n') {
            end--;
        }
        return Arrays.copyOf(text, end);
    }

    private static byte[] write(byte[][] texts, int sizeMax) {
        byte[] out = new byte[sizeMax];
        out[0] = (byte) (0x90 | FIXED + 1);
        int at = 1;
        for (int index = 0; index < texts.length; index++) {
            if (index == FIXED) {
                at = writeArrayHeader(out, at, texts.length - FIXED);
            }
            byte[] text = texts[index];
            at = Text.writeHeader(out, at, text.length);
            System.arraycopy(text, 0, out, at, text.length);
            at += text.length;
        }
        if (texts.length == FIXED) {
            at = writeArrayHeader(out, at, 0);
        }
        return Arrays.copyOf(out, at);
    }

    private static int writeArrayHeader(byte[] out, int at, int elements) {
        if (elements < 16) {
            out[at++] = (byte) (0x90 | elements);
            return at;
        }
        out[at++] = (byte) 0xDC;
        out[at++] = (byte) (elements >> 8);
        out[at++] = (byte) elements;
        return at;
    }
}
