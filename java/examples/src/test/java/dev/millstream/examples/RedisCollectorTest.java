package dev.millstream.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.testkit.CollectorTester;
import dev.millstream.operator.testkit.Event;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Tests the class and the script, which create the same events. */
class RedisCollectorTest {
    private static final Path SCRIPT = Path.of("src/main/java/dev/millstream/examples/redis.groovy");

    private static CollectorTester ofClass(String address) {
        return CollectorTester.of(new RedisCollector(), Map.of("address", address));
    }

    private static CollectorTester ofScript(String address) {
        try {
            Map<String, Object> options = Map.of("address", address);
            return CollectorTester.groovy(
                    Files.readString(SCRIPT), options, "redis.clients.jedis.*", "redis.clients.jedis.resps.*");
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    private static List<String> messages(CollectorTester tester) {
        return tester.collect().stream().map(Event::message).toList();
    }

    private static void eventsAreThoseOfTheServer(FakeRedis redis, CollectorTester tester) {
        redis.addSlow(3, "a");
        redis.addSlow(4, "b");
        List<Event> events = tester.collect();
        assertEquals(new Event(Map.of("redis_version", "7.2.4", "run_id", "one"), "server", null), events.get(0));
        assertEquals(new Event(Map.of("used_memory", 1_048_576L, "mem_fragmentation_ratio", 1.25), "memory", null), events.get(1));
        Map<String, Object> fields = Map.of("slow_id", 3L, "duration_us", 3_000L, "client", "127.0.0.1:5000");
        assertEquals(new Event(fields, "GET a", Instant.ofEpochSecond(1_700_000_000)), events.get(2));
        assertEquals("GET b", events.get(3).message());
        assertEquals(4, events.size());
        redis.addSlow(5, "c");
        assertEquals(List.of("server", "memory", "GET c"), messages(tester));
        assertEquals(List.of("server", "memory"), messages(tester));
        redis.restart("two");
        redis.addSlow(0, "d");
        assertEquals(List.of("server", "memory", "GET d"), messages(tester));
    }

    @Test
    void theClassMakesEachSlowEntryAnEventOnce() throws IOException {
        try (FakeRedis redis = new FakeRedis(); CollectorTester tester = ofClass(redis.address())) {
            eventsAreThoseOfTheServer(redis, tester);
        }
    }

    @Test
    void theScriptMakesEachSlowEntryAnEventOnce() throws IOException {
        try (FakeRedis redis = new FakeRedis(); CollectorTester tester = ofScript(redis.address())) {
            eventsAreThoseOfTheServer(redis, tester);
        }
    }

    @Test
    void aServerThatIsDownIsAFailureOfItsCall() throws IOException {
        FakeRedis redis = new FakeRedis();
        redis.close();
        for (CollectorTester tester : List.of(ofClass(redis.address()), ofScript(redis.address()))) {
            try (tester) {
                String failure = assertThrows(IllegalStateException.class, tester::collect).getMessage();
                assertTrue(failure.startsWith("redis.clients.jedis.exceptions.JedisConnectionException: "), failure);
            }
        }
    }
}
