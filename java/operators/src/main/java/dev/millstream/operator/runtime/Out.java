package dev.millstream.operator.runtime;

/**
 * The buffer of an answer.
 *
 * <p>Values are first written into an array and copied in bulk: the JIT compiles stores into arrays better than many stores into memory.
 */
final class Out {
    /** Longest value that is written into the array. */
    static final int STAGED_MAX = 1 << 13;

    private static final int STAGE_BYTES = 1 << 16;
    private static final long SLACK_BYTES = 1 << 16;

    private final Grower grower;
    private long request;
    private long address;
    private long capacity;
    private long used;
    private final byte[] stage = new byte[STAGE_BYTES];
    /** Number of bytes at the end of the buffer that are still in the array. */
    private int staged;
    /** Number of bytes that the rest of the response needs after the values. */
    private long reserved;
    /** Number of bytes below OUT_BYTES_MAX that values leave to failures. */
    private long slack;
    /** Where values must end, with what is reserved. */
    private long limit;

    Out(Grower grower) {
        this.grower = grower;
    }

    /** Begins an answer for a number of rows. */
    void begin(long newRequest, int rows) {
        request = newRequest;
        slack = SLACK_BYTES + rows * Layout.FAILED_WORDS * 8;
        address = Memory.getLong(newRequest + Layout.REQUEST_OUT * 8);
        capacity = Memory.getLong(newRequest + Layout.REQUEST_OUT_BYTES * 8);
        used = 0;
        staged = 0;
        reserved = Layout.ANSWER_WORDS * 8 + 8;
        setLimit();
    }

    private void setLimit() {
        limit = Math.min(capacity, Layout.OUT_BYTES_MAX - slack);
    }

    /** Returns the address, where all values are. */
    long address() {
        if (staged > 0) {
            flush();
        }
        return address;
    }

    private void flush() {
        Memory.write(stage, staged, address + used - staged);
        staged = 0;
    }

    /** Returns an array that takes up to STAGED_MAX bytes from {@link #stagedAt} on. */
    byte[] stage(int bytes) {
        if (used + bytes + reserved > limit) {
            grow(bytes, Layout.OUT_BYTES_MAX - slack);
        }
        if (staged + bytes > STAGE_BYTES) {
            flush();
        }
        return stage;
    }

    int stagedAt() {
        return staged;
    }

    /** Appends the bytes that were written into the array. Returns their offset. */
    long appendStaged(int bytes) {
        long start = used;
        staged += bytes;
        used = start + bytes;
        return start;
    }

    long used() {
        return used;
    }

    /** Returns the address of free space. */
    long room(long bytes) {
        if (used + bytes + reserved > limit) {
            grow(bytes, Layout.OUT_BYTES_MAX - slack);
        }
        return address() + used;
    }

    /** Appends the bytes that were written at the address that {@link #room} returned. Returns their offset. */
    long append(long bytes) {
        long start = used;
        used = start + bytes;
        return start;
    }

    /** Drops the values after an offset. */
    void rewind(long offset) {
        staged = (int) Math.max(staged - (used - offset), 0);
        used = offset;
    }

    /** Keeps space for the rest of the answer. */
    void reserve(long bytes) {
        if (used + bytes + reserved > capacity) {
            grow(bytes, Layout.OUT_BYTES_MAX);
        }
        reserved += bytes;
    }

    /** Gives back space that was reserved. */
    void release(long bytes) {
        reserved -= bytes;
    }

    /** Begins the rest of the answer: words. Returns the number of bytes with values. */
    long endValues() {
        long values = used;
        reserved = 0;
        slack = 0;
        setLimit();
        align();
        return values;
    }

    /** Goes to the next word. */
    void align() {
        long padding = -used & 7;
        room(padding);
        append(padding);
    }

    private void grow(long bytes, long most) {
        long needed = used + bytes + reserved;
        if (needed > most) {
            throw new OutputFullException();
        }
        address();
        long call = Memory.getLong(request + Layout.REQUEST_CALL * 8);
        long wanted = Math.min(Math.max(needed, 2 * capacity), Layout.OUT_BYTES_MAX);
        long moved = grower.grow(call, used, wanted);
        if (moved == 0 && wanted > needed) {
            moved = grower.grow(call, used, needed);
        }
        if (moved == 0) {
            throw new OutputFullException();
        }
        // First the address: if the stack ends here, the buffer only seems smaller than it is.
        address = moved;
        capacity = Memory.getLong(request + Layout.REQUEST_OUT_BYTES * 8);
        setLimit();
    }
}
