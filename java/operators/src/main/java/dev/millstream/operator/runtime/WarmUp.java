package dev.millstream.operator.runtime;

import dev.millstream.collector.CollectorStoppedException;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Runs calls with values of every kind.
 *
 * <p>The calls initialize classes before a rule can fill the stack or the memory, because a class whose initialization fails once is
 * unusable for the life of the process.
 */
final class WarmUp {
    private static final int OUT_BYTES = 1 << 20;
    private static final Object[] VALUES = {
        "text", "a text that is longer than the short ones: \u00e9", true, 7L, BigInteger.TEN.pow(30), 1.5,
        new BigDecimal("2"), Instant.EPOCH,
        null,
        List.of(1, "x", 2.5, true), Map.of("a", List.of()), 'c', Thread.State.NEW, new int[] {1}
    };
    private static final String MEMBERS = "\"a\":1,\"b\\u0041\":\"x\\n\",\"c\":[1.5,{\"d\":null}]";

    private WarmUp() {}

    static void run(Worker worker) {
        OperatorSpec spec = new OperatorSpec("", "class", List.of(), null, "", Map.of(), Map.of(), null, 1000, List.of(), List.of());
        Operator uses = WarmUp::use;
        LoadedOperator operator = new LoadedOperator(spec, List.of(new ClassRule(spec, () -> uses)), null);
        try (LocalRequest request = request()) {
            long offset = worker.apply(operator, request.address(0));
            if (offset < 0) {
                throw new IllegalStateException("the first call failed: " + new String(worker.failure(), StandardCharsets.UTF_8));
            }
        }
        Json.bytes(operator.stats());
        operator.remove();
    }

    /** Runs a collector call, for the same purpose as {@link #run} for operators. */
    static void runCollector() {
        CallEvents events = new CallEvents(new Nothing(), 0, new AtomicLong());
        events.add("text", Map.of("timestamp", Instant.EPOCH, "number", 1.5, "list", List.of("a", Double.NaN)));
        try {
            events.add(null);
        } catch (IllegalArgumentException refused) {
            Thrown.text(refused);
        }
        events.finish();
        try {
            events.flush();
        } catch (CollectorStoppedException ended) {
            Thrown.line(ended, "");
        }
    }

    /** Accepts events, and drops them. */
    private static final class Nothing implements Delivery {
        @Override
        public int deliver(long handle, long address, long bytes, int events) {
            return TAKEN;
        }

        @Override
        public void stopped(long handle) {}
    }

    private static LocalRequest request() {
        LocalRequest request = new LocalRequest(VALUES.length).outBytes(OUT_BYTES);
        for (int row = 0; row < VALUES.length; row++) {
            request.set(row, "message", "a=1;b=2").set(row, "field", VALUES[row]);
            request.set(row, "escaped", LocalValue.of(Layout.KIND_ESCAPED, "\\u0041"));
            request.set(row, "", LocalValue.of(Layout.KIND_MEMBERS, MEMBERS));
        }
        return request.segment(0, VALUES.length, Map.of("meta.host", "host"));
    }

    private static void use(Row row) {
        for (String name : Arrays.asList("field", "escaped", "a", "bA", "c", "meta.host", "missing", "timestamp")) {
            row.get(name);
            row.text(name);
            row.integer(name, 0);
            row.number(name, 0);
            row.has(name);
        }
        for (Object value : VALUES) {
            row.set("set", value);
            row.get("set");
        }
        row.set("set", 1L);
        row.set("set", 1.0);
        row.set("set", true);
        row.set("timestamp", row.timestamp());
        row.between("=", 1, ";");
        row.names();
        row.emit(Map.of("a", "b"));
        row.remove("set");
        row.drop();
        if (row.get("field") == null) {
            row.set("set", new Object());
        }
    }
}
