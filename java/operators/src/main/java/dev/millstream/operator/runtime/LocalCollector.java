package dev.millstream.operator.runtime;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorStoppedException;
import dev.millstream.collector.Events;
import dev.millstream.operator.runtime.LocalEvents.LocalEvent;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/** Calls a collector on the current thread without an agent, for collector tests. */
public final class LocalCollector implements AutoCloseable {
    private final LoadedCollector collector;

    private LocalCollector(LoadedCollector collector) {
        this.collector = collector;
    }

    /**
     * Compiles a collector.
     *
     * @throws IllegalArgumentException if the source or one of the jars is invalid
     */
    public static LocalCollector of(CollectorSpec spec) {
        try {
            CollectorSpec parsed = Specs.parseCollector(Specs.json(spec));
            return new LocalCollector(new CollectorLoader(new Languages()).load(parsed));
        } catch (CompileException error) {
            String place = error.line() > 0 ? error.rule() + " line " + error.line() + ": " : "";
            throw new IllegalArgumentException(place + error.getMessage(), error);
        }
    }

    /** Uses a collector that the caller has created. */
    public static LocalCollector of(Collector collector, Map<String, Object> options) {
        String name = collector.getClass().getName();
        OperatorSpec code = new OperatorSpec("test", "class", List.of(), null, name, options, Map.of(), null, 0, List.of(), List.of());
        return new LocalCollector(new LoadedCollector(new CollectorSpec(code, List.of(), 0, 0, 1), collector, name, null));
    }

    /**
     * Calls the collector once.
     *
     * @param eventsMax number of events after which the source stops
     * @return the added events
     * @throws IllegalStateException if the call failed
     */
    public List<LocalEvent> call(long eventsMax) {
        Taker taker = new Taker();
        CallEvents events = new CallEvents(taker, 0, new AtomicLong());
        try {
            collector.call(new Limited(events, eventsMax, Thread.currentThread()));
        } catch (Throwable error) {
            if (events.added() < eventsMax) {
                throw new IllegalStateException(collector.text(error), error);
            }
        } finally {
            events.finish();
            Thread.interrupted();
        }
        return taker.taken;
    }

    /** Keeps all events. */
    private static final class Taker implements Delivery {
        private final List<LocalEvent> taken = new ArrayList<>();

        @Override
        public int deliver(long handle, long address, long bytes, int events) {
            taken.addAll(LocalEvents.read(address, bytes));
            return TAKEN;
        }

        @Override
        public void stopped(long handle) {}
    }

    /**
     * Stops a call after a number of events.
     *
     * @param caller the thread of the call
     */
    private record Limited(CallEvents events, long eventsMax, Thread caller) implements Events {
        @Override
        public void add(String message) {
            add(message, Map.of());
        }

        @Override
        public void add(String message, Map<String, ?> fields) {
            events.add(message, fields);
            if (events.added() >= eventsMax) {
                events.flush();
                events.refuse(CallEvents.STOPPING);
                caller.interrupt();
                throw new CollectorStoppedException(CallEvents.STOPPING);
            }
        }

        @Override
        public void flush() {
            events.flush();
        }
    }

    /** Returns the class loader of the collector's code. */
    ClassLoader loader() {
        return collector.loader();
    }

    /** Closes the collector. */
    @Override
    public void close() {
        collector.close();
        collector.release();
    }
}
