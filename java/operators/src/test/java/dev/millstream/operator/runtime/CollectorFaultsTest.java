package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorStoppedException;
import dev.millstream.collector.Events;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Tests calls that take too long or do not end, and stops at any time. */
class CollectorFaultsTest {
    /** Time after which an interrupted call hangs. */
    private static final Duration GRACE = Duration.ofMillis(100);

    @Test
    void aCallThatExceedsItsTimeoutIsInterrupted() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            events.add("call " + calls.incrementAndGet());
            if (calls.get() == 1) {
                Pool.sleep();
            }
        }, 10, 50);
        pool.awaitCount(id, "events", 2);
        assertEquals(List.of("call 1", "call 2"), pool.agent.messages().subList(0, 2));
        assertTrue(pool.count(id, "failures") >= 1);
        assertEquals("exceeds its timeout of 50 ms", pool.stats(id).get("last_failure"));
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void aLoopThatAddsEventsIsEndedByItsTimeout() {
        Pool pool = new Pool(1);
        AtomicReference<Throwable> end = new AtomicReference<>();
        int id = pool.start(events -> {
            try {
                while (true) {
                    events.add("again");
                }
            } catch (CollectorStoppedException error) {
                end.set(error);
                throw error;
            }
        }, Pool.HOUR_MS, 20);
        pool.awaitCount(id, "failures", 1);
        assertEquals("exceeds its timeout of 20 ms", end.get().getMessage());
        assertEquals("exceeds its timeout of 20 ms", pool.stats(id).get("last_failure"));
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void aCallThatClearsItsInterruptIsInterruptedAgain() {
        Pool pool = new Pool(1, GRACE);
        AtomicInteger interrupts = new AtomicInteger();
        int id = pool.start(events -> {
            while (interrupts.get() < 3) {
                try {
                    Pool.sleep();
                } catch (InterruptedException error) {
                    interrupts.incrementAndGet();
                }
            }
        }, Pool.HOUR_MS, 20);
        Pool.await(() -> interrupts.get() == 3, () -> "third interrupt");
        pool.awaitState(id, "waiting");
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void aCallThatHangsKeepsItsThreadAndOthersContinue() {
        Pool pool = new Pool(2, GRACE);
        CountDownLatch latch = new CountDownLatch(1);
        AtomicInteger calls = new AtomicInteger();
        int hangs = pool.start(events -> {
            calls.incrementAndGet();
            Pool.hang(latch);
        }, 10, 20);
        int works = pool.start(events -> events.add("x"), 5, 0);
        pool.awaitState(hangs, "hangs");
        assertEquals(
                "hangs: the call exceeds its timeout of 20 ms and ignores the interrupt", pool.stats(hangs).get("last_failure"));
        assertEquals(1, pool.count(hangs, "failures"));
        pool.awaitCount(works, "calls", pool.count(works, "calls") + 10);
        assertEquals(2, pool.threads());
        assertEquals(1, calls.get(), "it is not called again before it returns");
        latch.countDown();
        pool.awaitCount(hangs, "calls", 2);
        assertTrue(pool.count(hangs, "missed") > 0);
        assertEquals(1, pool.count(hangs, "failures"));
        pool.stop(hangs);
        pool.stop(works);
        pool.awaitStopped(hangs);
        pool.awaitStopped(works);
    }

    @Test
    void aThousandCollectorsThatHangLeaveTheThreadsAtTheirBound() {
        Pool pool = new Pool(4, GRACE);
        CountDownLatch latch = new CountDownLatch(1);
        List<Integer> ids = new ArrayList<>();
        for (int at = 0; at < 1_000; at++) {
            ids.add(pool.start(events -> Pool.hang(latch), Pool.HOUR_MS, 1));
        }
        Pool.await(() -> count(pool, "hangs") == 4, () -> "four hanging calls: " + pool.collectors());
        assertEquals(996, count(pool, "queued"));
        assertEquals(4, pool.threads());
        ids.subList(500, 1_000).forEach(pool::stop);
        assertEquals(500, pool.agent.stopped().size(), "what is queued stops at once");
        latch.countDown();
        for (int id : ids.subList(0, 500)) {
            pool.awaitCount(id, "calls", 1);
        }
        ids.forEach(pool::stop);
        ids.forEach(pool::awaitStopped);
        assertEquals(1_000, new HashSet<>(pool.agent.stopped()).size());
        assertEquals(1_000, pool.agent.stopped().size());
        assertTrue(pool.threads() <= 5, "threads: " + pool.threads());
    }

    private static long count(Pool pool, String state) {
        return pool.collectors().stream().filter(each -> each.get("state").equals(state)).count();
    }

    @Test
    void aFloodWaitsForTheAgentWithoutATimeout() {
        Pool pool = new Pool(1, GRACE);
        pool.agent.full(true);
        AtomicInteger added = new AtomicInteger();
        int id = pool.start(events -> {
            while (added.get() < 100_000) {
                events.add("a flood of events");
                added.incrementAndGet();
            }
        }, Pool.HOUR_MS, 2_000);
        pool.awaitState(id, "blocked");
        pool.awaitCount(id, "running_ms", 2_500);
        assertEquals("blocked", pool.state(id));
        assertEquals(0, pool.count(id, "events"));
        assertEquals(0, pool.count(id, "failures"));
        long heldBytes = added.get() * 33L;
        assertTrue(heldBytes < ChunkLayout.CHUNK_BYTES + 100, "held: " + heldBytes);
        pool.agent.full(false);
        Pool.await(() -> !"blocked".equals(pool.state(id)), () -> "end of the wait");
        pool.stop(id);
        pool.awaitStopped(id);
        assertTrue(pool.agent.chunks().stream().allMatch(bytes -> bytes < ChunkLayout.CHUNK_BYTES + 100));
    }

    @Test
    void aFloodIsStoppedWhileItWaitsForTheAgent() {
        Pool pool = new Pool(1);
        pool.agent.full(true);
        AtomicReference<Throwable> end = new AtomicReference<>();
        AtomicBoolean isClosed = new AtomicBoolean();
        int id = pool.start(new Collector() {
            @Override
            public void collect(Events events) {
                try {
                    while (true) {
                        events.add("flood");
                    }
                } catch (RuntimeException error) {
                    end.set(error);
                    throw error;
                }
            }

            @Override
            public void close() {
                isClosed.set(true);
            }
        }, 0, 0);
        pool.awaitState(id, "blocked");
        pool.stop(id);
        assertEquals(List.of(), pool.agent.stopped());
        pool.agent.stopSources();
        pool.awaitStopped(id);
        assertEquals(CollectorStoppedException.class, end.get().getClass());
        assertTrue(isClosed.get());
        assertEquals(List.of(), pool.agent.events());
        assertEquals(List.of(100L), pool.agent.stopped());
    }

    @Test
    void aCollectorStopsWhileItRuns() {
        Pool pool = new Pool(1);
        List<String> life = new ArrayList<>();
        int id = pool.start(new Collector() {
            @Override
            public void collect(Events events) throws Exception {
                try {
                    Pool.sleep();
                } catch (InterruptedException error) {
                    life.add("interrupted");
                    throw error;
                }
            }

            @Override
            public void close() {
                life.add("closed, stopped: " + pool.agent.stopped() + ", interrupted: " + Thread.currentThread().isInterrupted());
            }
        }, 0, 0);
        pool.awaitState(id, "running");
        pool.stop(id);
        pool.stop(id);
        pool.awaitStopped(id);
        pool.stop(id);
        assertEquals(List.of("interrupted", "closed, stopped: [], interrupted: false"), life);
        assertEquals(List.of(100L), pool.agent.stopped());
    }

    @Test
    void aCollectorStopsWhileItIsQueued() {
        Pool pool = new Pool(1);
        AtomicBoolean isCalled = new AtomicBoolean();
        int running = pool.start(events -> Pool.sleep(), 0, 0);
        pool.awaitState(running, "running");
        int queued = pool.start(events -> isCalled.set(true), 0, 0);
        assertEquals("queued", pool.state(queued));
        pool.stop(queued);
        assertEquals(List.of(101L), pool.agent.stopped());
        pool.stop(running);
        pool.awaitStopped(running);
        assertFalse(isCalled.get());
        assertEquals(List.of(101L, 100L), pool.agent.stopped());
    }

    @Test
    void aCollectorThatWasNotStartedStopsWithoutAHandle() {
        Pool pool = new Pool(1);
        int id = pool.add(events -> {}, 0, 0);
        pool.stop(id);
        pool.start(id);
        assertEquals(List.of(), pool.collectors());
        assertEquals(List.of(), pool.agent.stopped());
        assertEquals(0, pool.threads());
    }

    @Test
    void aCollectorThatHangsStopsOnceItReturns() {
        Pool pool = new Pool(1, GRACE);
        CountDownLatch latch = new CountDownLatch(1);
        int id = pool.start(events -> Pool.hang(latch), 0, 0);
        pool.awaitState(id, "running");
        pool.stop(id);
        pool.awaitState(id, "hangs");
        assertEquals("hangs: the source is stopping, but the call ignores the interrupt", pool.stats(id).get("last_failure"));
        assertEquals(List.of(), pool.agent.stopped());
        latch.countDown();
        pool.awaitStopped(id);
        assertEquals(List.of(100L), pool.agent.stopped());
        assertEquals(List.of(), pool.collectors());
    }

    /** A collector that returns immediately, and runs a task when it is closed. */
    private record Closing(Runnable task) implements Collector {
        @Override
        public void collect(Events events) {}

        @Override
        public void close() {
            task.run();
        }
    }

    @Test
    void aCollectorIsClosedWhileAllThreadsAreBusy() {
        Pool pool = new Pool(1);
        AtomicReference<String> closer = new AtomicReference<>();
        int closed = pool.start(new Closing(() -> closer.set(Thread.currentThread().getName())), Pool.HOUR_MS, 0);
        pool.awaitCount(closed, "calls", 1);
        pool.awaitState(closed, "waiting");
        int busy = pool.start(events -> Pool.sleep(), 0, 0);
        pool.awaitState(busy, "running");
        pool.stop(closed);
        pool.awaitStopped(closed);
        assertTrue(closer.get().startsWith("collector-"), closer.get());
        Pool.await(() -> pool.threads() == 1, () -> "end of the thread that closed it");
        pool.stop(busy);
        pool.awaitStopped(busy);
    }

    @Test
    void closingThatHangsKeepsNoOtherFromItsEnd() {
        Pool pool = new Pool(1, Duration.ofSeconds(2));
        CountDownLatch latch = new CountDownLatch(1);
        List<Integer> ids = new ArrayList<>();
        for (int at = 0; at < 4; at++) {
            int id = pool.start(new Closing(() -> Pool.hang(latch)), Pool.HOUR_MS, 0);
            pool.awaitCount(id, "calls", 1);
            pool.awaitState(id, "waiting");
            ids.add(id);
        }
        ids.forEach(pool::stop);
        Pool.await(() -> pool.agent.stopped().size() == 2, () -> "end of the collectors that no thread closes");
        Pool.await(() -> count(pool, "hangs") == 2, () -> "two hanging calls: " + pool.collectors());
        assertEquals("hangs: close does not return", pool.collectors().get(0).get("last_failure"));
        assertEquals(2, pool.threads());
        latch.countDown();
        ids.forEach(pool::awaitStopped);
        assertEquals(4, pool.agent.stopped().size());
    }

    @Test
    void aCollectorThatCannotBeClosedStops() {
        Pool pool = new Pool(1);
        int id = pool.start(new Closing(() -> {
            throw new IllegalStateException("open");
        }), Pool.HOUR_MS, 0);
        pool.awaitCount(id, "calls", 1);
        pool.stop(id);
        pool.awaitStopped(id);
        assertEquals(List.of(), pool.collectors());
    }
}
