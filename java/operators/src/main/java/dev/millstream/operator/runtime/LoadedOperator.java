package dev.millstream.operator.runtime;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** A registered operator. */
final class LoadedOperator {
    private final OperatorSpec spec;
    private final List<CompiledRule> rules;
    private final JarLoader loader;
    /** Number of open instances, plus one until the operator is removed. */
    private final AtomicInteger users = new AtomicInteger(1);
    private final Map<Worker, Instance> instances = new ConcurrentHashMap<>();
    /** Counters of all workers, including workers that have ended. */
    private final List<RuleCounters> counters = new CopyOnWriteArrayList<>();
    private final AtomicBoolean hasLogged = new AtomicBoolean();
    private volatile boolean isRemoved;

    /**
     * Creates the operator.
     *
     * @param loader the context class loader that the operator's code expects, which is closed at the end; null for the agent's class
     *     loader
     */
    LoadedOperator(OperatorSpec spec, List<CompiledRule> rules, JarLoader loader) {
        this.spec = spec;
        this.rules = List.copyOf(rules);
        this.loader = loader;
    }

    List<CompiledRule> rules() {
        return rules;
    }

    ClassLoader loader() {
        return loader;
    }

    long rowTimeoutMs() {
        return spec.rowTimeoutMs();
    }

    String ruleName(int rule) {
        return spec.rules().isEmpty() ? spec.className() : spec.rules().get(rule).name();
    }

    /** Returns a worker's instance. Called on the worker's thread. */
    Instance instance(Worker worker) {
        Instance known = instances.get(worker);
        if (known != null) {
            return known;
        }
        Instance created = new Instance(this);
        users.incrementAndGet();
        counters.add(created.counters());
        instances.put(worker, created);
        if (isRemoved) {
            workerEnds(worker);
        }
        return created;
    }

    /** Closes a worker's instance. */
    void workerEnds(Worker worker) {
        Instance ended = instances.remove(worker);
        if (ended != null) {
            ended.remove();
        }
    }

    /** Closes the jar if all instances are closed and the operator was removed. */
    void release() {
        if (users.decrementAndGet() == 0 && loader != null) {
            loader.close();
        }
    }

    /** Closes all instances. An instance that is running is closed after its call. */
    void remove() {
        isRemoved = true;
        for (Worker worker : instances.keySet()) {
            workerEnds(worker);
        }
        release();
    }

    /** Logs the first exception of a {@code close} method. */
    void logClose(Throwable error) {
        if (!hasLogged.getAndSet(true)) {
            System.err.println("operator " + spec.component() + ": close: " + Thrown.text(error));
        }
    }

    /** Returns the counters of each rule. */
    List<Map<String, Object>> stats() {
        List<Map<String, Object>> stats = new ArrayList<>();
        for (int at = 0; at < rules.size(); at++) {
            int rule = at;
            Map<String, Object> each = new LinkedHashMap<>();
            each.put("name", ruleName(rule));
            each.put("rows", counters.stream().mapToLong(of -> of.rows(rule)).sum());
            each.put("failures", counters.stream().mapToLong(of -> of.failures(rule)).sum());
            each.put("ns", counters.stream().mapToLong(of -> of.ns(rule)).sum());
            stats.add(each);
        }
        return stats;
    }

    long rowTimeoutNs() {
        return TimeUnit.MILLISECONDS.toNanos(spec.rowTimeoutMs());
    }
}
