package dev.millstream.javaagent;

import dev.millstream.client.MetricClient;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Optional;
import java.util.function.Consumer;
import jdk.jfr.EventSettings;
import jdk.jfr.EventType;
import jdk.jfr.FlightRecorder;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordedThread;
import jdk.jfr.consumer.RecordingStream;

/** Records events with the JDK's flight recorder and forwards the events, all in the thread that calls {@link #run}. */
final class Recorder {
    /** Packet size that fits a log event with a stack. */
    private static final int PACKET_BYTES = 16 << 10;

    /** Limit of how long the agent delays the application's exit. */
    private static final Duration CLOSE_TIMEOUT = Duration.ofMillis(200);

    /** Limits of the recording on disk. The current chunk, 12 MB by default, is kept in addition. */
    private static final Duration AGE_MAX = Duration.ofSeconds(10);
    private static final long DISK_BYTES_MAX = 16 << 20;

    private static final Duration CPU_PERIOD = Duration.ofSeconds(1);

    /** Rate of allocation samples, as in the JDK's default settings. */
    private static final String ALLOCATION_RATE = "150/s";

    /** Number of flushes between searches for new event types. The stream flushes once per second. */
    private static final int TYPES_FLUSHES = 10;

    private final Options options;
    private final Metrics metrics;
    private final SlowEvents slow;
    private final RecordingStream stream;
    private int flushes;

    private Recorder(Options options, MetricClient client, RecordingStream stream) {
        this.options = options;
        this.stream = stream;
        metrics = new Metrics(client, processTags(options.service), options.maxTagValues);
        slow = new SlowEvents(client, metrics, options.logThreshold, options.hasStack, System::nanoTime);
    }

    /** Records events until the JVM exits. Called by reflection. */
    static void run(String text) {
        Options options = Options.parse(text, Agent::say);
        try (MetricClient client = options.address.builder().packetBytes(PACKET_BYTES).closeTimeout(CLOSE_TIMEOUT).build();
                RecordingStream stream = new RecordingStream()) {
            Runtime.getRuntime().addShutdownHook(new Thread(client::close, Agent.THREADS + "-exit"));
            Recorder recorder = new Recorder(options, client, stream);
            recorder.configure();
            recorder.enableGroups();
            stream.start();
        }
    }

    private static Tags processTags(String service) {
        String name = service == null ? ServiceName.find(System::getenv, System::getProperty) : service;
        Tags tags = Tags.of("process.pid", Long.toString(ProcessHandle.current().pid()), "service.name", name);
        Optional<String> container = ContainerId.find(Path.of("/proc/self/cgroup"), Path.of("/proc/self/mountinfo"));
        return container.map(id -> tags.with("container.id", id)).orElse(tags);
    }

    private void configure() {
        stream.setMaxAge(AGE_MAX);
        stream.setMaxSize(DISK_BYTES_MAX);
        stream.setOrdered(false);
        // The default handler would print a stack.
        stream.onError(error -> { });
        stream.onFlush(this::flushed);
        disableForeignTypes();
    }

    /** Disables the application's event types, which are enabled in every recording by default. This recording does not need them. */
    private void disableForeignTypes() {
        for (EventType type : FlightRecorder.getFlightRecorder().getEventTypes()) {
            if (!type.getName().startsWith("jdk.")) {
                stream.disable(type.getName());
            }
        }
    }

    private void flushed() {
        metrics.reportDropped();
        if (++flushes % TYPES_FLUSHES == 0) {
            disableForeignTypes();
        }
    }

    private void enableGroups() {
        SocketEvents sockets = new SocketEvents(metrics, slow);
        FileEvents files = new FileEvents(metrics, slow);
        RuntimeEvents runtime = new RuntimeEvents(metrics, slow);
        for (Group group : options.groups) {
            switch (group) {
                case SOCKET -> {
                    enableLong("jdk.SocketRead", sockets::read);
                    enableLong("jdk.SocketWrite", sockets::write);
                }
                case FILE -> {
                    enableLong("jdk.FileRead", files::read);
                    enableLong("jdk.FileWrite", files::write);
                    enableLong("jdk.FileForce", files::force);
                }
                case MONITOR -> enableLong("jdk.JavaMonitorEnter", runtime::monitor);
                default -> enableRuntime(group, runtime);
            }
        }
    }

    private void enableRuntime(Group group, RuntimeEvents runtime) {
        switch (group) {
            case GC -> {
                enable("jdk.GarbageCollection", runtime::collection).withoutThreshold();
                enable("jdk.GCPhasePause", runtime::pause).withoutThreshold();
            }
            case SAFEPOINT -> enable("jdk.ExecuteVMOperation", runtime::operation).withoutThreshold();
            case EXCEPTIONS -> {
                enable("jdk.JavaExceptionThrow", runtime::exception);
                enable("jdk.JavaErrorThrow", runtime::error);
            }
            case ALLOCATION -> enable("jdk.ObjectAllocationSample", runtime::allocation).with("throttle", ALLOCATION_RATE);
            case CPU -> enable("jdk.CPULoad", runtime::cpu).withPeriod(CPU_PERIOD);
            default -> throw new IllegalArgumentException(group.name());
        }
    }

    /**
     * Enables events that last at least the threshold. The action also checks the duration, because a recording of the application may
     * cause shorter events.
     */
    private void enableLong(String name, Consumer<RecordedEvent> action) {
        EventSettings settings = enable(name, event -> {
            if (event.getDuration().compareTo(options.threshold) >= 0 && !isOwn(event)) {
                action.accept(event);
            }
        }).withThreshold(options.threshold);
        if (options.logThreshold != null && options.hasStack) {
            settings.withStackTrace();
        }
    }

    private EventSettings enable(String name, Consumer<RecordedEvent> action) {
        stream.onEvent(name, action);
        // Newer JDK versions limit the rate of some events, which would distort counts.
        return stream.enable(name).withoutStackTrace().with("throttle", "off");
    }

    /** Returns whether the event is from an agent thread, such as a write to a receiver that does not read. */
    private static boolean isOwn(RecordedEvent event) {
        RecordedThread thread = event.getThread();
        return thread != null && thread.getThreadGroup() != null && Agent.THREADS.equals(thread.getThreadGroup().getName());
    }
}
