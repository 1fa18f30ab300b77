package dev.millstream.benchmarks;

import java.io.IOException;
import java.nio.channels.SocketChannel;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;

/** Combinations of a recorder of writes, a source of an event's peer data, and the event settings. */
public enum WriteCase {
    /** JFR is never initialized. */
    RECORDER_OFF(Writer.JDK, Data.NONE, Setting.NO_RECORDER),
    /** The JDK's event is off, as are all other events. */
    JDK_EVENT_OFF(Writer.JDK, Data.NONE, Setting.OFF),
    /** No write takes as long as the threshold. */
    JDK_BELOW(Writer.JDK, Data.NONE, Setting.BELOW),
    /** The JDK records every write. */
    JDK_ON(Writer.JDK, Data.NONE, Setting.ON),
    /** The same without the thread's stack. */
    JDK_ON_NO_STACK(Writer.JDK, Data.NONE, Setting.ON_NO_STACK),
    /** The JDK records every write, with an unlimited rate. */
    JDK_ON_THROTTLE_OFF(Writer.JDK, Data.NONE, Setting.ON_THROTTLE_OFF),
    /** The JDK records writes up to the rate in its {@code default} settings. */
    JDK_ON_THROTTLE_100(Writer.JDK, Data.NONE, Setting.ON_THROTTLE_100),
    /** An event object per write; the event is off. */
    INSTRUMENTED_EVENT_OFF(Writer.INSTRUMENTED, Data.STRINGS, Setting.OFF),
    /** An event object per write, below the threshold. */
    INSTRUMENTED_BELOW(Writer.INSTRUMENTED, Data.STRINGS, Setting.BELOW),
    /** An event object per write. Host and address come from string operations. */
    INSTRUMENTED_STRINGS(Writer.INSTRUMENTED, Data.STRINGS, Setting.ON),
    /** The same without the thread's stack. */
    INSTRUMENTED_STRINGS_NO_STACK(Writer.INSTRUMENTED, Data.STRINGS, Setting.ON_NO_STACK),
    /** An event object per write. Host and address come from the address's methods, without string operations. */
    INSTRUMENTED_METHODS(Writer.INSTRUMENTED, Data.METHODS, Setting.ON),
    /** The same without the thread's stack. */
    INSTRUMENTED_METHODS_NO_STACK(Writer.INSTRUMENTED, Data.METHODS, Setting.ON_NO_STACK),
    /** An event object per write. Host and address are cached per connection. */
    INSTRUMENTED_CACHED(Writer.INSTRUMENTED, Data.CACHED, Setting.ON),
    /** The same without the thread's stack. */
    INSTRUMENTED_CACHED_NO_STACK(Writer.INSTRUMENTED, Data.CACHED, Setting.ON_NO_STACK),
    /** Static methods; the event is off. */
    MIRROR_EVENT_OFF(Writer.MIRROR, Data.STRINGS, Setting.OFF),
    /** Static methods, below the threshold. */
    MIRROR_BELOW(Writer.MIRROR, Data.STRINGS, Setting.BELOW),
    /** Static methods. Host and address come from string operations. */
    MIRROR_STRINGS(Writer.MIRROR, Data.STRINGS, Setting.ON),
    /** The same without the thread's stack. */
    MIRROR_STRINGS_NO_STACK(Writer.MIRROR, Data.STRINGS, Setting.ON_NO_STACK),
    /** Static methods. Host and address come from the address's methods, without string operations. */
    MIRROR_METHODS(Writer.MIRROR, Data.METHODS, Setting.ON),
    /** The same without the thread's stack. */
    MIRROR_METHODS_NO_STACK(Writer.MIRROR, Data.METHODS, Setting.ON_NO_STACK),
    /** Static methods. Host and address are cached per connection. */
    MIRROR_CACHED(Writer.MIRROR, Data.CACHED, Setting.ON),
    /** The same without the thread's stack. */
    MIRROR_CACHED_NO_STACK(Writer.MIRROR, Data.CACHED, Setting.ON_NO_STACK),
    /** One event object per thread; the event is off. */
    REUSED_EVENT_OFF(Writer.REUSED, Data.CACHED, Setting.OFF),
    /** One event object per thread, below the threshold. */
    REUSED_BELOW(Writer.REUSED, Data.CACHED, Setting.BELOW),
    /** One event object per thread. Host and address are cached per connection. */
    REUSED_CACHED(Writer.REUSED, Data.CACHED, Setting.ON),
    /** The same without the thread's stack. */
    REUSED_CACHED_NO_STACK(Writer.REUSED, Data.CACHED, Setting.ON_NO_STACK);

    /** The code that a write passes through. */
    private enum Writer {
        JDK("jdk.SocketWrite"),
        INSTRUMENTED(WriteEvent.NAME),
        MIRROR(MirroredWriteEvent.NAME),
        REUSED(WriteEvent.NAME);

        private final String event;

        Writer(String event) {
            this.event = event;
        }
    }

    /** The source of host and address. */
    private enum Data { NONE, STRINGS, METHODS, CACHED }

    /** The event settings. */
    private enum Setting {
        NO_RECORDER(Map.of()),
        OFF(Map.of("enabled", "false")),
        BELOW(on(BELOW_THRESHOLD_MS + " ms", "true")),
        ON(on("0 ns", "true")),
        ON_NO_STACK(on("0 ns", "false")),
        ON_THROTTLE_OFF(on("0 ns", "true", "throttle", "off")),
        ON_THROTTLE_100(on("0 ns", "true", "throttle", "100/s"));

        private final Map<String, String> values;

        Setting(Map<String, String> values) {
            this.values = values;
        }

        private static Map<String, String> on(String threshold, String stackTrace) {
            return Map.of("enabled", "true", "threshold", threshold, "stackTrace", stackTrace);
        }

        private static Map<String, String> on(String threshold, String stackTrace, String name, String value) {
            return Map.of("enabled", "true", "threshold", threshold, "stackTrace", stackTrace, name, value);
        }
    }

    /** The threshold of the JDK's event in the {@code default} settings of JDK 17. */
    static final long BELOW_THRESHOLD_MS = 20;

    private final Writer writer;
    private final Data data;
    private final Setting setting;

    WriteCase(Writer writer, Data data, Setting setting) {
        this.writer = writer;
        this.data = data;
        this.setting = setting;
    }

    /** Prints the names of the cases that this JDK supports, one per line. */
    public static void main(String[] arguments) {
        Arrays.stream(values()).filter(WriteCase::isSupported).forEach(System.out::println);
    }

    private boolean isSupported() {
        if (!setting.values.containsKey("throttle")) {
            return true;
        }
        EventType type = FlightRecorder.getFlightRecorder().getEventTypes().stream()
                .filter(any -> any.getName().equals(writer.event)).findFirst().orElseThrow();
        return type.getSettingDescriptors().stream().anyMatch(any -> any.getName().equals("throttle"));
    }

    boolean hasRecorder() {
        return setting != Setting.NO_RECORDER;
    }

    /** Returns whether writes of usual duration are recorded. */
    boolean recordsAll() {
        return hasRecorder() && setting != Setting.OFF && setting != Setting.BELOW;
    }

    boolean recordsNone() {
        return !hasRecorder() || setting == Setting.OFF;
    }

    /** Returns the minimum duration of a recorded event. */
    long thresholdNs() {
        return setting == Setting.BELOW ? BELOW_THRESHOLD_MS * 1_000_000 : 0;
    }

    String event() {
        return writer.event;
    }

    /** Returns the event settings by name. A mirror event has a separate limit, because JFR treats its events as instants. */
    Map<String, String> settings() {
        if (writer != Writer.MIRROR) {
            return setting.values;
        }
        Map<String, String> settings = new HashMap<>(setting.values);
        settings.remove("threshold");
        settings.put(LimitControl.NAME, Long.toString(thresholdNs()));
        return settings;
    }

    /** Returns whether JFR itself measures the event's start and duration. */
    boolean hasDuration() {
        return writer != Writer.MIRROR;
    }

    ChannelWriter writer(SocketChannel channel) throws IOException {
        return switch (writer) {
            case JDK -> channel::write;
            case INSTRUMENTED -> new InstrumentedWriter(channel, lookup(channel));
            case MIRROR -> new MirrorWriter(channel, lookup(channel));
            case REUSED -> new ReusedEventWriter(channel, lookup(channel));
        };
    }

    private Peer.Lookup lookup(SocketChannel channel) throws IOException {
        return switch (data) {
            case NONE -> throw new IllegalStateException("the JDK determines the peer data itself");
            case STRINGS -> Peer::byStringWork;
            case METHODS -> Peer::byMethods;
            case CACHED -> Peer.cached(channel);
        };
    }
}
