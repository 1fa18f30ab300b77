package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;

class IndexStackTest {
    @Test
    void pop_is_lifo_and_pop_all_is_fifo() {
        IndexStack stack = new IndexStack(4);
        assertEquals(IndexStack.NONE, stack.pop());
        stack.push(2);
        stack.push(0);
        stack.push(3);
        assertEquals(3, stack.pop());
        int[] out = new int[4];
        assertEquals(2, stack.popAll(out));
        assertArrayEquals(new int[] {2, 0, 0, 0}, out);
        assertTrue(stack.isEmpty());
    }

    @Test
    void concurrent_threads_never_lose_or_share_an_index() throws InterruptedException {
        int size = 8;
        IndexStack stack = new IndexStack(size);
        AtomicIntegerArray owners = new AtomicIntegerArray(size);
        for (int index = 0; index < size; index++) {
            stack.push(index);
        }
        Thread[] threads = new Thread[4];
        Arrays.setAll(threads, at -> new Thread(() -> {
            for (int i = 0; i < 200_000; i++) {
                int index = stack.pop();
                if (index != IndexStack.NONE) {
                    // An index with concurrent owners keeps a nonzero count.
                    if (owners.incrementAndGet(index) == 1) {
                        owners.decrementAndGet(index);
                    }
                    stack.push(index);
                }
            }
        }));
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        int[] out = new int[size];
        assertEquals(size, stack.popAll(out));
        Arrays.sort(out);
        assertArrayEquals(new int[] {0, 1, 2, 3, 4, 5, 6, 7}, out);
        for (int index = 0; index < size; index++) {
            assertEquals(0, owners.get(index));
        }
    }
}
