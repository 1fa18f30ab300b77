package dev.millstream.operator.runtime;

/**
 * The answer buffer.
 *
 * <p>Values are first written to an array and then copied in bulk, because the JIT compiles stores into arrays better than many stores into
 * memory.
 */
final class Out {
    /** Maximum length of a value that is written to the array. */
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
    /** Number of bytes that the rest of the answer needs after the values. */
    private long reserved;
    /** Number of bytes below OUT_BYTES_MAX that values leave for failures. */
    private long slack;
    /** Maximum end of the values plus the reserved bytes. */
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

    /** Copies all values to the buffer, and returns the buffer's address. */
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

    /** Returns an array that takes up to STAGED_MAX bytes, starting at {@link #stagedAt}. */
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

    /** Appends the bytes that were written to the array. Returns their offset. */
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

    /** Appends the bytes that were written at the address from {@link #room}. Returns their offset. */
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

    /** Reserves space for the rest of the answer. */
    void reserve(long bytes) {
        if (used + bytes + reserved > capacity) {
            grow(bytes, Layout.OUT_BYTES_MAX);
        }
        reserved += bytes;
    }

    /** Releases reserved space. */
    void release(long bytes) {
        reserved -= bytes;
    }

    /** Ends the values and begins the rest of the answer, which consists of words. Returns the number of value bytes. */
    long endValues() {
        long values = used;
        reserved = 0;
        slack = 0;
        setLimit();
        align();
        return values;
    }

    /** Moves to the next word. */
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
        // Set the address first: if the stack overflows here, the buffer only seems smaller than it is.
        address = moved;
        capacity = Memory.getLong(request + Layout.REQUEST_OUT_BYTES * 8);
        setLimit();
    }
}
