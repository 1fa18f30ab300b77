package dev.millstream.client;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** A lock-free stack of indexes that contains each index at most once. Never allocates after construction. */
final class IndexStack {
    /** Marks an empty stack and the bottom of a stack. */
    static final int NONE = -1;

    private static final long INDEX_MASK = 0xFFFF_FFFFL;

    /** The top index in the low 32 bits, and a modification count in the high 32 bits, which prevents ABA errors. */
    private final AtomicLong top = new AtomicLong(INDEX_MASK);
    private final AtomicIntegerArray next;

    /** Creates an empty stack for indexes below {@code size}. */
    IndexStack(int size) {
        next = new AtomicIntegerArray(size);
    }

    boolean isEmpty() {
        return (int) top.get() == NONE;
    }

    void push(int index) {
        long current;
        do {
            current = top.get();
            next.set(index, (int) current);
        } while (!top.compareAndSet(current, withTop(current, index)));
    }

    /** Pops the top index, or returns {@link #NONE}. */
    int pop() {
        long current;
        int index;
        do {
            current = top.get();
            index = (int) current;
            if (index == NONE) {
                return NONE;
            }
        } while (!top.compareAndSet(current, withTop(current, next.get(index))));
        return index;
    }

    /** Pops all indexes into {@code out} in the order of the pushes. Returns the number of indexes. */
    int popAll(int[] out) {
        int index = (int) top.getAndUpdate(current -> withTop(current, NONE));
        int count = 0;
        for (; index != NONE; index = next.get(index)) {
            out[count++] = index;
        }
        for (int low = 0, high = count - 1; low < high; low++, high--) {
            int swapped = out[low];
            out[low] = out[high];
            out[high] = swapped;
        }
        return count;
    }

    private static long withTop(long current, int index) {
        return (current & ~INDEX_MASK) + (1L << 32) | index & INDEX_MASK;
    }
}
