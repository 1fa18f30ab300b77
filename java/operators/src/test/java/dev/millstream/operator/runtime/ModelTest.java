package dev.millstream.operator.runtime;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.millstream.operator.Row;
import java.math.BigInteger;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Compares random calls with a model that uses maps. */
class ModelTest {
    private static final String[] NAMES = {"message", "a", "b", "c", "a rather long name of a field", "é", "new", "later"};
    private static final int CASES = Integer.getInteger("model.cases", 60);

    private final LocalWorker worker = new LocalWorker();

    @AfterEach
    void end() {
        worker.close();
    }

    /** One action of a rule on a row. */
    private record Step(int kind, String name, Object value) {
        static final int SET = 0;
        static final int REMOVE = 1;
        static final int EMIT = 2;
        static final int DROP = 3;
        static final int FAIL = 4;
    }

    /** An event of the model. */
    private static final class Model {
        private Map<String, Object> fields = new LinkedHashMap<>();
        private List<Map<String, Object>> emitted = new ArrayList<>();
        private boolean isDropped;
        private boolean isFailed;
    }

    private static Object value(Random random) {
        return switch (random.nextInt(10)) {
            case 0 -> null;
            case 1 -> random.nextBoolean();
            case 2 -> random.nextLong() >> random.nextInt(64);
            case 3 -> new BigInteger(80, random).add(BigInteger.ONE.shiftLeft(64));
            case 4 -> random.nextGaussian() * Math.pow(10, random.nextInt(40) - 20);
            case 5 -> Instant.ofEpochSecond(random.nextInt(), random.nextInt(1_000_000_000));
            case 6 -> Arrays.asList(random.nextLong(), "in\"ner", null);
            case 7 -> Map.of("k", random.nextInt(9) + 0L);
            default -> text(random);
        };
    }

    private static String text(Random random) {
        String[] parts = {"x", "é", "€", "😀", "\0", "\"", "\\", "some text", "\n"};
        StringBuilder text = new StringBuilder();
        for (int count = random.nextInt(random.nextInt(6) == 0 ? 60 : 4); count > 0; count--) {
            text.append(parts[random.nextInt(parts.length)]);
        }
        return text.toString();
    }

    private static List<Step> steps(Random random) {
        List<Step> steps = new ArrayList<>();
        for (int count = random.nextInt(4); count > 0; count--) {
            int kind = random.nextInt(20);
            String name = NAMES[random.nextInt(NAMES.length)];
            if (kind < 12) {
                steps.add(new Step(Step.SET, name, name.equals("message") ? text(random) : value(random)));
            } else if (kind < 15) {
                steps.add(new Step(Step.REMOVE, name.equals("message") ? "a" : name, null));
            } else if (kind < 18) {
                boolean isBare = name.equals("message");
                steps.add(new Step(Step.EMIT, null, isBare ? Map.of() : Map.of(name, text(random), "message", text(random))));
            } else {
                steps.add(new Step(kind == 18 ? Step.DROP : Step.FAIL, null, null));
            }
        }
        return steps;
    }

    private static void apply(List<Step> steps, Row row) throws Exception {
        for (Step step : steps) {
            switch (step.kind) {
                case Step.SET -> row.set(step.name, step.value);
                case Step.REMOVE -> row.remove(step.name);
                case Step.EMIT -> row.emit(cast(step.value));
                case Step.DROP -> row.drop();
                default -> throw new Exception("fails");
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> cast(Object value) {
        return (Map<String, Object>) value;
    }

    private static void apply(List<Step> steps, Model model) {
        for (Step step : steps) {
            switch (step.kind) {
                case Step.SET -> model.fields.put(step.name, step.value);
                case Step.REMOVE -> model.fields.remove(step.name);
                case Step.EMIT -> model.emitted.add(cast(step.value));
                case Step.DROP -> model.isDropped = true;
                default -> model.isFailed = true;
            }
            if (model.isFailed) {
                return;
            }
        }
    }

    @Test
    void randomCallsEqualTheModel() {
        String given = System.getenv("SEED");
        long seed = given == null ? new Random().nextInt() : Long.parseLong(given);
        for (int number = 0; number < CASES; number++) {
            long caseSeed = seed + number;
            try {
                check(new Random(caseSeed));
            } catch (RuntimeException | Error error) {
                throw new AssertionError("SEED=" + caseSeed + " replays this test", error);
            }
        }
    }

    private void check(Random random) {
        int rows = random.nextInt(600);
        LocalRequest request = new LocalRequest(rows).outBytes(8L << random.nextInt(20));
        List<Model> models = new ArrayList<>();
        for (int row = 0; row < rows; row++) {
            Model model = new Model();
            model.fields.put("message", text(random));
            for (int field = 1; field < 6; field++) {
                if (random.nextInt(3) > 0) {
                    model.fields.put(NAMES[field], value(random));
                }
            }
            model.fields.forEach(requestRow(request, row));
            models.add(model);
        }
        if (random.nextBoolean()) {
            request.own("a");
        }
        int rules = 1 + random.nextInt(3);
        Map<Integer, List<Step>> steps = new HashMap<>();
        Rule[] checked = new Rule[rules];
        for (int rule = 0; rule < rules; rule++) {
            for (int row = 0; row < rows; row++) {
                steps.put(rule * rows + row, steps(random));
            }
            checked[rule] = rule(models, steps, rule * rows);
        }
        int operator = Operators.register(checked);
        try (request) {
            compare(models, request, worker.apply(operator, request));
        } finally {
            Bridge.remove(operator);
        }
    }

    private static java.util.function.BiConsumer<String, Object> requestRow(LocalRequest request, int row) {
        return (name, value) -> request.set(row, name, value);
    }

    /** Returns a rule that finds its row by counting the live rows. */
    private static Rule rule(List<Model> models, Map<Integer, List<Step>> steps, int firstStep) {
        int[] next = {0};
        return row -> {
            while (models.get(next[0]).isDropped || models.get(next[0]).isFailed) {
                next[0]++;
            }
            int number = next[0]++;
            Model model = models.get(number);
            for (String name : NAMES) {
                assertEquals(model.fields.get(name), row.get(name), name);
                assertEquals(model.fields.containsKey(name), row.has(name), name);
            }
            apply(steps.get(firstStep + number), model);
            apply(steps.get(firstStep + number), row);
        };
    }

    private static void compare(List<Model> models, LocalRequest request, LocalAnswer answer) {
        answer.failed().forEach(failed -> assertEquals("java.lang.Exception: fails", failed.message()));
        int event = 0;
        for (int row = 0; row < models.size(); row++) {
            Model model = models.get(row);
            assertEquals(model.isDropped && !model.isFailed, answer.dropped().contains(row));
            int number = row;
            assertEquals(model.isFailed, answer.failed().stream().anyMatch(failed -> failed.row() == number));
            for (String name : NAMES) {
                LocalValue[] changed = answer.changed().get(name);
                LocalValue value = changed == null ? null : changed[row];
                if (model.isFailed) {
                    assertEquals(null, value);
                } else if (value != null) {
                    assertEquals(model.fields.get(name), value.value());
                    assertEquals(model.fields.containsKey(name), !value.isAbsent());
                }
            }
            for (Map<String, Object> emitted : model.isFailed ? List.<Map<String, Object>>of() : model.emitted) {
                assertEquals(row, answer.emitted().get(event));
                compare(emitted, answer, request.rows() + event);
                event++;
            }
        }
        assertEquals(event, answer.emitted().size());
    }

    private static void compare(Map<String, Object> emitted, LocalAnswer answer, int at) {
        Map<String, Object> found = new HashMap<>();
        answer.changed().forEach((name, values) -> {
            if (values[at] != null) {
                found.put(name, values[at].value());
            }
        });
        assertEquals(emitted, found);
        assertEquals(emitted.size(), answer.changed().values().stream().map(values -> values[at]).filter(Objects::nonNull).count());
    }
}
