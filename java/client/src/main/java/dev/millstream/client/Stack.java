package dev.millstream.client;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** A stack of small numbers, each at most once in it, that many threads use without waiting and without allocation. */
final class Stack {
    /** What is below the lowest number. */
    static final int NONE = -1;

    private static final long NUMBER = 0xFFFF_FFFFL;

    /** The topmost number, and above its 32 bits a count of changes: a top that comes again is not taken for the one before. */
    private final AtomicLong top = new AtomicLong(NUMBER);
    private final AtomicIntegerArray below;

    /** An empty stack for the numbers below {@code size}. */
    Stack(int size) {
        below = new AtomicIntegerArray(size);
    }

    boolean isEmpty() {
        return (int) top.get() == NONE;
    }

    void push(int number) {
        long seen;
        do {
            seen = top.get();
            below.set(number, (int) seen);
        } while (!top.compareAndSet(seen, changed(seen, number)));
    }

    /** The topmost number, or {@link #NONE}. */
    int pop() {
        long seen;
        int number;
        do {
            seen = top.get();
            number = (int) seen;
            if (number == NONE) {
                return NONE;
            }
        } while (!top.compareAndSet(seen, changed(seen, below.get(number))));
        return number;
    }

    /** Takes everything: writes it into {@code out}, what was pushed first stands first, and returns how many that are. */
    int popAll(int[] out) {
        int number = (int) top.getAndUpdate(seen -> changed(seen, NONE));
        int count = 0;
        for (; number != NONE; number = below.get(number)) {
            out[count++] = number;
        }
        for (int low = 0, high = count - 1; low < high; low++, high--) {
            int swapped = out[low];
            out[low] = out[high];
            out[high] = swapped;
        }
        return count;
    }

    private static long changed(long seen, int number) {
        return (seen & ~NUMBER) + (1L << 32) | number & NUMBER;
    }
}
