package dev.millstream.operator.runtime;

import java.util.Arrays;

/** Cache of decoded texts of up to 16 bytes, so that frequent texts are decoded once. */
final class ShortTexts {
    static final int BYTES_MAX = 16;

    /** Number of entries, a power of two. The table takes 90 KB. */
    private static final int ENTRIES = 4096;

    private final long[] first = new long[ENTRIES];
    private final long[] last = new long[ENTRIES];
    private final byte[] tags = new byte[ENTRIES];
    private final String[] texts = new String[ENTRIES];
    private long wantedFirst;
    private long wantedLast;

    ShortTexts() {
        Arrays.fill(tags, (byte) -1);
    }

    /**
     * Returns a stored text.
     *
     * @param tag 0, or another number below 8 for bytes that are decoded differently
     * @return null if there is none; the caller then decodes the text, and calls {@link #store}
     */
    String find(long address, int length, int tag) {
        load(address, length);
        int at = slot();
        boolean isSame = first[at] == wantedFirst && last[at] == wantedLast && tags[at] == (byte) (length | tag << 5);
        return isSame ? texts[at] : null;
    }

    /** Stores a text that {@link #find} has not found. */
    void store(int length, int tag, String text) {
        int at = slot();
        first[at] = wantedFirst;
        last[at] = wantedLast;
        texts[at] = text;
        tags[at] = (byte) (length | tag << 5);
    }

    private int slot() {
        long mixed = (wantedFirst ^ Long.rotateLeft(wantedLast, 29)) * 0x9E3779B97F4A7C15L;
        return (int) (mixed >>> 52);
    }

    private void load(long address, int length) {
        if (length >= 8) {
            wantedFirst = Memory.getLong(address);
            wantedLast = Memory.getLong(address + length - 8);
        } else if (length >= 4) {
            wantedFirst = Memory.getInt(address);
            wantedLast = Memory.getInt(address + length - 4);
        } else {
            wantedFirst = length == 0 ? 0 : Memory.getByte(address);
            wantedLast = length < 2 ? 0 : Memory.getByte(address + 1) << 8 | Memory.getByte(address + length - 1) & 0xFF;
        }
    }
}
