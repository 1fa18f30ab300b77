package dev.millstream.operator.testkit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class CollectorTesterTest {
    private static final class Counting implements Collector {
        private Object step;
        private long sum;
        private boolean isClosed;

        @Override
        public void open(CollectorContext context) {
            step = context.options().get("step");
        }

        @Override
        public void collect(Events events) {
            sum += ((Number) step).longValue();
            events.add("sum", Map.of("sum", sum, "timestamp", Instant.EPOCH));
        }

        @Override
        public void close() {
            isClosed = true;
        }
    }

    @Test
    void eventsOfEachCallAreReturned() {
        Counting collector = new Counting();
        try (CollectorTester tester = CollectorTester.of(collector, Map.of("step", 2))) {
            Event first = new Event(Map.of("sum", 2L), "sum", Instant.EPOCH);
            Event second = new Event(Map.of("sum", 4L), "sum", Instant.EPOCH);
            assertEquals(List.of(List.of(first), List.of(second)), tester.collectTimes(2));
            assertEquals(6L, tester.collect().get(0).fields().get("sum"));
        }
        assertTrue(collector.isClosed);
    }

    @Test
    void aCollectorThatBlocksIsStoppedAfterSomeEvents() {
        Collector blocks = events -> {
            for (int at = 0; true; at++) {
                events.add("event " + at);
            }
        };
        try (CollectorTester tester = CollectorTester.of(blocks)) {
            assertEquals(List.of("event 0", "event 1"), tester.collectUntil(2).stream().map(Event::message).toList());
        }
    }

    @Test
    void aScriptHasOptionsAndFurtherClasses() {
        String script = "events.add(java.text.Collator.getInstance(Locale.ROOT).compare(options.a as String, 'b') < 0 ? 'less' : 'more')";
        try (CollectorTester tester = CollectorTester.groovy(script, Map.of("a", "a"), "java.text.Collator")) {
            assertEquals("less", tester.collect().get(0).message());
        }
        IllegalArgumentException error = assertThrows(IllegalArgumentException.class, () -> CollectorTester.groovy("1\n" + script));
        assertTrue(error.getMessage().startsWith("script line 2: class java.text.Collator is not allowed"), error.getMessage());
    }

    @Test
    void failuresAreThrownWithTheirLine() {
        try (CollectorTester tester = CollectorTester.groovy("events.add('a')\nthrow new IllegalStateException('no')")) {
            String message = assertThrows(IllegalStateException.class, tester::collect).getMessage();
            assertEquals("java.lang.IllegalStateException: no (script line 2)", message);
        }
    }

    @Test
    void aCallThatTakesTooLongFails() {
        try (CollectorTester tester = CollectorTester.of(events -> TimeUnit.DAYS.sleep(1)).timeout(Duration.ofMillis(50))) {
            String message = assertThrows(IllegalStateException.class, tester::collect).getMessage();
            assertEquals("the collector did not return within 50 ms", message);
            tester.timeout(Duration.ofSeconds(60));
        }
    }
}
