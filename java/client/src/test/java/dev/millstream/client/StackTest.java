package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicIntegerArray;
import org.junit.jupiter.api.Test;

class StackTest {
    @Test
    void numbers_come_back_in_either_order() {
        Stack stack = new Stack(4);
        assertEquals(Stack.NONE, stack.pop());
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
    void no_number_is_lost_or_given_twice_among_threads() throws InterruptedException {
        int size = 8;
        Stack stack = new Stack(size);
        AtomicIntegerArray owners = new AtomicIntegerArray(size);
        for (int number = 0; number < size; number++) {
            stack.push(number);
        }
        Thread[] threads = new Thread[4];
        Arrays.setAll(threads, at -> new Thread(() -> {
            for (int turn = 0; turn < 200_000; turn++) {
                int number = stack.pop();
                if (number != Stack.NONE) {
                    // Two owners at once leave a count that is not 1.
                    if (owners.incrementAndGet(number) == 1) {
                        owners.decrementAndGet(number);
                    }
                    stack.push(number);
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
        for (int number = 0; number < size; number++) {
            assertEquals(0, owners.get(number));
        }
    }
}
