package dev.millstream.javaagent;

import dev.millstream.client.Counter;
import dev.millstream.client.Store;
import dev.millstream.client.Timer;
import java.util.List;
import jdk.jfr.consumer.RecordedClass;
import jdk.jfr.consumer.RecordedEvent;

/** JVM metrics: collections, safepoints, monitors, exceptions, allocation and CPU. */
final class RuntimeEvents {
    private final SlowEvents slow;
    private final Bounded<List<String>, Timer> collections;
    private final Timer pauses;
    private final Bounded<String, Timer> safepoints;
    private final Bounded<String, Monitor> monitors;
    private final Bounded<String, ExceptionCount> exceptions;
    private final Bounded<String, Counter> allocations;
    private final Store user;
    private final Store system;
    private final Store machine;

    /** Handles for the monitors of a class. */
    private record Monitor(Tags tags, Timer duration) {}

    RuntimeEvents(Metrics metrics, SlowEvents slow) {
        this.slow = slow;
        collections = metrics.bounded(List.of(Tags.OTHER, Tags.OTHER), key -> metrics.timer("jvm.gc.duration_ms",
            metrics.process().with("jvm.gc.name", key.get(0), "jvm.gc.cause", key.get(1))));
        pauses = metrics.timer("jvm.gc.pause_ms", metrics.process());
        safepoints = metrics.byTag("jvm.safepoint.operation", tags -> metrics.timer("jvm.safepoint.duration_ms", tags));
        monitors = metrics.byTag("class", tags -> new Monitor(tags, metrics.timer("jvm.monitor.enter.duration_ms", tags)));
        exceptions = metrics.bounded(Tags.OTHER, type -> new ExceptionCount(
            metrics.counter("jvm.exceptions", metrics.process().with("exception.type", type)), type.equals(Tags.OTHER)));
        allocations = metrics.byTag("class", tags -> metrics.counter("jvm.allocation.bytes", tags));
        user = metrics.store("jvm.cpu.user");
        system = metrics.store("jvm.cpu.system");
        machine = metrics.store("jvm.cpu.machine");
    }

    void collection(RecordedEvent event) {
        List<String> key = List.of(text(event, "name"), text(event, "cause"));
        collections.get(key).record(milliseconds(event));
    }

    void pause(RecordedEvent event) {
        pauses.record(milliseconds(event));
    }

    void operation(RecordedEvent event) {
        if (event.getBoolean("safepoint")) {
            safepoints.get(text(event, "operation")).record(milliseconds(event));
        }
    }

    void monitor(RecordedEvent event) {
        String type = type(event.getClass("monitorClass"));
        Monitor monitor = monitors.get(type);
        monitor.duration.record(milliseconds(event));
        if (slow.isSlow(event)) {
            String duration = SlowEvents.milliseconds(event.getDuration());
            slow.log(event, "monitor of class " + type + " was entered after " + duration + " ms", monitor.tags);
        }
    }

    void exception(RecordedEvent event) {
        exceptions.get(type(event.getClass("thrownClass"))).addThrowable();
    }

    void error(RecordedEvent event) {
        exceptions.get(type(event.getClass("thrownClass"))).addError();
    }

    void allocation(RecordedEvent event) {
        allocations.get(type(event.getClass("objectClass"))).add(event.getLong("weight"));
    }

    void cpu(RecordedEvent event) {
        user.set(share(event, "jvmUser"));
        system.set(share(event, "jvmSystem"));
        machine.set(share(event, "machineTotal"));
    }

    /** Returns the shortest decimal that rounds to the event's 32-bit float. A cast would add digits. */
    private static double share(RecordedEvent event, String field) {
        return Double.parseDouble(Float.toString(event.getFloat(field)));
    }

    private static double milliseconds(RecordedEvent event) {
        return event.getDuration().toNanos() / 1e6;
    }

    private static String text(RecordedEvent event, String field) {
        String text = event.getString(field);
        return text == null ? "unknown" : text;
    }

    private static String type(RecordedClass type) {
        return type == null ? "unknown" : TypeNames.readable(type.getName());
    }
}
