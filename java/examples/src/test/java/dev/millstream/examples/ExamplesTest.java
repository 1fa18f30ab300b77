package dev.millstream.examples;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.testkit.Event;
import dev.millstream.operator.testkit.OperatorHarness;
import dev.millstream.operator.testkit.Result;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class ExamplesTest {
    @Test
    void levelsAreNormalizedAndErrorsCounted() {
        try (OperatorHarness harness = OperatorHarness.of(new LevelNormalizer(), Map.of("field", "severity"))) {
            List<Result> results = harness.run(
                    Map.of("severity", "WARNING"),
                    Map.of("severity", "Fatal", "service", "web"),
                    Map.of("severity", "error", "service", "web"),
                    Map.of("severity", "odd"),
                    Map.of("level", "WARN"));
            assertEquals(Map.of("severity", "warn"), results.get(0).fields());
            assertEquals(Map.of("severity", "error", "service", "web", "errors", 1L), results.get(1).fields());
            assertEquals(2L, results.get(2).fields().get("errors"));
            assertEquals(Map.of("severity", "odd"), results.get(3).fields());
            assertEquals(Map.of("level", "WARN"), results.get(4).fields());
        }
    }

    @Test
    void repetitionsAreDropped() {
        try (OperatorHarness harness = OperatorHarness.ofBatch(new Deduplicator())) {
            List<Result> results = harness.lines("a", "b", "a", "a");
            assertEquals(List.of(false, false, true, true), results.stream().map(Result::isDropped).toList());
            assertEquals(Map.of("repeated", 2L), results.get(0).fields());
            assertEquals(Map.of(), results.get(1).fields());
        }
    }

    @Test
    void aLineWithGaugesBecomesSeveralEvents() {
        try (OperatorHarness harness = OperatorHarness.of(new GaugeSplitter())) {
            List<Result> results = harness.lines("gauges: cpu=0.5 memory=1024", "other", "gauges: cpu=fast");
            assertTrue(results.get(0).isDropped());
            assertEquals(List.of("cpu=0.5", "memory=1024.0"), results.get(0).emitted().stream().map(Event::message).toList());
            assertEquals(Map.of("name", "memory", "value", 1024.0), results.get(0).emitted().get(1).fields());
            assertFalse(results.get(1).isDropped());
            assertTrue(results.get(2).failure().startsWith("java.lang.NumberFormatException"), results.get(2).failure());
            assertEquals(List.of(), results.get(2).emitted());
        }
    }
}
