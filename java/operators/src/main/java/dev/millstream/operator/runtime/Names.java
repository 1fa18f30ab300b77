package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;

/** Caches column names as strings, so that a call creates no strings. Names are interned, so most lookups compare only references. */
final class Names {
    /** Maximum number of entries, which is enough for any schema. Beyond this number, the table starts over. */
    private static final int ENTRIES_MAX = 8192;

    private byte[][] bytes = new byte[256][];
    private String[] names = new String[256];
    private int count;

    /** Returns the name at an address. */
    String name(long address, int length) {
        int mask = names.length - 1;
        int at = hash(address, length) & mask;
        while (names[at] != null) {
            if (isEqual(bytes[at], address, length)) {
                return names[at];
            }
            at = at + 1 & mask;
        }
        return add(Memory.bytes(address, length));
    }

    private String add(byte[] name) {
        String text = new String(name, StandardCharsets.UTF_8).intern();
        if (count * 2 >= names.length) {
            enlarge();
        }
        insert(name, text);
        return text;
    }

    private void enlarge() {
        byte[][] oldBytes = bytes;
        String[] oldNames = names;
        boolean isFull = count >= ENTRIES_MAX;
        int length = isFull ? 256 : oldNames.length * 2;
        bytes = new byte[length][];
        names = new String[length];
        count = 0;
        for (int at = 0; at < oldNames.length && !isFull; at++) {
            if (oldNames[at] != null) {
                insert(oldBytes[at], oldNames[at]);
            }
        }
    }

    private void insert(byte[] name, String text) {
        int mask = names.length - 1;
        int at = hash(name) & mask;
        while (names[at] != null) {
            at = at + 1 & mask;
        }
        bytes[at] = name;
        names[at] = text;
        count++;
    }

    private static int hash(long address, int length) {
        int hash = length;
        for (int at = 0; at < length; at++) {
            hash = hash * 31 + Memory.getByte(address + at);
        }
        return hash ^ hash >>> 15;
    }

    private static int hash(byte[] name) {
        int hash = name.length;
        for (byte each : name) {
            hash = hash * 31 + each;
        }
        return hash ^ hash >>> 15;
    }

    private static boolean isEqual(byte[] name, long address, int length) {
        if (name.length != length) {
            return false;
        }
        for (int at = 0; at < length; at++) {
            if (name[at] != Memory.getByte(address + at)) {
                return false;
            }
        }
        return true;
    }
}
