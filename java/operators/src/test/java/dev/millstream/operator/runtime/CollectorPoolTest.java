package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.CollectorStoppedException;
import dev.millstream.collector.Events;
import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

class CollectorPoolTest {
    /** A collector that records its lifecycle. */
    private static class Noted implements Collector {
        final List<String> life = Collections.synchronizedList(new ArrayList<>());

        @Override
        public void open(CollectorContext context) throws Exception {
            life.add("open " + context.component() + " " + context.options());
        }

        @Override
        public void collect(Events events) throws Exception {
            life.add("collect");
            events.add("one");
        }

        @Override
        public void close() throws Exception {
            life.add("close");
        }
    }

    @Test
    void aCollectorIsOpenedCalledAndClosed() {
        Pool pool = new Pool(2);
        Noted collector = new Noted();
        int id = pool.add(collector, Pool.HOUR_MS, 0);
        assertEquals(List.of(), collector.life, "not called before its start");
        assertEquals("waiting", pool.state(id));
        pool.start(id);
        pool.awaitCount(id, "events", 1);
        pool.awaitState(id, "waiting");
        pool.stop(id);
        pool.awaitStopped(id);
        assertEquals(List.of("open source {limit=7}", "collect", "close"), collector.life);
        assertEquals(List.of("one"), pool.agent.messages());
        assertEquals(List.of(), pool.collectors());
        assertEquals(List.of(100L), pool.agent.stopped());
    }

    @Test
    void aCollectorWithAnIntervalIsCalledAgainAndAgain() {
        Pool pool = new Pool(1);
        AtomicReference<CollectorContext> context = new AtomicReference<>();
        Collector collector = new Collector() {
            @Override
            public void open(CollectorContext opened) {
                context.set(opened);
            }

            @Override
            public void collect(Events events) {
                Object calls = context.get().state().merge("calls", 1, (a, b) -> (Integer) a + (Integer) b);
                events.add("call", Map.of("n", calls));
            }
        };
        int id = pool.start(collector, 5, 0);
        pool.awaitCount(id, "events", 4);
        List<LocalEvent> events = pool.agent.events();
        assertEquals(List.of(1L, 2L, 3L, 4L), events.stream().limit(4).map(event -> event.fields().get("n")).toList());
        assertThrows(UnsupportedOperationException.class, () -> context.get().options().put("a", 1));
        assertEquals(1, pool.threads());
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void intervalsThatPassDuringACallAreMissed() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            if (calls.incrementAndGet() == 1) {
                Thread.sleep(1_050);
            }
        }, 100, 0);
        pool.awaitCount(id, "calls", 2);
        assertTrue(pool.count(id, "missed") >= 10, pool.stats(id).toString());
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void aBlockingCollectorIsCalledAgainWhenItReturnsAndItsEventsAreSentWhenItFlushes() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            events.add("call " + calls.incrementAndGet());
            if (calls.get() == 3) {
                events.flush();
                Pool.sleep();
            }
        }, 0, 0);
        pool.awaitCount(id, "events", 3);
        pool.awaitState(id, "running");
        assertEquals(List.of("call 1", "call 2", "call 3"), pool.agent.messages());
        assertTrue(pool.count(id, "running_ms") >= 0);
        pool.stop(id);
        pool.awaitStopped(id);
        assertEquals(3, calls.get());
    }

    @Test
    void pausesOfABlockingCollectorDoubleUntilItHasEvents() {
        CollectorBackoff backoff = new CollectorBackoff();
        List<Long> pauses = new ArrayList<>();
        for (int call = 0; call < 11; call++) {
            pauses.add(backoff.pauseNs(call % 2 == 0, 0, 1) / 1_000_000);
        }
        assertEquals(List.of(100L, 200L, 400L, 800L, 1600L, 3200L, 6400L, 12800L, 25600L, 30000L, 30000L), pauses);
        assertEquals(0, backoff.pauseNs(false, 0, CollectorBackoff.MIN_NS), "a call that waited for events");
        assertEquals(CollectorBackoff.MAX_NS, backoff.pauseNs(true, 0, CollectorBackoff.MAX_NS));
        assertEquals(CollectorBackoff.MIN_NS, backoff.pauseNs(true, 0, CollectorBackoff.MAX_NS + 1));
        assertEquals(2 * CollectorBackoff.MIN_NS, backoff.pauseNs(true, 0, 1));
        assertEquals(0, backoff.pauseNs(false, 1, 1));
        assertEquals(CollectorBackoff.MIN_NS, backoff.pauseNs(true, 0, 1));
    }

    @Test
    void anExceptionIsCountedAndWhatWasAddedBeforeIsSent() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            events.add("call " + calls.incrementAndGet());
            throw new IllegalStateException("no");
        }, 0, 0);
        pool.awaitCount(id, "failures", 2);
        assertEquals(List.of("call 1", "call 2"), pool.agent.messages().subList(0, 2));
        String failure = (String) pool.stats(id).get("last_failure");
        assertTrue(failure.startsWith("java.lang.IllegalStateException: no"), failure);
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void errorsOfTheVirtualMachineAreFailuresLikeOthers() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            switch (calls.incrementAndGet()) {
                case 1 -> throw new OutOfMemoryError("heap");
                case 2 -> recurse(0);
                case 3 -> throw new NoClassDefFoundError("x/Y");
                default -> events.add("alive");
            }
        }, 1, 0);
        pool.awaitCount(id, "events", 1);
        assertEquals(3, pool.count(id, "failures"));
        assertEquals("java.lang.NoClassDefFoundError: x/Y; add the jar that contains this class to `jars`",
                pool.stats(id).get("last_failure"));
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void callsThatHaveEndedAreReportedOnce() {
        Pool pool = new Pool(1);
        AtomicInteger calls = new AtomicInteger();
        int id = pool.start(events -> {
            events.add("abc");
            switch (calls.incrementAndGet()) {
                case 1 -> events.add("de", Map.of("n", 1));
                case 2 -> throw new IllegalStateException("no");
                default -> Pool.sleep();
            }
        }, 1, 1_000);
        pool.awaitCount(id, "failures", 2);
        // A call is in the "running" state before its first statement has run.
        Pool.await(() -> calls.get() > 3, () -> "fourth call");
        pool.stop(id);
        pool.awaitStopped(id);
        List<Map<String, Object>> reported = pool.calls();
        assertEquals(calls.get(), reported.size());
        assertEquals(List.of("done", "failed", "timeout"), members(reported, "outcome").subList(0, 3));
        assertEquals(List.of(2L, 1L, 1L), members(reported, "rows").subList(0, 3));
        assertEquals(List.of(10L, 3L, 3L), members(reported, "bytes").subList(0, 3), "with \"n\":1, and without braces");
        Map<String, Object> last = reported.get(reported.size() - 1);
        assertTrue(Set.of("stopped", "timeout").contains(last.get("outcome")), last.toString());
        assertEquals("source", last.get("component"));
        assertTrue((long) reported.get(2).get("took_us") >= 1_000_000, reported.toString());
        assertTrue((long) reported.get(2).get("ended_us_ago") >= 0, reported.toString());
        assertEquals(0, pool.omittedCalls());
    }

    private static List<Object> members(List<Map<String, Object>> of, String name) {
        return of.stream().map(each -> each.get(name)).toList();
    }

    @Test
    void aCallThatIsInterruptedBecauseItsSourceStopsIsReported() {
        Pool pool = new Pool(1);
        int id = pool.start(events -> {
            events.add("lost");
            Pool.sleep();
        }, 0, 0);
        pool.awaitState(id, "running");
        pool.stop(id);
        pool.awaitStopped(id);
        assertEquals(List.of("stopped"), members(pool.calls(), "outcome"));
        assertEquals(List.of(0L), members(pool.calls(), "rows"));
    }

    private static int recurse(int depth) {
        return depth < 0 ? 0 : recurse(depth + 1) + recurse(depth + 2);
    }

    @Test
    void aCollectorThatCannotOpenIsClosedAndOpenedAgain() {
        Pool pool = new Pool(1);
        Noted collector = new Noted() {
            @Override
            public void open(CollectorContext context) throws Exception {
                super.open(context);
                if (life.size() == 1) {
                    throw new java.io.IOException("refused");
                }
            }
        };
        int id = pool.start(collector, 10, 0);
        pool.awaitCount(id, "events", 1);
        assertEquals(1, pool.count(id, "failures"));
        assertEquals("java.io.IOException: refused", ((String) pool.stats(id).get("last_failure")).replaceAll(" \\(.*", ""));
        String open = "open source {limit=7}";
        assertEquals(List.of(open, "close", open, "collect"), collector.life.subList(0, 4));
        pool.stop(id);
        pool.awaitStopped(id);
    }

    @Test
    void garbageIsRefusedWhereItIsAdded() {
        Pool pool = new Pool(1);
        List<String> refusals = Collections.synchronizedList(new ArrayList<>());
        int id = pool.start(events -> {
            refusals.add(refusal(() -> events.add(null)));
            refusals.add(refusal(() -> events.add("a", null)));
            refusals.add(refusal(() -> events.add("a", Map.of("x", new Object()))));
            refusals.add(refusal(() -> events.add("a", Map.of("", 1))));
            refusals.add(refusal(() -> events.add("a", Map.of("timestamp", 1))));
            events.add("b", Map.of("timestamp", Instant.EPOCH));
        }, Pool.HOUR_MS, 0);
        pool.awaitCount(id, "events", 1);
        assertEquals(5, refusals.size());
        assertFalse(refusals.contains(null), refusals.toString());
        assertEquals(List.of(new LocalEvent("b", Map.of(), Instant.EPOCH)), pool.agent.events());
        pool.stop(id);
        pool.awaitStopped(id);
    }

    private static String refusal(Runnable task) {
        try {
            task.run();
            return null;
        } catch (IllegalArgumentException error) {
            return error.getMessage();
        }
    }

    @Test
    void eventsBelongToTheirCall() throws Exception {
        Pool pool = new Pool(1);
        AtomicReference<Events> kept = new AtomicReference<>();
        int id = pool.start(kept::set, Pool.HOUR_MS, 0);
        pool.awaitCount(id, "calls", 1);
        pool.awaitState(id, "waiting");
        assertThrows(CollectorStoppedException.class, () -> kept.get().add("late"));
        assertThrows(CollectorStoppedException.class, () -> kept.get().flush());
        assertEquals(List.of(), pool.agent.events());
        pool.stop(id);
        assertThrows(CollectorStoppedException.class, () -> kept.get().add("later"));
        pool.awaitStopped(id);
    }

    @Test
    void aThreadOfTheCollectorDeliversNothingAfterTheEnd() throws Exception {
        Pool pool = new Pool(1);
        AtomicReference<Thread> writer = new AtomicReference<>();
        AtomicReference<Throwable> end = new AtomicReference<>();
        int id = pool.start(events -> {
            Thread thread = new Thread(() -> {
                try {
                    while (true) {
                        events.add("x");
                        events.flush();
                    }
                } catch (Throwable error) {
                    end.set(error);
                }
            });
            writer.set(thread);
            thread.start();
            Pool.await(() -> pool.agent.events().size() > 10, () -> "event");
            Pool.sleep();
        }, 0, 0);
        pool.awaitCount(id, "events", 10);
        pool.stop(id);
        pool.awaitStopped(id);
        writer.get().join();
        assertEquals(CollectorStoppedException.class, end.get().getClass());
    }

    @Test
    void dueCollectorsShareTheThreadsInTheOrderOfTheirTime() {
        Pool pool = new Pool(3);
        Set<String> names = Collections.synchronizedSet(new HashSet<>());
        List<Integer> ids = new ArrayList<>();
        for (int at = 0; at < 200; at++) {
            ids.add(pool.start(events -> names.add(Thread.currentThread().getName()), 20, 0));
        }
        for (int id : ids) {
            pool.awaitCount(id, "calls", 3);
        }
        assertTrue(pool.threads() <= 3);
        assertTrue(names.stream().allMatch(name -> name.startsWith("collector-")) && names.size() <= 3, names.toString());
        ids.forEach(pool::stop);
        ids.forEach(pool::awaitStopped);
        assertEquals(200, new HashSet<>(pool.agent.stopped()).size());
        assertEquals(200, pool.agent.stopped().size());
    }

    @Test
    void aThreadIsLeftAsItWasForTheNextCollector() {
        Pool pool = new Pool(1);
        List<Object> seen = Collections.synchronizedList(new ArrayList<>());
        ClassLoader loader = CollectorPool.class.getClassLoader();
        int dirty = pool.start(events -> {
            Thread.currentThread().interrupt();
            Thread.currentThread().setContextClassLoader(null);
        }, Pool.HOUR_MS, 0);
        pool.awaitCount(dirty, "calls", 1);
        int clean = pool.start(events -> {
            seen.add(Thread.currentThread().isInterrupted());
            seen.add(Thread.currentThread().getContextClassLoader() == loader);
        }, Pool.HOUR_MS, 0);
        pool.awaitCount(clean, "calls", 1);
        pool.awaitState(clean, "waiting");
        assertEquals(List.of(false, true), seen);
        assertNull(pool.stats(clean).get("last_failure"));
        pool.stop(dirty);
        pool.stop(clean);
        pool.awaitStopped(dirty);
        pool.awaitStopped(clean);
    }
}
