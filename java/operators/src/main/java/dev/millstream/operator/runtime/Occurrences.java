package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Finds texts in the message of a row. A search for a later occurrence of the same text continues the previous search. */
final class Occurrences {
    /** Number of remembered texts. */
    private static final int TEXTS = 16;
    private static final long ONES = 0x0101010101010101L;
    private static final long HIGH_BITS = 0x8080808080808080L;

    private final String[] texts = new String[TEXTS];
    private final byte[][] wanted = new byte[TEXTS][];
    /** Ends of the occurrences that were found. */
    private final int[][] ends = new int[TEXTS][];
    private final int[] counts = new int[TEXTS];
    private final boolean[] isComplete = new boolean[TEXTS];
    private int next;

    /** Discards the occurrences, because another message follows. */
    void begin() {
        Arrays.fill(counts, 0);
        Arrays.fill(isComplete, false);
    }

    /** Returns the offset after an occurrence, or -1 if there are fewer occurrences. */
    int end(String text, int index, long address, int length) {
        int entry = entry(text);
        while (counts[entry] <= index) {
            if (isComplete[entry] || !findNext(entry, address, length)) {
                return -1;
            }
        }
        return ends[entry][index];
    }

    private boolean findNext(int entry, long address, int length) {
        int count = counts[entry];
        int from = count == 0 ? 0 : ends[entry][count - 1];
        int found = indexOf(address, from, length, wanted[entry]);
        if (found < 0) {
            isComplete[entry] = true;
            return false;
        }
        if (count == ends[entry].length) {
            ends[entry] = Arrays.copyOf(ends[entry], count * 2);
        }
        ends[entry][count] = found + wanted[entry].length;
        counts[entry] = count + 1;
        return true;
    }

    /** Returns the offset of a text at or after {@code from}, or -1 if there is none. */
    int indexOf(String text, long address, int from, int length) {
        return indexOf(address, from, length, wanted[entry(text)]);
    }

    private int entry(String text) {
        for (int entry = 0; entry < TEXTS; entry++) {
            if (texts[entry] == text) {
                return entry;
            }
        }
        for (int entry = 0; entry < TEXTS; entry++) {
            if (text.equals(texts[entry])) {
                return entry;
            }
        }
        return add(text);
    }

    private int add(String text) {
        int entry = next;
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        int[] empty = new int[8];
        next = (next + 1) % TEXTS;
        texts[entry] = null;
        wanted[entry] = bytes;
        ends[entry] = empty;
        counts[entry] = 0;
        isComplete[entry] = false;
        texts[entry] = text;
        return entry;
    }

    private static int indexOf(long address, int from, int length, byte[] wanted) {
        int last = length - wanted.length;
        long pattern = (wanted[0] & 0xFF) * ONES;
        int at = from;
        while (at <= last) {
            if (at + 8 <= length) {
                long difference = Memory.getLong(address + at) ^ pattern;
                long zeros = difference - ONES & ~difference & HIGH_BITS;
                if (zeros == 0) {
                    at += 8;
                    continue;
                }
                // Skip to the first byte that matches. In big-endian order, each byte is compared instead.
                at += Memory.IS_LITTLE_ENDIAN ? Long.numberOfTrailingZeros(zeros) >>> 3 : 0;
            }
            if (at <= last && isAt(address + at, wanted)) {
                return at;
            }
            at++;
        }
        return -1;
    }

    private static boolean isAt(long address, byte[] wanted) {
        for (int at = 0; at < wanted.length; at++) {
            if (Memory.getByte(address + at) != wanted[at]) {
                return false;
            }
        }
        return true;
    }
}
