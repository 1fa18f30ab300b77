package dev.millstream.operator.runtime;

import java.time.DateTimeException;
import java.time.Instant;
import java.time.LocalDate;
import java.time.OffsetDateTime;

/** Converts times between instants, RFC 3339 text, and nanoseconds since 1970. Written text is in UTC. */
final class Times {
    /** Length of {@code 2026-01-02T03:04:05.123456789Z}. */
    static final int BYTES = 30;

    private static final long SECOND_NS = 1_000_000_000L;
    private static final int DAY_SECONDS = 86_400;
    /** The first and the last second of the four-digit years. */
    private static final long SECOND_MIN = -62_167_219_200L;
    private static final long SECOND_MAX = 253_402_300_799L;

    private Times() {}

    static Instant instant(long nanoseconds) {
        return Instant.ofEpochSecond(Math.floorDiv(nanoseconds, SECOND_NS), Math.floorMod(nanoseconds, SECOND_NS));
    }

    /** Returns whether a long can represent a time in nanoseconds since 1970. */
    static boolean isInNanoseconds(Instant time) {
        long second = time.getEpochSecond();
        return second > Long.MIN_VALUE / SECOND_NS && second < Long.MAX_VALUE / SECOND_NS;
    }

    /** Writes a time as {@link #BYTES} bytes. */
    static void write(Instant time, byte[] to, int start) {
        long second = time.getEpochSecond();
        if (second < SECOND_MIN || second > SECOND_MAX) {
            throw new WrongTypeException(time + " is not in the years 0000 to 9999");
        }
        LocalDate date = LocalDate.ofEpochDay(Math.floorDiv(second, DAY_SECONDS));
        int ofDay = Math.floorMod(second, DAY_SECONDS);
        digits(to, start, date.getYear(), 4, '-');
        digits(to, start + 5, date.getMonthValue(), 2, '-');
        digits(to, start + 8, date.getDayOfMonth(), 2, 'T');
        digits(to, start + 11, ofDay / 3600, 2, ':');
        digits(to, start + 14, ofDay / 60 % 60, 2, ':');
        digits(to, start + 17, ofDay % 60, 2, '.');
        digits(to, start + 20, time.getNano(), 9, 'Z');
    }

    private static void digits(byte[] to, int start, int value, int count, char end) {
        for (int at = count - 1; at >= 0; at--) {
            to[start + at] = (byte) ('0' + value % 10);
            value /= 10;
        }
        to[start + count] = (byte) end;
    }

    /**
     * Parses RFC 3339 text.
     *
     * @return null if the text is not a time
     */
    static Instant parse(String text) {
        Instant fast = parseUtc(text);
        if (fast != null) {
            return fast;
        }
        try {
            return OffsetDateTime.parse(text).toInstant();
        } catch (DateTimeException error) {
            return null;
        }
    }

    private static Instant parseUtc(String text) {
        int length = text.length();
        boolean isUtc = length >= 20 && length <= BYTES && text.charAt(length - 1) == 'Z' && (length == 20 || text.charAt(19) == '.');
        if (!isUtc || text.charAt(4) != '-' || text.charAt(7) != '-' || text.charAt(10) != 'T' || text.charAt(13) != ':') {
            return null;
        }
        int hour = number(text, 11, 13);
        int minute = number(text, 14, 16);
        int second = number(text, 17, 19);
        int fraction = length == 20 ? 0 : number(text, 20, length - 1);
        int month = number(text, 5, 7);
        int day = number(text, 8, 10);
        int year = number(text, 0, 4);
        boolean isValid = (hour | minute | second | fraction | month - 1 | day - 1 | year) >= 0
                && hour < 24 && minute < 60 && second < 60 && month <= 12 && day <= 28;
        if (!isValid || text.charAt(16) != ':') {
            return null;
        }
        for (int digits = length - 21; digits < 9 && length > 20; digits++) {
            fraction *= 10;
        }
        long days = LocalDate.of(year, month, day).toEpochDay();
        return Instant.ofEpochSecond(days * DAY_SECONDS + hour * 3600 + minute * 60 + second, fraction);
    }

    /** Parses digits as a number. Returns a negative number if there is any other character, or no digit. */
    private static int number(String text, int from, int to) {
        int number = from < to ? 0 : -1;
        for (int at = from; at < to; at++) {
            int digit = text.charAt(at) - '0';
            if (digit < 0 || digit > 9) {
                return -1;
            }
            number = number * 10 + digit;
        }
        return number;
    }
}
