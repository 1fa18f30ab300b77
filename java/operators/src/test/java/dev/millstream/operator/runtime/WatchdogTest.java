package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class WatchdogTest {
    private static final long TIMEOUT_MS = 20;

    private final LocalWorker worker = new LocalWorker();

    @AfterEach
    void end() {
        worker.close();
    }

    private LocalAnswer run(int rows, Rule... rules) {
        int operator = Operators.register(TIMEOUT_MS, rules);
        try (LocalRequest request = new LocalRequest(rows)) {
            for (int row = 0; row < rows; row++) {
                request.set(row, "n", (long) row);
            }
            return worker.apply(operator, request);
        } finally {
            Bridge.remove(operator);
        }
    }

    private static void spinUntilInterrupted() {
        while (!Thread.currentThread().isInterrupted()) {
            Thread.onSpinWait();
        }
    }

    private static LocalAnswer.Failed late(int row, int rule) {
        return new LocalAnswer.Failed(row, Layout.REASON_TIMEOUT, rule, "exceeds its timeout of 20 ms");
    }

    @Test
    void anEndlessRowFails() {
        LocalAnswer answer = run(5, row -> {}, row -> {
            row.set("a", 1);
            if (row.integer("n", 0) % 2 == 1) {
                spinUntilInterrupted();
                throw new IllegalStateException("interrupted");
            }
        });
        assertEquals(List.of(late(1, 1), late(3, 1)), answer.failed());
        assertEquals(null, answer.changed().get("a")[1]);
        assertEquals(1L, answer.changed().get("a")[2].value());
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void aRowThatSleepsFails() {
        LocalAnswer answer = run(2, row -> Thread.sleep(row.integer("n", 0) == 0 ? Long.MAX_VALUE : 0));
        assertEquals(List.of(late(0, 0)), answer.failed());
    }

    @Test
    void aRowThatIgnoresItsInterruptLeavesNoneForOthers() {
        LocalAnswer answer = run(4, row -> {
            if (row.integer("n", 0) == 0) {
                spinUntilInterrupted();
            } else if (Thread.interrupted()) {
                throw new IllegalStateException("hit by the interrupt of another row");
            }
        });
        assertEquals(List.of(), answer.failed());
        LocalAnswer last = run(1, row -> spinUntilInterrupted());
        assertEquals(List.of(), last.failed());
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void aRowThatClearsItsInterruptIsInterruptedAgain() {
        LocalAnswer answer = run(1, row -> {
            spinUntilInterrupted();
            Thread.interrupted();
            spinUntilInterrupted();
            throw new IllegalStateException();
        });
        assertEquals(List.of(late(0, 0)), answer.failed());
    }

    @Test
    void interruptsHitOnlyTheRowThatIsLate() {
        // These rows end at about the time when the watchdog checks.
        int rows = 120;
        LocalAnswer answer = run(rows, row -> {
            long n = row.integer("n", 0);
            if (n % 2 == 0) {
                long end = System.nanoTime() + TIMEOUT_MS * 1_000_000 + n % 20 * 500_000;
                while (System.nanoTime() < end) {
                    Thread.onSpinWait();
                }
            } else if (Thread.currentThread().isInterrupted()) {
                throw new IllegalStateException("hit by the interrupt of another row");
            }
        });
        assertEquals(List.of(), answer.failed());
        assertTrue(IntStream.range(0, 10).noneMatch(at -> Thread.interrupted()));
    }

    @Test
    void anInterruptByTheRuleItselfEndsWithTheCall() {
        assertEquals(List.of(), run(3, row -> Thread.currentThread().interrupt()).failed());
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void anInterruptByTheRuleItselfDoesNotReachLaterRows() {
        List<Boolean> seen = new ArrayList<>();
        Rule rule = row -> {
            seen.add(Thread.currentThread().isInterrupted());
            Thread.currentThread().interrupt();
        };
        assertEquals(List.of(), run(3, rule, rule).failed());
        assertEquals(Collections.nCopies(6, false), seen);
        seen.clear();
        int operator = Operators.register(0, rule);
        try (LocalRequest request = new LocalRequest(2)) {
            worker.apply(operator, request);
        } finally {
            Bridge.remove(operator);
        }
        assertEquals(List.of(false, false), seen);
    }

    @Test
    void anInterruptByOpenDoesNotReachTheRows() {
        List<Boolean> seen = new ArrayList<>();
        for (AutoCloseable operator : List.of(new InterruptsItself(seen), new InterruptsBatches(seen))) {
            int id = LocalWorker.register(operator, Map.of());
            try (LocalRequest request = new LocalRequest(1)) {
                assertEquals(List.of(), worker.apply(id, request).failed());
            } finally {
                Bridge.remove(id);
            }
        }
        assertEquals(List.of(false, false), seen);
    }

    private record InterruptsItself(List<Boolean> seen) implements Operator {
        @Override
        public void open(Context context) {
            Thread.currentThread().interrupt();
        }

        @Override
        public void process(Row row) {
            seen.add(Thread.currentThread().isInterrupted());
        }
    }

    private record InterruptsBatches(List<Boolean> seen) implements BatchOperator {
        @Override
        public void open(Context context) {
            Thread.currentThread().interrupt();
        }

        @Override
        public void process(Batch batch) {
            seen.add(Thread.currentThread().isInterrupted());
        }
    }

    @Test
    void theWatchdogSleepsWhileNoCallRuns() {
        run(1, row -> {});
        Thread watchdog = Thread.getAllStackTraces().keySet().stream()
                .filter(each -> each.getName().equals("jvm-watchdog"))
                .findFirst()
                .get();
        assertTrue(watchdog.isDaemon());
        while (watchdog.getState() != Thread.State.WAITING) {
            LockSupport.parkNanos(1_000_000);
        }
        assertEquals(List.of(late(0, 0)), run(1, row -> Thread.sleep(Long.MAX_VALUE)).failed());
    }
}
