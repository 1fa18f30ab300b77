package dev.millstream.operator.runtime;

/** The buffer of an answer. */
final class Out {
    private final Grower grower;
    private long request;
    private long address;
    private long capacity;
    private long used;
    /** Number of bytes that the rest of the answer needs behind the values. */
    private long reserved;

    Out(Grower grower) {
        this.grower = grower;
    }

    void begin(long newRequest) {
        request = newRequest;
        address = Memory.getLong(newRequest + Layout.REQUEST_OUT * 8);
        capacity = Memory.getLong(newRequest + Layout.REQUEST_OUT_BYTES * 8);
        used = 0;
        reserved = Layout.ANSWER_WORDS * 8 + 8;
    }

    long address() {
        return address;
    }

    long used() {
        return used;
    }

    /** Returns the address of free space. */
    long room(long bytes) {
        if (used + bytes + reserved > capacity) {
            grow(bytes);
        }
        return address + used;
    }

    /** Appends the bytes that were written at the address that {@link #room} returned. Returns their offset. */
    long append(long bytes) {
        long start = used;
        used = start + bytes;
        return start;
    }

    /** Keeps space for the rest of the answer. */
    void reserve(long bytes) {
        if (used + bytes + reserved > capacity) {
            grow(bytes);
        }
        reserved += bytes;
    }

    /** Begins the rest of the answer: words. Returns the number of bytes with values. */
    long endValues() {
        long values = used;
        reserved = 0;
        align();
        return values;
    }

    /** Goes to the next word. */
    void align() {
        long padding = -used & 7;
        room(padding);
        append(padding);
    }

    private void grow(long bytes) {
        long needed = used + bytes + reserved;
        if (needed > Layout.OUT_BYTES_MAX) {
            throw new OutputFullException();
        }
        long call = Memory.getLong(request + Layout.REQUEST_CALL * 8);
        long wanted = Math.min(Math.max(needed, 2 * capacity), Layout.OUT_BYTES_MAX);
        long moved = grower.grow(call, used, wanted);
        if (moved == 0) {
            throw new OutputFullException();
        }
        // First the address: if the stack ends here, the buffer only seems smaller than it is.
        address = moved;
        capacity = Memory.getLong(request + Layout.REQUEST_OUT_BYTES * 8);
    }
}
