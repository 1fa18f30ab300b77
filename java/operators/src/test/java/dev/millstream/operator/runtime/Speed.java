package dev.millstream.operator.runtime;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/** Prints nanoseconds of CPU time per row and per word. Run manually. */
final class Speed {
    private static final int ROWS = 5000;
    private static final int MESSAGE_BYTES = 200;
    private static final long MEASURED_NS = 700_000_000L;
    private static final int ROUNDS = 4;

    /** Keeps values alive for the JIT. */
    private static Object seen;

    private Speed() {}

    /** Reads two fields and sets two fields. */
    private static final class TwoFields implements Operator {
        @Override
        public void process(Row row) {
            String host = row.text("host");
            String message = row.message();
            row.set("service", host.equals("host-0000001") ? "first" : "other");
            row.set("length", message.length());
        }
    }

    /** Sets two fields to parts of the message. */
    private static final class Parts implements Operator {
        @Override
        public void process(Row row) {
            row.set("first", row.between("=", 0, ";"));
            row.set("second", row.between("=", 1, ";"));
        }
    }

    /** Does nothing. */
    private static final class Nothing implements Operator {
        @Override
        public void process(Row row) {
            // This measures the loop.
        }
    }

    /** Prints the best of several rounds for each operator. */
    public static void main(String[] arguments) {
        Bridge.start("{}".getBytes(StandardCharsets.UTF_8));
        Object worker = Bridge.worker("speed");
        Map<String, Operator> operators = new LinkedHashMap<>();
        operators.put("nothing", new Nothing());
        operators.put("two fields", new TwoFields());
        operators.put("two parts", new Parts());
        operators.put("read short text", row -> seen = row.text("host"));
        operators.put("read message", row -> seen = row.message());
        operators.put("set constant", row -> row.set("service", "other"));
        operators.put("set integer", row -> row.set("length", 200L));
        operators.put("part", row -> seen = row.between("=", 0, ";"));
        try (LocalRequest request = request()) {
            request.outBytes(4 << 20);
            long address = request.address(0);
            operators.forEach((name, operator) -> {
                double best = Double.MAX_VALUE;
                for (int round = 0; round < ROUNDS; round++) {
                    best = Math.min(best, rule(worker, address, operator, 1000));
                }
                System.out.printf(Locale.ROOT, "%-20s %6.1f ns per row%n", name, best);
            });
            System.out.println(words(request.block()));
        }
        Bridge.workerEnds(worker);
    }

    private static LocalRequest request() {
        LocalRequest request = new LocalRequest(ROWS);
        for (int row = 0; row < ROWS; row++) {
            String text = String.format(Locale.ROOT, "2026-01-02 key=value-%07d;other=%d; ", row, row);
            request.set(row, "message", text + "x".repeat(MESSAGE_BYTES - text.length()));
            request.set(row, "host", String.format(Locale.ROOT, "host-%07d", row % 100));
        }
        return request.segment(0, ROWS, Map.of("env", "test"));
    }

    private static double rule(Object worker, long address, Operator operator, long timeoutMs) {
        int id = Operators.register(timeoutMs, new RowRule(operator));
        long calls = 0;
        var threads = ManagementFactory.getThreadMXBean();
        long start = threads.getCurrentThreadCpuTime();
        while (threads.getCurrentThreadCpuTime() - start < MEASURED_NS) {
            if (Bridge.apply(worker, id, address) < 0) {
                throw new IllegalStateException(new String(Bridge.failure(worker), StandardCharsets.UTF_8));
            }
            calls++;
        }
        double ns = (double) (threads.getCurrentThreadCpuTime() - start) / calls / ROWS;
        Bridge.remove(id);
        return ns;
    }

    private static String words(long address) {
        int words = ROWS * MESSAGE_BYTES / 8;
        long[] array = new long[words];
        double memory = Double.MAX_VALUE;
        double plain = Double.MAX_VALUE;
        long sum = 0;
        for (int round = 0; round < 2000; round++) {
            long start = System.nanoTime();
            for (int at = 0; at < words; at++) {
                sum += Memory.getLong(address + at * 8L);
            }
            long middle = System.nanoTime();
            for (int at = 0; at < words; at++) {
                sum += array[at];
            }
            memory = Math.min(memory, (double) (middle - start) / words);
            plain = Math.min(plain, (double) (System.nanoTime() - middle) / words);
        }
        return String.format(Locale.ROOT, "getLong %.3f ns, long[] %.3f ns (%d)", memory, plain, sum & 1);
    }
}
