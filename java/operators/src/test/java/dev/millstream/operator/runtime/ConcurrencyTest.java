package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class ConcurrencyTest {
    private static final int WORKERS = 4;
    private static final int OPERATORS = 200;
    private static final int ROWS = 300;

    private final AtomicInteger current = new AtomicInteger(-1);
    private final AtomicBoolean isStopped = new AtomicBoolean();
    private final AtomicLong opened = new AtomicLong();
    private final AtomicLong closed = new AtomicLong();

    /** An operator that fails if it is used after it was closed, or by two threads. */
    private final class Checked implements dev.millstream.operator.Operator {
        private Thread user;
        private boolean isClosed;

        @Override
        public void open(dev.millstream.operator.Context context) {
            user = Thread.currentThread();
            opened.incrementAndGet();
        }

        @Override
        public void process(dev.millstream.operator.Row row) {
            if (isClosed || user != Thread.currentThread()) {
                throw new IllegalStateException("used by another thread, or after its end");
            }
            row.set("n", row.integer("n", 0) + 1);
        }

        @Override
        public void close() {
            isClosed = true;
            closed.incrementAndGet();
        }
    }

    private Long work() {
        long calls = 0;
        try (LocalWorker worker = new LocalWorker()) {
            while (!isStopped.get()) {
                try (LocalRequest request = new LocalRequest(ROWS)) {
                    LocalAnswer answer = worker.apply(current.get(), request);
                    assertEquals(List.of(), answer.failed());
                    assertEquals(1L, answer.changed().get("n")[ROWS - 1].value());
                    calls++;
                } catch (IllegalStateException error) {
                    assertEquals("unknown operator", error.getMessage());
                }
            }
        }
        return calls;
    }

    @Test
    void operatorsAreReplacedWhileWorkersCallThem() throws Exception {
        var threads = Executors.newFixedThreadPool(WORKERS);
        try {
            List<Future<Long>> workers = new ArrayList<>();
            for (int number = 0; number < WORKERS; number++) {
                workers.add(threads.submit(this::work));
            }
            for (int number = 0; number < OPERATORS; number++) {
                OperatorSpec spec = Jars.spec(java.nio.file.Path.of("none"), "Checked", Map.of());
                long before = opened.get();
                int old = current.getAndSet(LocalWorker.register(spec, List.of(new ClassRule(spec, Checked::new))));
                while (opened.get() == before) {
                    Thread.onSpinWait();
                }
                Bridge.remove(old);
            }
            isStopped.set(true);
            for (Future<Long> worker : workers) {
                assertTrue(worker.get() >= 0);
            }
            Bridge.remove(current.get());
        } finally {
            isStopped.set(true);
            threads.shutdown();
        }
        assertEquals(opened.get(), closed.get());
        assertTrue(opened.get() >= OPERATORS);
    }
}
