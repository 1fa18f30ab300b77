package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.time.Instant;

/** Writes values to the answer buffer, and returns their cells. */
final class Encoder {
    /** Maximum length for which a loop over the characters is faster than a byte array. */
    private static final int SHORT_LENGTH = 24;

    private static final int LONG_DIGITS_MAX = 20;

    private final Out out;

    Encoder(Out out) {
        this.out = out;
    }

    /** Writes a value of any type that a field can have. */
    long value(Object value) {
        Object plain = Canonical.of(value);
        if (plain instanceof String text) {
            return text(text);
        }
        if (plain instanceof Long number) {
            return integer(number);
        }
        if (plain instanceof Boolean flag) {
            return Cells.of(flag);
        }
        if (plain == null) {
            return Cells.NULL;
        }
        if (plain instanceof Canonical.Decimal number) {
            return Cells.withKind(text(number.digits()), Layout.KIND_FLOAT);
        }
        if (plain instanceof Instant time) {
            return time(time);
        }
        if (plain instanceof java.math.BigInteger) {
            return Cells.withKind(text(plain.toString()), Layout.KIND_INT);
        }
        return bytes(plain instanceof java.util.Map ? Layout.KIND_OBJECT : Layout.KIND_ARRAY, Json.bytes(plain));
    }

    long text(String value) {
        int length = value.length();
        return length <= SHORT_LENGTH ? shortText(value, length) : bytes(Layout.KIND_TEXT, value.getBytes(StandardCharsets.UTF_8));
    }

    private long shortText(String value, int length) {
        byte[] to = out.stage(length);
        int start = out.stagedAt();
        for (int at = 0; at < length; at++) {
            char each = value.charAt(at);
            if (each >= 0x80) {
                return bytes(Layout.KIND_TEXT, value.getBytes(StandardCharsets.UTF_8));
            }
            to[start + at] = (byte) each;
        }
        return Cells.own(Layout.KIND_TEXT, out.appendStaged(length), length);
    }

    private long bytes(long kind, byte[] value) {
        if (value.length > Layout.CELL_LENGTH_MASK) {
            throw new OutputFullException();
        }
        if (value.length <= Out.STAGED_MAX) {
            byte[] to = out.stage(value.length);
            System.arraycopy(value, 0, to, out.stagedAt(), value.length);
            return Cells.own(kind, out.appendStaged(value.length), value.length);
        }
        Memory.write(value, value.length, out.room(value.length));
        return Cells.own(kind, out.append(value.length), value.length);
    }

    long integer(long value) {
        if (value == Long.MIN_VALUE) {
            return Cells.withKind(text(Long.toString(value)), Layout.KIND_INT);
        }
        byte[] to = out.stage(LONG_DIGITS_MAX);
        int start = out.stagedAt();
        long rest = Math.abs(value);
        int length = digits(rest) + (value < 0 ? 1 : 0);
        int at = start + length;
        do {
            long next = rest / 10;
            at--;
            to[at] = (byte) ('0' + rest - next * 10);
            rest = next;
        } while (rest > 0);
        if (value < 0) {
            to[start] = '-';
        }
        return Cells.own(Layout.KIND_INT, out.appendStaged(length), length);
    }

    private static int digits(long value) {
        int digits = 1;
        for (long limit = 10; digits < LONG_DIGITS_MAX - 1 && value >= limit; limit *= 10) {
            digits++;
        }
        return digits;
    }

    long number(double value) {
        if (!Double.isFinite(value)) {
            throw new WrongTypeException(value + " is not a valid number for a field");
        }
        return Cells.withKind(text(Double.toString(value)), Layout.KIND_FLOAT);
    }

    long time(Instant time) {
        Times.write(time, out.stage(Times.BYTES), out.stagedAt());
        return Cells.own(Layout.KIND_TIME, out.appendStaged(Times.BYTES), Times.BYTES);
    }
}
