package dev.millstream.javaagent;

import dev.millstream.client.Counter;
import dev.millstream.client.MetricClient;
import dev.millstream.client.Store;
import dev.millstream.client.Timer;
import java.util.function.Function;

/** Creates client handles with the tags of this process, and bounds the number of handles. */
final class Metrics {
    private final MetricClient client;
    private final Tags process;
    private final int bound;
    private final Counter dropped;
    private long reported;

    /** Creates handles for up to {@code bound} values of a tag. */
    Metrics(MetricClient client, Tags process, int bound) {
        this.client = client;
        this.process = process;
        this.bound = bound;
        dropped = counter("jvm.agent.points.dropped", process());
    }

    /** Returns the tags of every metric and log event. */
    Tags process() {
        return process;
    }

    Timer timer(String name, Tags tags) {
        return client.timer(name, tags.pairs());
    }

    Counter counter(String name, Tags tags) {
        return client.counter(name, tags.pairs());
    }

    Store store(String name) {
        return client.store(name, process.pairs());
    }

    /** Returns a map of handles by key. */
    <K, V> Bounded<K, V> bounded(K otherKey, Function<K, V> create) {
        return new Bounded<>(bound, otherKey, create);
    }

    /** Returns a map of handles by the value of one tag. */
    <V> Bounded<String, V> byTag(String key, Function<Tags, V> create) {
        return bounded(Tags.OTHER, value -> create.apply(process.with(key, value)));
    }

    /** Adds the points that the client has dropped since the previous call. */
    void reportDropped() {
        long now = client.stats().dropped();
        dropped.add(now - reported);
        reported = now;
    }
}
