package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.client.FakeAgent;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that an application's events arrive. */
class EventsProcessTest {
    @TempDir
    Path dir;
    private Path path;
    private FakeAgent agent;
    private Received received;

    @BeforeEach
    void listen() throws IOException {
        path = dir.resolve("agent.sock");
        agent = FakeAgent.unix(path, FakeAgent.Reads.ALL);
        received = new Received(agent);
    }

    @AfterEach
    void close() throws IOException {
        agent.close();
    }

    private static String tags(Child child, String service) {
        return "process.pid=" + child.pid() + "|service.name=" + service;
    }

    @Test
    void a_slow_write_is_a_metric_and_a_log_event() throws Exception {
        try (Child child = Child.start(Child.agent(path, ",stack=true,service=shop"))) {
            received.awaitStart();
            long before = System.currentTimeMillis();
            child.execute("slow");
            Child.await("a log event", () -> !received.points("jdk.SocketWrite").isEmpty());
            Child.await("the bytes", () -> received.sum("jvm.socket.write.bytes", Application.REMOTE) > 0);
            String tags = "network.peer.address=" + Application.REMOTE + "|" + tags(child, "shop");
            assertEquals(8 << 20, received.sum("jvm.socket.write.bytes", tags));
            assertTrue(received.values("jvm.socket.write.duration_ms", tags).anyMatch(value -> value >= 140), "duration");
            List<String> log = received.points("jdk.SocketWrite").get(0);
            assertEquals("warn", log.get(1));
            assertTrue(log.get(3).matches("socket write to 127\\.0\\.0\\.3:\\d+ took \\d+\\.\\d ms, 8388608 bytes"), log.get(3));
            assertEquals(tags(child, "shop") + "|network.peer.address=" + Application.REMOTE, log.get(4));
            assertTrue(Long.parseLong(log.get(5)) >= before && Long.parseLong(log.get(5)) <= System.currentTimeMillis(), log.get(5));
            assertEquals("main", Received.field(log, "thread"));
            assertEquals("8388608", Received.field(log, "bytes"));
            assertTrue(Double.parseDouble(Received.field(log, "duration_ms")) >= 140);
            String stack = Received.field(log, "stack");
            assertTrue(stack.matches("(?s).*at dev.millstream.javaagent.Application.slow\\(Application.java:\\d+\\).*"), stack);
            assertEquals(0, child.end());
            assertEquals(List.of(), List.copyOf(child.errors));
        }
    }

    @Test
    void thresholds_and_groups_select_what_is_sent() throws Exception {
        try (Child child = Child.start(Child.agent(path, ",events=socket,cpu,threshold=40ms,log_threshold=off"))) {
            received.awaitStart();
            child.execute("write 1000");
            child.execute("slow");
            child.execute("monitor");
            child.execute("gc");
            child.execute("slow");
            Child.await("two writes", () -> received.values("jvm.socket.write.duration_ms", "").count() >= 2);
            assertTrue(received.values("jvm.socket.write.duration_ms", "").allMatch(value -> value >= 40), "threshold");
            assertEquals(List.of(), received.logs());
            assertEquals(List.of(), received.points("jvm.monitor.enter.duration_ms"));
            assertEquals(List.of(), received.points("jvm.gc.duration_ms"));
        }
    }

    @Test
    void every_group_has_its_metrics() throws Exception {
        String groups = ",threshold=0us,events=socket,file,gc,safepoint,monitor,exceptions,allocation,cpu";
        try (Child child = Child.start(Child.agent(path, groups))) {
            received.awaitStart();
            child.execute("file " + dir.resolve("file"));
            child.execute("monitor");
            child.execute("throw 300");
            child.execute("gc");
            String directory = "file.directory=" + FileEvents.directory(dir + "/file");
            Child.await("file", () -> received.sum("jvm.file.write.bytes", directory) == 1000);
            Child.await("file", () -> received.sum("jvm.file.read.bytes", directory) >= 600);
            for (String name : List.of("jvm.file.read.duration_ms", "jvm.file.write.duration_ms", "jvm.file.force.duration_ms")) {
                Child.await(name, () -> !received.points(name, directory).isEmpty());
            }
            String lock = "class=dev.millstream.javaagent.Application$Lock|";
            Child.await("monitor", () -> received.values("jvm.monitor.enter.duration_ms", lock).anyMatch(value -> value > 100));
            Child.await("its log event", () -> received.logs().stream().anyMatch(log ->
                log.get(3).matches("monitor of class dev.millstream.javaagent.Application\\$Lock was entered after \\d+\\.\\d ms")));
            for (String type : List.of("dev.millstream.javaagent.Application$Failure|", "java.lang.AssertionError|")) {
                Child.await(type, () -> received.sum("jvm.exceptions", "exception.type=" + type) >= 300);
                assertEquals(300, received.sum("jvm.exceptions", "exception.type=" + type));
            }
            // A sample's weight is the allocation of its thread since the previous sample, so the last bytes are in no sample.
            Child.await("allocation", () -> answer(child, "allocate 50").equals("done")
                && received.sum("jvm.allocation.bytes", "class=long[]|") > 100 << 20);
            Child.await("gc", () -> !received.points("jvm.gc.duration_ms", "jvm.gc.cause=System.gc()|").isEmpty());
            Child.await("pause", () -> !received.points("jvm.gc.pause_ms").isEmpty());
            Child.await("safepoint", () -> !received.points("jvm.safepoint.duration_ms", "jvm.safepoint.operation=").isEmpty());
            assertTrue(received.values("jvm.cpu.machine", "").allMatch(value -> value >= 0 && value <= 1));
        }
    }

    @Test
    void events_of_the_application_stay_disabled() throws Exception {
        try (Child child = Child.start(Child.agent(path, ""))) {
            received.awaitStart();
            child.execute("custom");
            // The event type is new to the agent, which looks for new types periodically.
            Child.await("disabled", () -> answer(child, "custom").equals("false"));
        }
    }

    private static String answer(Child child, String command) {
        try {
            return child.execute(command);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void the_agent_has_two_threads() throws Exception {
        try (Child child = Child.start(Child.agent(path, ""))) {
            received.awaitStart();
            String threads = child.execute("threads");
            assertTrue(threads.contains("millstream-javaagent") && threads.contains("millstream-metrics"), threads);
            assertFalse(threads.contains("JFR Event Stream"), threads);
        }
    }

    @Test
    void a_recording_of_the_application_keeps_its_settings() throws Exception {
        Path file = dir.resolve("own.jfr");
        String recording = "-XX:StartFlightRecording:filename=" + file + ",settings=default";
        try (Child child = Child.start(recording, Child.agent(path, ",threshold=100ms"))) {
            received.awaitStart();
            child.execute("custom");
            child.execute("slow");
            Child.await("a write", () -> !received.points("jvm.socket.write.duration_ms").isEmpty());
            assertEquals("true", child.execute("custom"));
            assertTrue(received.values("jvm.socket.write.duration_ms", "").allMatch(value -> value >= 100));
            assertTrue(received.logs().stream().allMatch(log -> Received.field(log, "stack").isEmpty()));
            assertEquals(0, child.end());
            assertEquals(List.of(), child.lines());
        }
        assertTrue(Files.size(file) > 0);
        List<RecordedEvent> writes = RecordingFile.readAllEvents(file).stream()
            .filter(event -> event.getEventType().getName().equals("jdk.SocketWrite") && event.getStackTrace() != null
                && event.getDuration().compareTo(Duration.ofMillis(100)) > 0).toList();
        assertTrue(writes.stream().anyMatch(event -> event.getString("address").equals(Application.REMOTE)));
        assertTrue(writes.stream().noneMatch(event -> event.getStackTrace().getFrames().isEmpty()));
    }

    @Test
    void it_works_beside_the_agent_of_opentelemetry() throws Exception {
        String other = "-javaagent:" + Path.of("target/agents/opentelemetry-javaagent.jar").toAbsolutePath();
        for (boolean isFirst : new boolean[] {true, false}) {
            String own = Child.agent(path, "");
            try (Child child = Child.start(isFirst ? own : other, isFirst ? other : own, "-Dotel.service.name=shop-" + isFirst,
                    "-Dotel.traces.exporter=none", "-Dotel.metrics.exporter=none", "-Dotel.logs.exporter=none")) {
                String tags = tags(child, "shop-" + isFirst);
                Child.await("the first metrics", () -> !received.points("jvm.cpu.user", tags).isEmpty());
                child.execute("slow");
                Child.await("a write", () -> !received.points("jvm.socket.write.duration_ms", tags).isEmpty());
                assertEquals(List.of(), child.lines());
                assertTrue(child.errors.toString().contains("opentelemetry-javaagent - version"), child.errors::toString);
                assertEquals(0, child.end());
            }
        }
    }
}
