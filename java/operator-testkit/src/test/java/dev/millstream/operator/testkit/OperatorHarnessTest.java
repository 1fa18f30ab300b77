package dev.millstream.operator.testkit;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class OperatorHarnessTest {
    private static final class Sample implements Operator {
        private Object limit;
        private boolean isClosed;

        @Override
        public void open(Context context) {
            limit = context.options().get("limit");
        }

        @Override
        public void process(Row row) {
            if (row.message().isEmpty()) {
                row.drop();
            } else if (row.message().equals("fail")) {
                throw new IllegalStateException("failed");
            } else {
                row.set("limit", limit);
                row.remove("old");
                row.set("env", row.text("env"));
                row.emit(Map.of("n", 1));
                row.emit(Map.of("message", "second"));
            }
        }

        @Override
        public void close() {
            isClosed = true;
        }
    }

    @Test
    void resultsAreTheEventsAfterTheOperator() {
        Sample sample = new Sample();
        try (OperatorHarness harness = OperatorHarness.of(sample, Map.of("limit", 3)).attributes(Map.of("env", "test"))) {
            Instant time = Instant.parse("2026-01-02T03:04:05Z");
            List<Result> results = harness.run(
                    Map.of("message", "text", "old", 1, "kept", 2, "timestamp", time), Map.of(), Map.of("message", "fail"));
            assertEquals(Map.of("limit", 3L, "env", "test", "kept", 2L), results.get(0).fields());
            assertEquals("text", results.get(0).message());
            assertEquals(time, results.get(0).timestamp());
            assertEquals(List.of(new Event(Map.of("n", 1L), "text", time), new Event(Map.of(), "second", time)), results.get(0).emitted());
            assertNull(results.get(0).failure());
            assertTrue(results.get(1).isDropped());
            assertFalse(results.get(2).isDropped());
            assertTrue(results.get(2).failure().startsWith("java.lang.IllegalStateException: failed ("), results.get(2).failure());
        }
        assertTrue(sample.isClosed);
    }

    @Test
    void batchOperatorsSeeAllEvents() {
        BatchOperator operator = batch -> batch.forEach(row -> row.set("of", batch.size()));
        try (OperatorHarness harness = OperatorHarness.ofBatch(operator)) {
            List<Result> results = harness.lines("a", "b");
            assertEquals("b", results.get(1).message());
            assertEquals(Map.of("of", 2L), results.get(1).fields());
        }
    }
}
