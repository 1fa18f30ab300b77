package dev.millstream.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class LogTest {
    private static final Instant TIME = Instant.ofEpochMilli(1_700_000_000_123L);

    private static List<String> decode(byte[] event) {
        ByteArrayOutputStream message = new ByteArrayOutputStream();
        message.writeBytes(new byte[] {(byte) 0xDC, 0, 1});
        message.writeBytes(event);
        return Decoder.points(ByteBuffer.wrap(message.toByteArray())).get(0);
    }

    private static byte[] encode(int bytesMax, String message, String... fields) {
        return LogEncoder.encode(LogLevel.WARN, "n", message, "a=b", TIME, fields, bytesMax);
    }

    @Test
    void log_events_arrive_beside_points(@TempDir Path dir) throws IOException, InterruptedException {
        Path path = dir.resolve("agent.sock");
        try (FakeAgent agent = FakeAgent.unix(path, FakeAgent.Reads.ALL);
                MetricClient client = MetricClient.builder().unix(path).build()) {
            client.timer("t").record(1);
            client.log(LogLevel.ERROR, "jdk.SocketWrite", "two\nlines \ud800", "k=v|k2=ü", TIME, "bytes", "17", "thread", "é");
            client.log(LogLevel.INFO, "n", "", "", null);
            assertTrue(client.flush(Duration.ofSeconds(60)));
            client.close();
            assertEquals(3, client.stats().sent());
            while (agent.points.size() < 3) {
                Thread.sleep(2);
            }
            assertEquals(List.of(List.of("emit", "timer", "t", "1", "", ""),
                List.of("log", "error", "jdk.SocketWrite", "two\nlines ?", "k=v|k2=ü", "1700000000123", "bytes", "17", "thread", "é"),
                List.of("log", "info", "n", "", "", "")), new ArrayList<>(agent.points));
        }
    }

    @Test
    void any_number_of_fields_up_to_32_is_encoded() {
        for (int pairs = 0; pairs <= 32; pairs++) {
            String[] fields = Collections.nCopies(2 * pairs, "x".repeat(8 * pairs)).toArray(new String[0]);
            List<String> found = decode(encode(65_000, "m", fields));
            assertEquals(List.of(fields), found.subList(6, found.size()));
        }
        assertNull(encode(65_000, "m", new String[] {"odd"}));
        assertNull(encode(65_000, "m", Collections.nCopies(66, "x").toArray(new String[0])));
    }

    @Test
    void the_stack_is_cut_at_a_line_to_fit() {
        String line = "at a.b.C.d(Ü.java:1)\n";
        String stack = line.repeat(5000);
        for (int bytesMax = 100; bytesMax < 400; bytesMax++) {
            byte[] event = encode(bytesMax, "m", "stack", stack, "thread", "t");
            assertNotNull(event);
            assertTrue(event.length <= bytesMax);
            List<String> found = decode(event);
            assertEquals("t", found.get(9));
            String cut = found.get(7);
            assertTrue(cut.isEmpty() || stack.startsWith(cut + "\n") && cut.endsWith("1)"), cut);
            assertTrue(bytesMax < 200 || cut.length() > bytesMax / 2, cut);
        }
        assertTrue(decode(encode(1 << 20, "m", "stack", stack)).get(7).length() > 60_000);
        assertNull(encode(100, "m".repeat(100), "stack", stack));
        assertNull(encode(1 << 20, "m".repeat(65_536)));
    }

    @Test
    void invalid_events_and_those_beyond_a_packet_are_counted(@TempDir Path dir) {
        MetricClient.Builder builder = MetricClient.builder().unix(dir.resolve("none")).packetBytes(512).closeTimeout(Duration.ZERO);
        try (MetricClient client = builder.build()) {
            client.log(LogLevel.INFO, "", "m", "", null);
            client.log(LogLevel.INFO, "n", "m", "a\n=b", null);
            client.log(LogLevel.INFO, "n", "m".repeat(600), "", null);
            assertEquals(3, client.stats().droppedInvalid());
            for (int at = 0; at < 10_000; at++) {
                client.log(LogLevel.INFO, "n", "m".repeat(400), "", null);
            }
            assertTrue(client.stats().droppedFull() > 0);
        }
    }
}
