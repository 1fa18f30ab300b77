package dev.millstream.operator.testkit;

import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Operator;
import dev.millstream.operator.runtime.LocalRequest;
import dev.millstream.operator.runtime.LocalWorker;
import dev.millstream.operator.runtime.OperatorSpec;
import dev.millstream.operator.runtime.RuleSource;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Runs an operator on events as the agent does, on a worker thread.
 *
 * <pre>{@code
 * try (OperatorHarness harness = OperatorHarness.of(new MyOperator())) {
 *     Result result = harness.lines("GET /index.html 200").get(0);
 *     assertEquals(200L, result.fields().get("status"));
 * }
 * }</pre>
 */
public final class OperatorHarness implements AutoCloseable {
    private final ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
        Thread created = new Thread(task, "operator-harness");
        created.setDaemon(true);
        return created;
    });
    private final LocalWorker worker = onThread(LocalWorker::new);
    private final int operator;
    private Map<String, String> attributes = Map.of();

    private OperatorHarness(Callable<Integer> registers) {
        try {
            operator = registers.call();
        } catch (RuntimeException error) {
            thread.shutdown();
            throw error;
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Creates a harness for an operator without options. */
    public static OperatorHarness of(Operator operator) {
        return of(operator, Map.of());
    }

    /** Creates a harness for an operator with options. */
    public static OperatorHarness of(Operator operator, Map<String, Object> options) {
        return new OperatorHarness(() -> LocalWorker.register(operator, options));
    }

    /** Creates a harness for a batch operator without options. */
    public static OperatorHarness ofBatch(BatchOperator operator) {
        return ofBatch(operator, Map.of());
    }

    /** Creates a harness for a batch operator with options. */
    public static OperatorHarness ofBatch(BatchOperator operator, Map<String, Object> options) {
        return new OperatorHarness(() -> LocalWorker.register(operator, options));
    }

    /**
     * Creates a harness for a Groovy script.
     *
     * @throws IllegalArgumentException if the script is invalid
     */
    public static OperatorHarness groovy(String source) {
        return script("groovy", source);
    }

    /**
     * Creates a harness for an AviatorScript script.
     *
     * @throws IllegalArgumentException if the script is invalid
     */
    public static OperatorHarness aviator(String source) {
        return script("aviator", source);
    }

    private static OperatorHarness script(String language, String source) {
        List<RuleSource> rules = List.of(new RuleSource("script", source));
        return of(new OperatorSpec("test", language, rules, null, null, Map.of(), Map.of(), null, 0, List.of(), List.of()));
    }

    /**
     * Creates a harness for an operator configuration.
     *
     * @throws IllegalArgumentException if the source or the jar is invalid
     */
    public static OperatorHarness of(OperatorSpec spec) {
        return new OperatorHarness(() -> LocalWorker.register(spec));
    }

    /** Sets the attributes and {@code meta} names of subsequent events. */
    public OperatorHarness attributes(Map<String, String> values) {
        attributes = Map.copyOf(values);
        return this;
    }

    /**
     * Runs the operator on events, as one batch.
     *
     * @param events fields by name; {@code message} is the text, and {@code timestamp} is the time, an Instant
     */
    @SafeVarargs
    @SuppressWarnings("varargs") // The array is only read.
    public final List<Result> run(Map<String, ?>... events) {
        return run(Arrays.asList(events));
    }

    /** Runs the operator on events that contain only a text. */
    public List<Result> lines(String... lines) {
        return run(Arrays.stream(lines).map(line -> Map.of("message", line)).toList());
    }

    /** Runs the operator on events, as one batch; see {@link #run(Map[])}. */
    public List<Result> run(List<? extends Map<String, ?>> events) {
        return onThread(() -> {
            try (LocalRequest request = Results.request(events, attributes)) {
                return new Results(events, worker.apply(operator, request)).all();
            }
        });
    }

    private <T> T onThread(Callable<T> task) {
        try {
            return thread.submit(task).get();
        } catch (ExecutionException error) {
            throw new IllegalStateException(error.getCause().getMessage(), error.getCause());
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", error);
        }
    }

    /** Closes the operator. */
    @Override
    public void close() {
        LocalWorker.remove(operator);
        onThread(() -> {
            worker.close();
            return null;
        });
        thread.shutdown();
    }
}
