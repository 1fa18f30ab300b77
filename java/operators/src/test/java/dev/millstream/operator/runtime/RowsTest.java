package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.millstream.operator.Row;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class RowsTest {
    private final LocalWorker worker = new LocalWorker();

    @AfterEach
    void end() {
        worker.close();
    }

    private LocalAnswer run(LocalRequest request, Rule... rules) {
        int operator = Operators.register(rules);
        try (request) {
            return worker.apply(operator, request);
        } finally {
            Bridge.remove(operator);
        }
    }

    private static LocalRequest numbered(int rows) {
        LocalRequest request = new LocalRequest(rows);
        for (int row = 0; row < rows; row++) {
            request.set(row, "message", "message " + row).set(row, "n", (long) row);
        }
        return request;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 255, 256, 257, 5000})
    void everyRowIsSeenOnceByEveryRule(int rows) {
        LocalAnswer answer = run(numbered(rows),
                row -> row.set("m", row.integer("n", -1) + 1),
                row -> row.set("m", row.integer("m", -1) * 2),
                row -> row.set("text", row.message() + row.get("m")));
        assertEquals(rows == 0 ? 0 : 2, answer.changed().size());
        for (int row = 0; row < rows; row++) {
            assertEquals((row + 1) * 2L, answer.changed().get("m")[row].value());
            assertEquals("message " + row + (row + 1) * 2, answer.changed().get("text")[row].value());
        }
    }

    @Test
    void onlySelectedRowsAreSeen() {
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(numbered(1000).select(3, 700, 999), row -> {
            seen.add(row.get("n"));
            row.set("a", 1);
            row.drop();
        });
        assertEquals(List.of(3L, 700L, 999L), seen);
        assertEquals(List.of(3, 700, 999), answer.dropped());
        assertEquals(3, Arrays.stream(answer.changed().get("a")).filter(java.util.Objects::nonNull).count());
    }

    @Test
    void laterRulesDoNotSeeDroppedAndFailedRows() {
        List<Object> seen = new ArrayList<>();
        LocalAnswer answer = run(numbered(5), row -> {
            if (row.integer("n", 0) == 1) {
                row.drop();
                row.drop();
            }
            if (row.integer("n", 0) == 3) {
                throw new IllegalStateException("three");
            }
        }, row -> seen.add(row.get("n")));
        assertEquals(List.of(0L, 2L, 4L), seen);
        assertEquals(List.of(1), answer.dropped());
        LocalAnswer.Failed expected = new LocalAnswer.Failed(3, Layout.REASON_EXCEPTION, 0, "java.lang.IllegalStateException: three");
        assertEquals(List.of(expected), answer.failed());
    }

    @Test
    void aFailedRowIsAsItWas() {
        LocalAnswer answer = run(numbered(4), row -> {
            row.set("n", 7);
            row.set("new", "x");
            row.remove("message2");
            row.emit(Map.of("from", row.integer("n", 0), "message", row.message()));
        }, row -> {
            row.set("message", "changed");
            row.set("timestamp", Instant.EPOCH);
            row.emit(Map.of("second", true));
            row.drop();
            if (!row.message().equals("changed") || row.get("new") == null) {
                throw new AssertionError();
            }
            throw new Exception("always");
        });
        assertEquals(Map.of(), answer.changed());
        assertEquals(List.of(), answer.dropped());
        assertEquals(List.of(), answer.emitted());
        assertEquals(4, answer.failed().size());
        assertEquals(new LocalAnswer.Failed(3, Layout.REASON_EXCEPTION, 1, "java.lang.Exception: always"), answer.failed().get(3));
    }

    @Test
    void emittedEventsFollowTheirRow() {
        LocalAnswer answer = run(numbered(300), row -> {
            if (row.integer("n", 0) % 100 == 1) {
                row.emit(Map.of("rule", 1, "message", "first of " + row.get("n")));
            }
        }, row -> {
            if (row.integer("n", 0) % 100 < 2) {
                row.emit(Map.of("rule", 2));
            }
            if (row.integer("n", 0) == 101) {
                throw new IllegalStateException();
            }
        });
        assertEquals(List.of(0, 1, 1, 100, 200, 201, 201), answer.emitted());
        LocalValue[] rules = answer.changed().get("rule");
        assertEquals(List.of(2L, 1L, 2L, 2L, 2L, 1L, 2L), IntStream.range(300, 307).mapToObj(at -> rules[at].value()).toList());
        LocalValue[] messages = answer.changed().get("message");
        assertEquals("first of 201", messages[305].value());
        assertTrue(IntStream.range(0, 301).allMatch(at -> messages[at] == null));
        assertEquals(null, messages[306]);
    }

    @Test
    void aRuleThatCatchesAFailureToEmitEmitsNothing() {
        LocalAnswer answer = run(numbered(1), row -> {
            assertThrows(IllegalArgumentException.class, () -> row.emit(new java.util.TreeMap<>(Map.of("a", 1, "b", new Object()))));
            row.emit(Map.of("c", 1));
        });
        assertEquals(List.of(0), answer.emitted());
        assertEquals(java.util.Set.of("c"), answer.changed().keySet());
    }

    @Test
    void aKeptRowThrows() {
        List<Row> kept = new ArrayList<>();
        run(numbered(1), kept::add);
        run(numbered(1), row -> assertThrows(IllegalStateException.class, () -> kept.get(0).get("n")));
        List<Runnable> uses = List.of(() -> kept.get(0).get("n"), () -> kept.get(0).message(), () -> kept.get(0).set("n", 1),
                () -> kept.get(0).drop(), () -> kept.get(0).emit(Map.of()), () -> kept.get(0).names(), () -> kept.get(0).timestamp(),
                () -> kept.get(0).between("a", 0, "b"), () -> kept.get(0).remove("n"), () -> kept.get(0).has("n"),
                () -> kept.get(0).text("n"), () -> kept.get(0).integer("n", 0), () -> kept.get(0).number("n", 0));
        uses.forEach(use -> assertThrows(IllegalStateException.class, use::run));
    }

    @Test
    void aRowCannotBeUsedByAnotherThread() {
        LocalAnswer answer = run(numbered(1), row -> {
            List<Throwable> thrown = new ArrayList<>();
            Thread other = new Thread(() -> row.get("n"));
            other.setUncaughtExceptionHandler((thread, error) -> thrown.add(error));
            other.start();
            other.join();
            assertEquals(IllegalStateException.class, thrown.get(0).getClass());
        });
        assertEquals(List.of(), answer.failed());
    }

    @Test
    void theBufferGrows() {
        LocalRequest request = numbered(5000).outBytes(8);
        LocalAnswer answer = run(request, row -> {
            row.set("long", row.message().repeat(5));
            row.set("message", row.text("long"));
            row.emit(Map.of("e", row.text("message")));
        });
        for (int row = 0; row < 5000; row++) {
            String expected = ("message " + row).repeat(5);
            assertEquals(expected, answer.changed().get("message")[row].value());
            assertEquals(expected, answer.changed().get("e")[5000 + row].value());
        }
    }

    @Test
    void rowsFailWhenTheOutputIsFull() {
        worker.outBytesMax(100_000);
        LocalAnswer answer = run(numbered(100), row -> row.set("a", "x".repeat(10_000) + row.message()));
        assertTrue(answer.failed().size() > 80);
        assertEquals(new LocalAnswer.Failed(99, Layout.REASON_OUTPUT_FULL, 0, "the output of this call exceeds `expansion`"),
                answer.failed().get(answer.failed().size() - 1));
        assertEquals("x".repeat(10_000) + "message 0", answer.changed().get("a")[0].value());
    }

    @Test
    void aCallWithoutSpaceForItsAnswerFails() {
        worker.outBytesMax(100);
        Rule fails = row -> {
            throw new IllegalStateException("a message that does not fit: " + row.message());
        };
        String message = assertThrows(IllegalStateException.class, () -> run(numbered(10).outBytes(90), fails)).getMessage();
        assertEquals("the output of this call exceeds `expansion`", message);
        worker.outBytesMax(100_000);
        assertEquals(10, run(numbered(10), fails).failed().size());
    }

    private static int recurse(Row row, int depth) {
        row.set("depth" + depth % 50, depth);
        return recurse(row, depth + 1) + 1;
    }

    @Test
    void errorsFailOnlyTheirRow() {
        LocalAnswer answer = run(numbered(5), row -> {
            row.set("before", 1);
            switch ((int) row.integer("n", 0)) {
                case 0 -> row.set("a", new int[Integer.MAX_VALUE].length);
                case 1 -> recurse(row, 0);
                case 2 -> throw new NoClassDefFoundError("com/acme/Missing");
                case 3 -> throw new ThrowsInToString();
                default -> row.set("a", "fine");
            }
        });
        assertEquals(List.of(Layout.REASON_OUT_OF_MEMORY, Layout.REASON_STACK_OVERFLOW, Layout.REASON_EXCEPTION, Layout.REASON_EXCEPTION),
                answer.failed().stream().map(LocalAnswer.Failed::reason).toList());
        assertEquals("java.lang.NoClassDefFoundError: com/acme/Missing", answer.failed().get(2).message());
        assertEquals(ThrowsInToString.class.getName(), answer.failed().get(3).message());
        assertEquals(java.util.Set.of("before", "a"), answer.changed().keySet());
        assertEquals("fine", answer.changed().get("a")[4].value());
    }

    private static final class ThrowsInToString extends RuntimeException {
        private static final long serialVersionUID = 1;

        @Override
        public String toString() {
            throw this;
        }
    }

    @Test
    void tooManyNewFieldsFailOnlyTheirEvent() {
        LocalAnswer answer = run(numbered(300), row -> {
            boolean isGreedy = row.integer("n", 0) == 7 || row.integer("n", 0) == 290;
            row.set("before", 1);
            for (int at = 0; isGreedy && at < 100_000; at++) {
                row.set("of" + row.get("n") + "-" + at, at);
            }
            row.set("after" + row.integer("n", 0) % 900, 2);
        }, row -> row.set("last", 3));
        String message = "this call adds more than 1024 new fields";
        assertEquals(List.of(new LocalAnswer.Failed(7, Layout.REASON_OUTPUT_FULL, 0, message),
                new LocalAnswer.Failed(290, Layout.REASON_OUTPUT_FULL, 0, message)), answer.failed());
        assertEquals(2 + 298, answer.changed().size());
        assertEquals(2L, answer.changed().get("after299")[299].value());
        assertEquals(3L, answer.changed().get("last")[8].value());
        assertEquals(null, answer.changed().get("last")[7]);
    }

    @Test
    void anEmittedEventWithTooManyNewFieldsFailsItsEvent() {
        Map<String, Object> fields = new java.util.HashMap<>();
        IntStream.range(0, 5000).forEach(at -> fields.put("field" + at, at));
        LocalAnswer answer = run(numbered(2), row -> row.emit(row.integer("n", 0) == 0 ? fields : Map.of("n", 1, "new", 2)));
        assertEquals(List.of(0), answer.failed().stream().map(LocalAnswer.Failed::row).toList());
        assertEquals(List.of(1), answer.emitted());
        assertEquals(java.util.Set.of("n", "new"), answer.changed().keySet());
        assertEquals(2L, answer.changed().get("new")[2].value());
    }

    @Test
    void namesAndEventsThatAreNullFailWithAClearMessage() {
        List<Rule> uses = List.of(row -> row.set(null, "text"), row -> row.set(null, 1), row -> row.set(null, 1.5),
                row -> row.set(null, true), row -> row.set(null, 'c'), row -> row.get(null), row -> row.has(null), row -> row.text(null),
                row -> row.integer(null, 0), row -> row.number(null, 0), row -> row.remove(null),
                row -> row.emit(java.util.Collections.singletonMap(null, 1)));
        for (Rule use : uses) {
            LocalAnswer.Failed failed = run(numbered(1), use).failed().get(0);
            assertEquals("java.lang.IllegalArgumentException: a field name cannot be null", failed.message());
            assertEquals(Layout.REASON_WRONG_TYPE, failed.reason());
        }
        LocalAnswer answer = run(numbered(2), row -> row.emit(row.integer("n", 0) == 0 ? null : Map.of("a", 1)));
        assertEquals(List.of(new LocalAnswer.Failed(0, Layout.REASON_WRONG_TYPE, 0,
                "java.lang.IllegalArgumentException: emit requires a map of fields, not null")), answer.failed());
        assertEquals(List.of(1), answer.emitted());
        assertEquals("java.lang.IllegalArgumentException: 'left' must not be empty",
                run(numbered(1), row -> row.between(null, 0, "")).failed().get(0).message());
    }

    @Test
    void manyColumnsCanBeAdded() {
        LocalAnswer answer = run(numbered(2), row -> {
            for (int at = 0; at < 1000; at++) {
                row.set("column" + at, at);
                assertEquals((long) at, row.get("column" + at));
            }
            assertEquals(1001, row.names().size());
        });
        assertEquals(List.of(), answer.failed());
        assertEquals(999L, answer.changed().get("column999")[1].value());
        assertFalse(answer.changed().containsKey("n"));
    }
}
