package dev.millstream.operator.runtime;

import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** Decodes values. */
final class Decoder {
    private static final int KEPT_BYTES_MAX = 1 << 20;
    /** Maximum number of digits with which every number fits in a long. */
    private static final int SAFE_DIGITS = 18;
    /** Tags of {@link ShortTexts}. */
    private static final int TEXT = 0;
    private static final int ESCAPED = 1;

    private final ShortTexts shortTexts = new ShortTexts();
    private byte[] scratch = new byte[4096];
    private long parsed;

    /** Returns a value, or null if the value is absent. */
    Object value(long cell, long base) {
        long address = base + Cells.start(cell);
        int length = Cells.length(cell);
        return switch (Cells.kind(cell)) {
            case (int) Layout.KIND_FALSE -> Boolean.FALSE;
            case (int) Layout.KIND_TRUE -> Boolean.TRUE;
            case (int) Layout.KIND_INT -> integer(address, length);
            case (int) Layout.KIND_FLOAT -> (Object) Double.parseDouble(text(address, length));
            case (int) Layout.KIND_TIME -> time(address, length);
            case (int) Layout.KIND_TEXT -> text(address, length);
            case (int) Layout.KIND_ESCAPED -> escaped(address, length);
            case (int) Layout.KIND_OBJECT, (int) Layout.KIND_ARRAY -> Json.parse(read(address, length), length);
            default -> null;
        };
    }

    /** Returns a value as text, or null if the value is absent or JSON's null. */
    String asText(long cell, long base) {
        return switch (Cells.kind(cell)) {
            case (int) Layout.KIND_ABSENT, (int) Layout.KIND_NULL -> null;
            case (int) Layout.KIND_FALSE -> "false";
            case (int) Layout.KIND_TRUE -> "true";
            case (int) Layout.KIND_ESCAPED -> escaped(base + Cells.start(cell), Cells.length(cell));
            default -> text(base + Cells.start(cell), Cells.length(cell));
        };
    }

    /** Returns a value as an integer, even if the value is text. */
    long asLong(long cell, long base, long otherwise) {
        return switch (Cells.kind(cell)) {
            case (int) Layout.KIND_INT, (int) Layout.KIND_TEXT, (int) Layout.KIND_ESCAPED ->
                isLong(base + Cells.start(cell), Cells.length(cell)) ? parsed : otherwise;
            default -> otherwise;
        };
    }

    /** Returns a value as a number, even if the value is text. */
    double asDouble(long cell, long base, double otherwise) {
        int kind = Cells.kind(cell);
        boolean isNumber = kind == Layout.KIND_INT || kind == Layout.KIND_FLOAT;
        if (!isNumber && kind != Layout.KIND_TEXT && kind != Layout.KIND_ESCAPED) {
            return otherwise;
        }
        long address = base + Cells.start(cell);
        int length = Cells.length(cell);
        if (length <= 15 && isLong(address, length)) {
            return parsed;
        }
        String digits = text(address, length);
        return isNumber ? Double.parseDouble(digits) : number(digits, otherwise);
    }

    static long integer(String text, long otherwise) {
        int digits = text.startsWith("-") ? 1 : 0;
        for (int at = digits; at < text.length(); at++) {
            if (text.charAt(at) < '0' || text.charAt(at) > '9') {
                return otherwise;
            }
        }
        try {
            return Long.parseLong(text);
        } catch (NumberFormatException error) {
            return otherwise;
        }
    }

    static double number(String text, double otherwise) {
        for (int at = 0; at < text.length(); at++) {
            char each = text.charAt(at);
            if ((each < '0' || each > '9') && each != '.' && each != '-' && each != '+' && each != 'e' && each != 'E') {
                return otherwise;
            }
        }
        try {
            return Double.parseDouble(text);
        } catch (NumberFormatException error) {
            return otherwise;
        }
    }

    String text(long address, int length) {
        if (length <= ShortTexts.BYTES_MAX) {
            String known = shortTexts.find(address, length, TEXT);
            if (known != null) {
                return known;
            }
            String text = decode(address, length);
            shortTexts.store(length, TEXT, text);
            return text;
        }
        return decode(address, length);
    }

    private String escaped(long address, int length) {
        if (length > ShortTexts.BYTES_MAX) {
            return unescape(decode(address, length));
        }
        String known = shortTexts.find(address, length, ESCAPED);
        if (known != null) {
            return known;
        }
        String text = unescape(decode(address, length));
        shortTexts.store(length, ESCAPED, text);
        return text;
    }

    private String decode(long address, int length) {
        return new String(read(address, length), 0, length, StandardCharsets.UTF_8);
    }

    /** Returns an array that begins with a copy of memory. The array is valid until the next call. */
    byte[] read(long address, int length) {
        byte[] bytes = scratch;
        if (length > bytes.length) {
            bytes = new byte[Math.max(length, bytes.length * 2)];
            if (bytes.length <= KEPT_BYTES_MAX) {
                scratch = bytes;
            }
        }
        Memory.read(address, bytes, length);
        return bytes;
    }

    private Object integer(long address, int length) {
        return isLong(address, length) ? (Object) parsed : new BigInteger(text(address, length));
    }

    private Object time(long address, int length) {
        String text = decode(address, length);
        Instant time = Times.parse(text);
        return time == null ? text : time;
    }

    /** Returns whether a text is an integer in the range of a long, and stores the integer in {@code parsed}. */
    private boolean isLong(long address, int length) {
        int sign = length > 0 && Memory.getByte(address) == '-' ? 1 : 0;
        int digits = length - sign;
        if (digits <= 0 || digits > SAFE_DIGITS) {
            return digits > 0 && isLargeLong(address, length);
        }
        long value = 0;
        for (int at = sign; at < length; at++) {
            int digit = Memory.getByte(address + at) - '0';
            if (digit < 0 || digit > 9) {
                return false;
            }
            value = value * 10 + digit;
        }
        parsed = sign == 0 ? value : -value;
        return true;
    }

    private boolean isLargeLong(long address, int length) {
        String text = decode(address, length);
        parsed = integer(text, 0);
        // A result of 0 is either a valid zero or the default. A second default tells them apart.
        return parsed != 0 || integer(text, 1) == 0;
    }

    /** Returns the text that the contents of a JSON string represent. */
    static String unescape(String escaped) {
        int next = escaped.indexOf('\\');
        if (next < 0) {
            return escaped;
        }
        StringBuilder text = new StringBuilder(escaped.length());
        int from = 0;
        while (next >= 0 && next + 1 < escaped.length()) {
            text.append(escaped, from, next);
            from = appendEscape(text, escaped, next + 1);
            next = escaped.indexOf('\\', from);
        }
        return text.append(escaped, from, escaped.length()).toString();
    }

    /** Appends the character that an escape represents. Returns the end of the escape. */
    private static int appendEscape(StringBuilder text, String escaped, int at) {
        char kind = escaped.charAt(at);
        if (kind == 'u' && at + 5 <= escaped.length()) {
            text.append((char) Integer.parseInt(escaped, at + 1, at + 5, 16));
            return at + 5;
        }
        int known = "bfnrt".indexOf(kind);
        text.append(known < 0 ? kind : "\b\f\n\r\t".charAt(known));
        return at + 1;
    }
}
