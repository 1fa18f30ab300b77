package test;

import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Field;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** Executes the command in each event's message. */
public final class Commands implements Operator {
    private Map<String, Object> options = Map.of();
    private long rows;
    private static volatile long sink;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    @Override
    public void open(Context context) {
        options = context.options();
        if (options.containsKey("refuse")) {
            throw new IllegalStateException("refused to open");
        }
    }

    @Override
    public void process(Row row) throws Exception {
        rows++;
        String message = row.message();
        int space = message.indexOf(' ');
        String argument = space < 0 ? "" : message.substring(space + 1);
        switch (space < 0 ? message : message.substring(0, space)) {
            case "copy" -> row.set("copy", row.get("value"));
            case "change" -> row.set("value", argument);
            case "add" -> row.set("added", argument);
            case "remove" -> row.remove(argument);
            case "drop" -> row.drop();
            case "emit" -> emit(row, argument);
            case "time" -> row.set("timestamp", Instant.parse(argument));
            case "place" -> row.set("place", row.get("env") + " " + row.timestamp());
            case "option" -> row.set("option", options.get(argument));
            case "size" -> row.set("value", "x".repeat(Integer.parseInt(argument)));
            default -> fail(row, message);
        }
    }

    /** Temporarily fills most of the heap. */
    private static void garbage() {
        List<byte[]> blocks = new ArrayList<>();
        for (int block = 0; block < 3_000; block++) {
            blocks.add(new byte[16 << 10]);
        }
        blocks.clear();
    }

    private static void emit(Row row, String argument) {
        row.emit(Map.of("value", argument));
        row.emit(Map.of("message", "second", "extra", 2));
        row.drop();
    }

    private static void fail(Row row, String message) throws Exception {
        switch (message) {
            case "throw" -> throw new IllegalStateException("thrown");
            case "wrong" -> row.set("value", new Object());
            case "undone" -> undone(row);
            case "recurse" -> row.set("value", (long) depth(0));
            case "exhaust" -> row.set("value", exhaust());
            case "sleep" -> Thread.sleep(60_000);
            case "exit" -> System.exit(3);
            case "garbage" -> garbage();
            case "crash" -> crash();
            case "burn" -> burn(THREADS.getCurrentThreadCpuTime() + 200_000_000);
            case "collect" -> System.gc();
            case "halt" -> Runtime.getRuntime().halt(3);
            default -> {
                return;
            }
        }
    }

    /** Uses the CPU until the thread's CPU time reaches a value, regardless of the number of threads that share the CPU. */
    private static long burn(long endNs) {
        long value = 1;
        while (THREADS.getCurrentThreadCpuTime() < endNs) {
            for (int round = 0; round < 200_000; round++) {
                value = value * 31 + (value >>> 7);
            }
        }
        sink = value;
        return value;
    }

    private static void undone(Row row) {
        row.set("value", "undone");
        row.emit(Map.of("value", "undone"));
        row.drop();
        throw new IllegalArgumentException("undone");
    }

    /** Ends the process by writing to address 0. */
    private static void crash() throws Exception {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        Object unsafe = field.get(null);
        unsafe.getClass().getMethod("putAddress", long.class, long.class).invoke(unsafe, 0L, 0L);
    }

    private static int depth(int depth) {
        return depth < 0 ? 0 : depth(depth + 1) + 1;
    }

    private static long exhaust() {
        List<long[]> all = new ArrayList<>();
        while (true) {
            all.add(new long[1 << 20]);
        }
    }
}
