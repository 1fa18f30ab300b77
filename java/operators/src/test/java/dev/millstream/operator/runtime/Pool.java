package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/** A thread pool with a {@link FakeAgent}, for collector tests. */
final class Pool {
    static final long HOUR_MS = Duration.ofHours(1).toMillis();

    private static final Duration PATIENCE = Duration.ofSeconds(120);

    final FakeAgent agent = new FakeAgent();
    private final CollectorPool pool;
    private final int threads;
    private final List<Map<String, Object>> calls = new ArrayList<>();
    private long omittedCalls;

    Pool(int threads, Duration grace) {
        pool = new CollectorPool(agent, grace.toNanos());
        this.threads = threads;
    }

    /** Creates a pool in which no call hangs, however busy the host is. */
    Pool(int threads) {
        this(threads, Duration.ofHours(1));
    }

    /** Registers a collector. */
    int add(Collector collector, long intervalMs, long timeoutMs) {
        OperatorSpec code = new OperatorSpec(
                "source", "class", List.of(), null, "Test", Map.of("limit", 7L), Map.of(), null, 0, List.of(), List.of());
        CollectorSpec spec = new CollectorSpec(code, List.of(), intervalMs, timeoutMs, threads);
        return pool.add(new LoadedCollector(spec, collector, "Test", null));
    }

    /** Registers a collector and starts calling it. The handle is the collector's id plus 100. */
    int start(Collector collector, long intervalMs, long timeoutMs) {
        int id = add(collector, intervalMs, timeoutMs);
        start(id);
        return id;
    }

    void start(int id) {
        pool.start(id, id + 100);
    }

    void stop(int id) {
        pool.stop(id);
    }

    int threads() {
        return (int) stats().get("threads");
    }

    @SuppressWarnings("unchecked")
    List<Map<String, Object>> collectors() {
        return (List<Map<String, Object>>) stats().get("collectors");
    }

    /** Returns the calls that have ended. */
    List<Map<String, Object>> calls() {
        stats();
        return calls;
    }

    /** Returns the number of calls that {@link #calls()} does not contain. */
    long omittedCalls() {
        stats();
        return omittedCalls;
    }

    @SuppressWarnings("unchecked")
    private Map<String, Object> stats() {
        Map<String, Object> stats = pool.stats();
        calls.addAll((List<Map<String, Object>>) stats.get("recent_calls"));
        omittedCalls += (long) stats.get("omitted_calls");
        return stats;
    }

    /** Returns the statistics of a collector; empty if the collector is gone. */
    Map<String, Object> stats(int id) {
        return collectors().stream().filter(each -> each.get("id").equals(id)).findFirst().orElse(Map.of());
    }

    long count(int id, String name) {
        return stats(id).get(name) instanceof Long count ? count : 0;
    }

    Object state(int id) {
        return stats(id).get("state");
    }

    void awaitState(int id, String state) {
        await(() -> state.equals(state(id)), () -> "state " + state + " of " + stats(id));
    }

    void awaitCount(int id, String name, long count) {
        await(() -> count(id, name) >= count, () -> count + " " + name + " of " + stats(id));
    }

    void awaitStopped(int id) {
        await(() -> agent.stopped().contains(id + 100L), () -> "end of " + stats(id));
    }

    static void await(BooleanSupplier condition, java.util.function.Supplier<String> what) {
        long start = System.nanoTime();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - start > PATIENCE.toNanos()) {
                throw new AssertionError("no " + what.get());
            }
            LockSupport.parkNanos(1_000_000);
        }
    }

    /** Waits and ignores interrupts, like code that hangs. */
    static void hang(CountDownLatch latch) {
        while (true) {
            try {
                latch.await();
                return;
            } catch (InterruptedException ignored) {
                continue;
            }
        }
    }

    /** Waits forever. */
    static void sleep() throws InterruptedException {
        TimeUnit.DAYS.sleep(1);
    }
}
