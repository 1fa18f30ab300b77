package dev.millstream.javaagent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.client.FakeAgent;
import dev.millstream.client.MetricClient;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the limits of series and log events, and the format of tags. */
class AggregationTest {
    private static final int REMOTES = 10_000;
    private static final int PEERS = 100;

    @TempDir
    Path dir;

    private static Set<String> series(FakeAgent agent, String name) {
        return new Received(agent).points(name).stream().map(point -> point.get(4)).collect(Collectors.toSet());
    }

    @Test
    void ten_thousand_remotes_are_as_many_series_as_configured() throws Exception {
        Path path = dir.resolve("agent.sock");
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL);
                MetricClient client = MetricClient.builder().unix(path).bufferBytes(16 << 20).build()) {
            Metrics metrics = new Metrics(client, Tags.of("service.name", "s"), PEERS);
            SocketEvents sockets = new SocketEvents(metrics, new SlowEvents(client, metrics, null, false, System::nanoTime));
            for (int remote = 0; remote < REMOTES; remote++) {
                sockets.recordWrite("10.0." + remote / 256 + "." + remote % 256, 443, Duration.ofMillis(30), 10);
                sockets.recordRead("10.0." + remote / 256 + "." + remote % 256, 443, Duration.ofMillis(30), 10);
            }
            assertTrue(client.flush(Duration.ofSeconds(60)));
            for (String name : new String[] {"jvm.socket.write.bytes", "jvm.socket.read.bytes"}) {
                Child.await(name, () -> new Received(agent).sum(name, "") == 10L * REMOTES);
                assertEquals(PEERS + 1, series(agent, name).size());
                assertEquals(10L * (REMOTES - PEERS), new Received(agent).sum(name, "network.peer.address=other|service.name=s"));
            }
            Child.await("durations", () -> new Received(agent).points("jvm.socket.write.duration_ms").size() == REMOTES);
            assertEquals(PEERS + 1, series(agent, "jvm.socket.write.duration_ms").size());
        }
    }

    @Test
    void ephemeral_ports_are_no_tags() {
        try (MetricClient client = MetricClient.builder().unix(dir.resolve("none")).closeTimeout(Duration.ZERO).build()) {
            Metrics metrics = new Metrics(client, Tags.of(), PEERS);
            SocketEvents sockets = new SocketEvents(metrics, new SlowEvents(client, metrics, null, false, System::nanoTime));
            Map<Integer, String> tags = new HashMap<>();
            for (int port : new int[] {0, 5432, 32_767, 32_768, 50_000}) {
                tags.put(port, sockets.recordRead("h", port, Duration.ofMillis(1), 1).text());
            }
            String host = "network.peer.address=h";
            assertEquals(Map.of(0, host, 5432, host + "|network.peer.port=5432", 32_767, host + "|network.peer.port=32767", 32_768, host,
                50_000, host), tags);
        }
    }

    @Test
    void a_peer_has_its_host_or_address_or_path() {
        assertEquals("db.internal", SocketEvents.address("db.internal", "10.0.0.1"));
        assertEquals("10.0.0.1", SocketEvents.address("", "10.0.0.1"));
        assertEquals("10.0.0.1", SocketEvents.address(null, "10.0.0.1"));
        assertEquals("/run/a.sock", SocketEvents.address("Unix domain socket", "[/run/a.sock]"));
        assertEquals("unknown", SocketEvents.address(null, null));
    }

    @Test
    void a_hundred_log_events_are_sent_per_second() {
        AtomicLong clock = new AtomicLong(-5);
        try (MetricClient client = MetricClient.builder().unix(dir.resolve("none")).closeTimeout(Duration.ZERO).build()) {
            SlowEvents slow = new SlowEvents(client, new Metrics(client, Tags.of(), PEERS), Duration.ZERO, false, clock::get);
            for (int second = 0; second < 3; second++) {
                int permitted = 0;
                for (int at = 0; at < 250; at++) {
                    clock.addAndGet(4_000_000);
                    permitted += slow.isPermitted() ? 1 : 0;
                }
                assertTrue(permitted >= 100 && permitted <= 101, permitted + " in second " + second);
            }
        }
    }

    @Test
    void values_of_tags_have_no_refused_characters() {
        assertEquals("a_b_c_d_e_\u00fc_f", Tags.clean("a b|c=d\ne\u007f\u00fc\ud800f"));
        assertEquals("unknown", Tags.clean(""));
        assertEquals("unknown", Tags.clean(null));
        assertEquals(200, Tags.clean("x".repeat(5000)).length());
        assertEquals("a=1|b=x_y", Tags.of("a", "1").with("b", "x y").text());
    }

    @Test
    void names_are_shortened() {
        Map<String, String> directories = Map.of("/var/lib/app/x.db", "/var/lib", "/tmp/a", "/tmp", "/a", "/", "a", ".", "d/e/f/g", "d/e",
            "//var//lib//x", "/var/lib", "", "unknown");
        directories.forEach((path, directory) -> assertEquals(directory, FileEvents.directory(path)));
        Map<String, String> types = Map.of("[B", "byte[]", "[[Ljava.lang.String;", "java.lang.String[][]", "a.B$C", "a.B$C",
            "a.B$$Lambda/0x0001", "a.B$$Lambda", "B", "B", "byte[]", "byte[]");
        types.forEach((name, readable) -> assertEquals(readable, TypeNames.readable(name)));
        assertEquals("C.java", Stacks.file("a.b.C$D$1"));
        assertEquals("$Proxy1.java", Stacks.file("$Proxy1"));
    }
}
