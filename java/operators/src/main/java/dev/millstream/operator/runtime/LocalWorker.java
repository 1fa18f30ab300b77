package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** Calls operators on the current thread as the agent does on a worker, for operator tests. */
public final class LocalWorker implements AutoCloseable {
    private static final Map<Long, LocalRequest> CALLS = new ConcurrentHashMap<>();
    private static final AtomicLong NEXT_CALL = new AtomicLong(1);

    private final Object worker;
    private long outBytesMax = Layout.OUT_BYTES_MAX;

    /** Makes the current thread a worker. */
    public LocalWorker() {
        Bridge.start("{}".getBytes(StandardCharsets.UTF_8));
        Bridge.replaceGrower(this::grow);
        worker = Bridge.worker(Thread.currentThread().getName());
    }

    private long grow(long call, long used, long needed) {
        return needed > outBytesMax ? 0 : CALLS.get(call).grow(used, needed);
    }

    /** Sets the maximum size of the answer buffer. */
    public void outBytesMax(long bytes) {
        outBytesMax = bytes;
    }

    /**
     * Compiles an operator.
     *
     * @return the operator's id
     * @throws IllegalArgumentException if the source or the jar is invalid
     */
    public static int register(OperatorSpec spec) {
        byte[] answer = Bridge.register(Specs.json(spec));
        Map<?, ?> members = (Map<?, ?>) Json.parse(answer, answer.length);
        if (members.get("error") instanceof Map<?, ?> error) {
            throw new IllegalArgumentException(place(error) + error.get("message"));
        }
        return ((Long) members.get("id")).intValue();
    }

    private static String place(Map<?, ?> error) {
        return error.get("rule") == null ? "" : error.get("rule") + " line " + error.get("line") + ": ";
    }

    /**
     * Registers an operator that the caller has created. The operator's first call opens the operator.
     *
     * @param operator an Operator or a BatchOperator
     * @param options the options in the operator's context
     * @return the operator's id
     */
    public static int register(AutoCloseable operator, Map<String, Object> options) {
        OperatorSpec spec = new OperatorSpec("test", "class", List.of(), null, operator.getClass().getName(), options, Map.of(), null, 0,
                List.of(), List.of());
        return register(spec, List.of(new ClassRule(spec, () -> operator)));
    }

    /** Removes and closes an operator. */
    public static void remove(int operator) {
        Bridge.remove(operator);
    }

    /** Registers compiled rules. Returns the id of the rules' operator. */
    static int register(OperatorSpec spec, List<CompiledRule> rules) {
        return Bridge.register(new LoadedOperator(spec, rules, null));
    }

    /**
     * Runs an operator.
     *
     * @throws IllegalStateException if the call failed as a whole
     */
    public LocalAnswer apply(int operator, LocalRequest request) {
        long call = NEXT_CALL.getAndIncrement();
        CALLS.put(call, request);
        try {
            long offset = Bridge.apply(worker, operator, request.address(call));
            if (offset < 0) {
                String why = offset == Layout.CALL_FAILED ? new String(Bridge.failure(worker), StandardCharsets.UTF_8) : "unknown operator";
                throw new IllegalStateException(why);
            }
            return new LocalAnswer(request, offset);
        } finally {
            CALLS.remove(call);
        }
    }

    /** Ends the worker. */
    @Override
    public void close() {
        Bridge.workerEnds(worker);
    }
}
