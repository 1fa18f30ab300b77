package dev.millstream.operator.testkit;

import dev.millstream.collector.Collector;
import dev.millstream.operator.runtime.CollectorSpec;
import dev.millstream.operator.runtime.LocalCollector;
import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Calls a collector as the agent does, on a collector thread, and returns the events.
 *
 * <pre>{@code
 * try (CollectorTester tester = CollectorTester.groovy("events.add('ping')")) {
 *     assertEquals("ping", tester.collect().get(0).message());
 * }
 * }</pre>
 */
public final class CollectorTester implements AutoCloseable {
    private static final Duration TIMEOUT = Duration.ofSeconds(30);

    private final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
        Thread created = new Thread(task, "collector-tester");
        created.setDaemon(true);
        return created;
    });
    private final LocalCollector collector;
    private Duration timeout = TIMEOUT;

    private CollectorTester(LocalCollector collector) {
        this.collector = collector;
    }

    /** Creates a tester for a collector without options. */
    public static CollectorTester of(Collector collector) {
        return of(collector, Map.of());
    }

    /** Creates a tester for a collector with options. */
    public static CollectorTester of(Collector collector, Map<String, Object> options) {
        return new CollectorTester(LocalCollector.of(collector, options));
    }

    /**
     * Creates a tester for a Groovy script without options.
     *
     * @throws IllegalArgumentException if the script is invalid
     */
    public static CollectorTester groovy(String source) {
        return groovy(source, Map.of());
    }

    /**
     * Creates a tester for a Groovy script with options.
     *
     * @param allow additional classes that the script may use, or packages such as {@code redis.clients.jedis.*}; the class path must
     *     contain them
     * @throws IllegalArgumentException if the script is invalid
     */
    public static CollectorTester groovy(String source, Map<String, Object> options, String... allow) {
        List<RuleSource> rules = List.of(new RuleSource("script", source));
        OperatorSpec code = new OperatorSpec(
                "test", "groovy", rules, null, null, options, Map.of(), null, 0, List.of(allow), List.of());
        return of(new CollectorSpec(code, List.of(), 0, 0, 1));
    }

    /**
     * Creates a tester for a collector configuration, with the classes of its jars.
     *
     * @throws IllegalArgumentException if the source or one of its jars is invalid
     */
    public static CollectorTester of(CollectorSpec spec) {
        return new CollectorTester(LocalCollector.of(spec));
    }

    /** Sets the maximum duration of a call. The default is 30 s. */
    public CollectorTester timeout(Duration longest) {
        timeout = longest;
        return this;
    }

    /**
     * Calls the collector once.
     *
     * @throws IllegalStateException if the call fails or does not return in time
     */
    public List<Event> collect() {
        return call(Long.MAX_VALUE);
    }

    /** Calls the collector several times. Returns the events of each call; see {@link #collect()}. */
    public List<List<Event>> collectTimes(int calls) {
        List<List<Event>> all = new ArrayList<>();
        for (int call = 0; call < calls; call++) {
            all.add(collect());
        }
        return all;
    }

    /**
     * Calls a collector that blocks, and stops the collector after a number of events.
     *
     * @throws IllegalStateException if the call fails before that, or does not add enough events in time
     */
    public List<Event> collectUntil(int events) {
        return call(events);
    }

    private List<Event> call(long eventsMax) {
        return onThread(() -> collector.call(eventsMax).stream().map(CollectorTester::event).toList());
    }

    private static Event event(LocalEvent event) {
        return new Event(event.fields(), event.message(), event.time());
    }

    private <T> T onThread(Callable<T> task) {
        Future<T> result = thread.submit(task);
        try {
            return result.get(timeout.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause().getMessage(), error.getCause());
        } catch (TimeoutException error) {
            result.cancel(true);
            throw new IllegalStateException("the collector did not return within " + timeout.toMillis() + " ms", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    /** Closes the collector. */
    @Override
    public void close() {
        try {
            onThread(() -> {
                collector.close();
                return null;
            });
        } finally {
            thread.shutdownNow();
        }
    }
}
