package dev.millstream.javaagent;

import dev.millstream.client.Counter;
import dev.millstream.client.LogLevel;
import dev.millstream.client.MetricClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.LongSupplier;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedThread;

/** Sends long events as log events, up to a maximum per second. */
final class SlowEvents {
    private static final int LOGS_PER_SECOND_MAX = 100;
    private static final long SECOND_NS = 1_000_000_000;

    private final MetricClient client;
    private final Duration threshold;
    private final boolean hasStack;
    private final LongSupplier clock;
    private final Counter dropped;
    private long secondStart;
    private int count;

    /** Creates a sender of events that last at least {@code threshold}; null sends no events. The clock returns nanoseconds. */
    SlowEvents(MetricClient client, Metrics metrics, Duration threshold, boolean hasStack, LongSupplier clock) {
        this.client = client;
        this.threshold = threshold;
        this.hasStack = hasStack;
        this.clock = clock;
        dropped = metrics.counter("jvm.agent.logs.dropped", metrics.process());
        secondStart = clock.getAsLong();
    }

    boolean isSlow(RecordedEvent event) {
        return threshold != null && event.getDuration().compareTo(threshold) >= 0;
    }

    /** Sends an event. {@code fields} contains alternating keys and values, in addition to the fields of every event. */
    void log(RecordedEvent event, String message, Tags tags, String... fields) {
        if (!isPermitted()) {
            dropped.increment();
            return;
        }
        List<String> all = new ArrayList<>(List.of("duration_ms", milliseconds(event.getDuration())));
        all.addAll(List.of(fields));
        all.addAll(List.of("thread", thread(event)));
        if (hasStack && event.getStackTrace() != null) {
            all.addAll(List.of("stack", Stacks.text(event.getStackTrace())));
        }
        String name = event.getEventType().getName();
        client.log(LogLevel.WARN, name, message, tags.text(), event.getStartTime(), all.toArray(new String[0]));
    }

    /** Counts a log event, and returns whether the limit of this second permits it. */
    boolean isPermitted() {
        long now = clock.getAsLong();
        if (now - secondStart >= SECOND_NS) {
            secondStart = now;
            count = 0;
        }
        return ++count <= LOGS_PER_SECOND_MAX;
    }

    private static String thread(RecordedEvent event) {
        RecordedThread thread = event.getThread();
        String name = thread == null ? null : thread.getJavaName() == null ? thread.getOSName() : thread.getJavaName();
        return name == null ? "" : name;
    }

    /** Formats a duration as milliseconds with one decimal. */
    static String milliseconds(Duration duration) {
        return String.format(Locale.ROOT, "%.1f", duration.toNanos() / 1e6);
    }
}
