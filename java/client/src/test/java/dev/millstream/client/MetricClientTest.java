package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class MetricClientTest {
    /** Generous timeout for busy hosts. */
    private static final Duration TIMEOUT = Duration.ofSeconds(60);

    @TempDir
    Path dir;
    private Path path;

    @BeforeEach
    void choose_path() {
        path = dir.resolve("agent.sock");
    }

    private MetricClient client() {
        return builder().build();
    }

    private MetricClient.Builder builder() {
        return MetricClient.builder().unix(path).flushInterval(Duration.ofMillis(5)).bufferBytes(65_536);
    }

    private static void await(String what, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + TIMEOUT.toNanos();
        while (!condition.getAsBoolean()) {
            assertTrue(System.nanoTime() < end, what);
            Thread.sleep(2);
        }
    }

    private static long count(FakeAgent agent, String name) {
        return agent.points.stream().filter(point -> point.get(2).equals(name)).count();
    }

    private static long sum(FakeAgent agent, String name) {
        return agent.points.stream().filter(point -> point.get(2).equals(name)).mapToLong(point -> Long.parseLong(point.get(3))).sum();
    }

    @Test
    void every_kind_is_encoded_as_the_agent_expects() throws IOException, InterruptedException {
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL); MetricClient client = client()) {
            client.counter("c", "k", "v").add(3);
            client.rateCounter("r").add(-4);
            client.meter("m").increment();
            client.deltaCounter("d").increment();
            client.store("s", "b", "2", "a", "é").set(0.5);
            client.timer("t").record(12.25);
            client.histogram("h").record(1e300);
            client.timedStore("ts").set(7.5, 1_700_000_000);
            client.emit(Kind.RATE_COUNTER, "é", 2, "x=😀");
            assertTrue(client.flush(TIMEOUT));
            await("9 points", () -> agent.points.size() == 9);
            List<String> found = new ArrayList<>();
            agent.points.forEach(point -> found.add(String.join(" ", point)));
            found.sort(null);
            List<String> expected = new ArrayList<>(List.of("emit counter c 3 k=v ", "emit rate_counter r -4  ", "emit meter m 1  ",
                "emit delta_counter d 1  ", "emit store s 0.5 a=é|b=2 ", "emit timer t 12.25  ", "emit ts_store ts 7.5  1700000000",
                "emit rate_counter é 2 x=😀 "));
            found.removeIf(point -> point.startsWith("emit histogram h ") && Double.parseDouble(point.split(" ")[3]) == 1e300);
            expected.sort(null);
            assertEquals(expected, found);
            assertEquals(9, client.stats().sent());
        }
    }

    @Test
    void one_series_has_one_handle() {
        try (MetricClient client = client()) {
            assertSame(client.counter("a", "x", "1", "y", "2"), client.counter("a", "y", "2", "x", "1"));
            assertSame(client.timer("a"), client.timer("a"));
        }
    }

    @Test
    void invalid_points_are_rejected_or_counted() {
        try (MetricClient client = client()) {
            assertThrows(IllegalArgumentException.class, () -> client.counter(""));
            assertThrows(IllegalArgumentException.class, () -> client.timer("a", "k", "v w"));
            client.timer("t").record(Double.NaN);
            client.store("s").set(Double.POSITIVE_INFINITY);
            client.timedStore("ts").set(1, 0);
            client.emit(Kind.COUNTER, "", 1, "");
            client.emit(Kind.COUNTER, "c", 1, "a\nb");
            client.emit(Kind.COUNTER, "c", 1, "x".repeat(4097));
            client.emit(Kind.COUNTER, "c", Double.NEGATIVE_INFINITY, "");
            assertEquals(7, client.stats().droppedInvalid());
        }
        try (MetricClient small = builder().packetBytes(512).build()) {
            assertTrue(assertThrows(IllegalArgumentException.class, () -> small.counter("c", "k", "x".repeat(500))).getMessage()
                .contains("larger packetBytes"));
            small.emit(Kind.COUNTER, "c", 1, "x".repeat(500));
            assertEquals(1, small.stats().droppedInvalid());
        }
    }

    @Test
    void options_out_of_range_are_rejected() {
        for (MetricClient.Builder builder : List.of(MetricClient.builder(), builder().udp("localhost", 1), MetricClient.builder().udp("localhost", 0),
            builder().packetBytes(100), builder().packetBytes(70_000), builder().bufferBytes(1), builder().flushInterval(Duration.ZERO))) {
            assertThrows(IllegalArgumentException.class, builder::build);
        }
    }

    @Test
    void points_of_many_threads_are_each_sent_or_counted() throws IOException, InterruptedException {
        int threads = 8;
        int count = 50_000;
        FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL);
        MetricClient client = client();
        Counter counter = client.counter("sum");
        Timer timer = client.timer("time");
        record(threads, () -> {
            for (int i = 0; i < count; i++) {
                counter.increment();
                timer.record(i);
            }
        });
        client.close();
        Stats stats = client.stats();
        await("all points", () -> agent.points.size() == stats.sent());
        assertEquals((long) threads * count, sum(agent, "sum"));
        assertEquals((long) threads * count, count(agent, "time") + stats.dropped());
        assertEquals(0, stats.dropped() - stats.droppedFull());
        agent.close();
    }

    private static void record(int threads, Runnable task) throws InterruptedException {
        Thread[] all = new Thread[threads];
        Arrays.setAll(all, at -> new Thread(task));
        for (Thread thread : all) {
            thread.start();
        }
        for (Thread thread : all) {
            thread.join();
        }
    }

    @Test
    void points_are_queued_until_the_agent_starts_and_dropped_if_the_buffer_is_full() throws IOException, InterruptedException {
        try (MetricClient client = client()) {
            Counter counter = client.counter("sum");
            Timer timer = client.timer("time");
            int count = 20_000;
            for (int i = 0; i < count; i++) {
                counter.increment();
                timer.record(i);
            }
            long dropped = client.stats().droppedFull();
            assertTrue(dropped > 0);
            assertFalse(client.flush(Duration.ofMillis(20)));
            try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL)) {
                assertTrue(client.flush(TIMEOUT));
                await("all points", () -> count(agent, "time") == count - dropped && sum(agent, "sum") == count);
                assertEquals(dropped, client.stats().dropped());
            }
        }
    }

    @Test
    void the_client_reconnects_to_a_restarted_agent() throws IOException, InterruptedException {
        try (MetricClient client = client()) {
            Timer timer = client.timer("time");
            Store store = client.store("level");
            store.set(4);
            for (int run = 1; run <= 3; run++) {
                int value = run;
                try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL)) {
                    timer.record(value);
                    await("the value", () -> agent.points.stream().anyMatch(point -> point.get(3).equals("" + value)));
                    // The client resends the store without another call.
                    await("the store", () -> count(agent, "level") == 1);
                }
            }
            assertEquals(3, client.stats().connects());
            assertEquals(0, client.stats().dropped());
        }
    }

    @Test
    void datagrams_without_a_listener_are_counted() throws IOException, InterruptedException {
        FakeAgent first = FakeAgent.udp(0);
        int port = first.port();
        try (MetricClient client = MetricClient.builder().udp("127.0.0.1", port).flushInterval(Duration.ofMillis(5)).build()) {
            Timer timer = client.timer("time");
            timer.record(1);
            await("the first", () -> first.points.size() == 1);
            first.close();
            timer.record(2);
            await("a loss", () -> client.stats().droppedLost() == 1);
            // From here, the client sends nothing until the port has a listener again.
            timer.record(2);
            Thread.sleep(50);
            try (FakeAgent second = FakeAgent.udp(port)) {
                timer.record(3);
                assertTrue(client.flush(TIMEOUT));
                await("the sent points", () -> second.points.size() == 2);
                assertEquals(2, client.stats().connects());
                assertEquals(3, client.stats().sent());
                assertEquals(1, client.stats().dropped());
            }
        }
    }

    @Test
    void an_agent_that_does_not_read_blocks_no_thread() throws IOException, InterruptedException {
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.NOTHING)) {
            MetricClient client = builder().closeTimeout(Duration.ofMillis(200)).build();
            Timer timer = client.timer("time");
            int count = 0;
            // Record until the socket buffer is full and the sender blocks in a write.
            do {
                record(timer, 20_000);
                count += 20_000;
            } while (client.flush(Duration.ofSeconds(1)));
            client.close();
            Stats stats = client.stats();
            assertTrue(stats.droppedFull() > 0, stats::toString);
            assertEquals(count, stats.sent() + stats.dropped());
            assertEquals(0, agent.points.size());
        }
    }

    @Test
    void points_recorded_after_close_are_counted() throws IOException, InterruptedException {
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL)) {
            MetricClient client = client();
            Timer timer = client.timer("time");
            int count = 100_000;
            Thread recorder = new Thread(() -> record(timer, count));
            recorder.start();
            Thread.sleep(5);
            client.close();
            client.close();
            recorder.join();
            timer.record(1);
            Stats stats = client.stats();
            assertTrue(stats.droppedClosed() >= 1);
            assertEquals(count + 1, stats.sent() + stats.dropped());
            await("the sent points", () -> agent.points.size() == stats.sent());
        }
    }

    private static void record(Timer timer, int count) {
        for (int i = 0; i < count; i++) {
            timer.record(i);
        }
    }

    @Test
    void packets_do_not_exceed_their_limit() throws IOException, InterruptedException {
        FakeAgent agent = FakeAgent.udp(0);
        MetricClient client = MetricClient.builder().udp("localhost", agent.port()).packetBytes(512).build();
        Timer timer = client.timer("time", "shop", "x".repeat(100));
        for (int i = 0; i < 10; i++) {
            timer.record(i);
        }
        client.close();
        await("10 points", () -> agent.points.size() == 10);
        // A point takes at least 134 bytes, so a packet of 512 bytes holds at most three points.
        assertTrue(client.stats().packets() >= 4, () -> client.stats().toString());
        agent.close();
    }
}
