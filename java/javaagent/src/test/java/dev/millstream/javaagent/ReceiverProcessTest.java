package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.client.FakeAgent;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests that receiver faults do not harm the application. */
class ReceiverProcessTest {
    /** Maximum heap of an application with the agent. The application's own share is negligible. */
    private static final long HEAP_BYTES_MAX = 20 << 20;

    @TempDir
    Path dir;
    private Path path;

    @BeforeEach
    void choosePath() {
        path = dir.resolve("agent.sock");
    }

    @Test
    void a_receiver_may_start_later_and_restart() throws Exception {
        try (Child child = Child.start(Child.agent(path, ""))) {
            child.execute("slow");
            for (int run = 0; run < 3; run++) {
                try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL)) {
                    Received received = new Received(agent);
                    received.awaitStart();
                    child.execute("slow");
                    Child.await("a write", () -> !received.points("jvm.socket.write.duration_ms").isEmpty());
                    Child.await("its log event", () -> !received.points("jdk.SocketWrite").isEmpty());
                }
            }
            assertEquals(0, child.end());
            assertEquals(List.of(), child.lines());
        }
    }

    @Test
    void a_receiver_that_does_not_read_blocks_nothing() throws Exception {
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.NOTHING);
                Child child = Child.start(Child.agent(path, ",threshold=0us,log_threshold=0us,stack=true,events=socket,cpu"))) {
            // Far more points than fit in the buffers of the client and the kernel.
            for (int round = 0; round < 10; round++) {
                assertEquals("done", child.execute("write 20000"));
            }
            long heap = Long.parseLong(child.execute("heap"));
            assertTrue(heap < HEAP_BYTES_MAX, () -> heap + " bytes");
            assertEquals(0, child.end());
            assertEquals(List.of(), child.lines());
        }
    }

    @Test
    void a_flood_is_counted_as_dropped() throws Exception {
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL);
                Child child = Child.start(Child.agent(path, ",threshold=0us,log_threshold=0us,events=socket,cpu"))) {
            Received received = new Received(agent);
            received.awaitStart();
            child.execute("write 20000");
            Child.await("all events", () -> received.sum("jvm.socket.write.bytes", Application.REMOTE) == 20_000);
            Child.await("dropped log events", () -> received.sum("jvm.agent.logs.dropped", "") > 0);
            assertEquals(List.of(), received.points("jvm.socket.write.bytes", "agent.sock"), "writes of the agent itself");
            Child.await("each write, or its drop", () -> received.points("jvm.socket.write.duration_ms").size()
                + received.points("jvm.socket.read.duration_ms").size() + received.logs().size()
                + received.sum("jvm.agent.points.dropped", "") >= 20_000);
        }
    }

    @Test
    void udp_works_too() throws Exception {
        try (FakeAgent agent = FakeAgent.udp(0); Child child = Child.start(Child.agent("udp=127.0.0.1:" + agent.port()))) {
            Received received = new Received(agent);
            received.awaitStart();
            child.execute("slow");
            Child.await("a log event", () -> !received.points("jdk.SocketWrite").isEmpty());
        }
    }
}
