package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.tools.attach.VirtualMachine;
import dev.millstream.client.FakeAgent;
import java.io.DataInputStream;
import java.nio.file.Path;
import java.util.List;
import java.util.jar.JarFile;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the start of the agent on JVMs where the agent can run and where it cannot. */
class StartProcessTest {
    private static final int JAVA_8_MAJOR = 52;
    private static final int STARTS = 9;

    /** Maximum number of starts on a busy host, if all of the first starts were disturbed. */
    private static final int STARTS_MAX = 60;

    /** Generous bound for busy hosts; the goal is 60 ms. */
    private static final long DELAY_MS_MAX = 150;

    @TempDir
    Path dir;

    private Path path() {
        return dir.resolve("agent.sock");
    }

    private static void attach(Child child, String options) throws Exception {
        VirtualMachine machine = VirtualMachine.attach(Long.toString(child.pid()));
        machine.loadAgent(Child.JAR.toString(), options);
        machine.detach();
    }

    private static void awaitLine(Child child, String text) throws InterruptedException {
        Child.await(text, () -> child.lines().stream().anyMatch(line -> line.contains(text)));
    }

    @Test
    void the_entry_class_is_one_that_java_8_loads() throws Exception {
        try (JarFile jar = new JarFile(Child.JAR.toFile())) {
            for (String name : List.of("Premain-Class", "Agent-Class")) {
                String type = jar.getManifest().getMainAttributes().getValue(name);
                try (DataInputStream bytes = new DataInputStream(jar.getInputStream(jar.getEntry(type.replace('.', '/') + ".class")))) {
                    bytes.skipNBytes(6);
                    assertEquals(JAVA_8_MAJOR, bytes.readUnsignedShort());
                }
            }
            assertTrue(jar.stream().noneMatch(entry -> entry.getName().startsWith("dev/millstream/client")));
        }
    }

    @Test
    void an_old_version_runs_unharmed() throws Exception {
        for (String version : List.of("11", "1.8", "x")) {
            try (Child child = Child.start(OldVersion.argument(dir.resolve("old.jar"), version), Child.agent(path(), ""))) {
                awaitLine(child, "requires Java 17 or later, but this JVM is version " + version);
                assertEquals("done", child.execute("slow"));
                assertEquals(0, child.end());
                assertEquals(1, child.errors.size());
            }
        }
    }

    @Test
    void a_runtime_without_flight_recorder_runs_unharmed() throws Exception {
        try (Child child = Child.start("--limit-modules", "java.base,java.instrument", Child.agent(path(), ""))) {
            awaitLine(child, "requires the jdk.jfr module");
            assertEquals("done", child.execute("slow"));
            assertEquals(0, child.end());
            assertEquals(1, child.errors.size());
        }
    }

    @Test
    void a_recorder_that_cannot_start_leaves_the_application_unharmed() throws Exception {
        try (Child child = Child.start("-Djava.io.tmpdir=/dev/null/none", Child.agent(path(), ""))) {
            Child.await("a line", () -> !child.lines().isEmpty());
            assertEquals("done", child.execute("slow"));
            assertEquals(0, child.end());
            assertEquals(1, child.lines().size());
        }
    }

    @Test
    void a_second_agent_does_nothing() throws Exception {
        try (FakeAgent agent = FakeAgent.unix(path(), FakeAgent.Reads.ALL);
                Child child = Child.start(Child.agent(path(), ",service=first"), Child.agent(path(), ",service=second"))) {
            Received received = new Received(agent);
            awaitLine(child, "is already running");
            attach(child, "service=third");
            Child.await("a second line", () -> child.lines().size() == 2);
            received.awaitStart();
            assertTrue(received.points("jvm.cpu.user").stream().allMatch(point -> point.get(4).contains("service.name=first")));
            assertEquals(0, child.end());
        }
    }

    @Test
    void it_starts_in_a_running_application() throws Exception {
        try (FakeAgent agent = FakeAgent.unix(path(), FakeAgent.Reads.ALL); Child child = Child.start()) {
            Received received = new Received(agent);
            child.execute("slow");
            attach(child, "socket=" + path());
            received.awaitStart();
            child.execute("slow");
            Child.await("a write", () -> !received.points("jvm.socket.write.duration_ms", "service.name=Application").isEmpty());
            attach(child, "socket=" + path());
            awaitLine(child, "is already running");
            assertEquals(0, child.end());
            assertEquals(1, child.lines().size());
        }
    }

    @Test
    void bad_options_are_named_and_replaced_by_defaults() throws Exception {
        try (FakeAgent agent = FakeAgent.unix(path(), FakeAgent.Reads.ALL);
                Child child = Child.start(Child.agent("threshold=soon,socket=" + path() + ",colour=blue"))) {
            Received received = new Received(agent);
            received.awaitStart();
            child.execute("slow");
            Child.await("a write", () -> !received.points("jvm.socket.write.duration_ms").isEmpty());
            assertEquals(2, child.lines().size());
            awaitLine(child, "'threshold=soon'");
            awaitLine(child, "'colour=blue'");
        }
    }

    /** Returns the time until {@code main} runs, without its thread's wait for a CPU. Both processes use the same clock. */
    private long startMs(String... arguments) throws Exception {
        long start = System.nanoTime();
        try (Child child = Child.start(arguments)) {
            long reached = Long.parseLong(child.execute("start"));
            assertEquals(0, child.end());
            return (reached - start) / 1_000_000;
        }
    }

    @Test
    void the_application_starts_about_as_fast_as_without() throws Exception {
        // Compare the fastest starts, because on a busy host, threads that main depends on also wait for a CPU.
        long without = Long.MAX_VALUE;
        long with = Long.MAX_VALUE;
        int starts = 0;
        while (starts < STARTS || (with - without > DELAY_MS_MAX && starts < STARTS_MAX)) {
            without = Math.min(without, startMs());
            with = Math.min(with, startMs(Child.agent(path(), "")));
            starts++;
        }
        String found = "main is delayed by " + (with - without) + " ms, the least of " + starts + " starts";
        System.out.println(found);
        assertTrue(with - without <= DELAY_MS_MAX, found);
    }
}
