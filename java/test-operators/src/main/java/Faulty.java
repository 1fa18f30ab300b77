import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;

/** An operator that triggers the fault in its {@code fault} option for each line that contains {@code bad}. */
public final class Faulty implements Operator {
    private String fault;
    private final List<Object> kept = new ArrayList<>();

    @Override
    public void open(Context context) {
        fault = (String) context.options().get("fault");
    }

    @Override
    public void process(Row row) throws Exception {
        if (row.message().contains("bad")) {
            fail(row);
        }
        row.set("seen", true);
    }

    private void fail(Row row) throws Exception {
        switch (fault) {
            case "exception" -> throw new IllegalStateException("injected in " + row.message());
            case "interruptible" -> Thread.sleep(Long.MAX_VALUE);
            case "loop" -> spin();
            case "recursion" -> recurse(1);
            case "allocation" -> untilMemoryIsUsedUp(() -> new long[1 << 20]);
            case "classes" -> untilMemoryIsUsedUp(Faulty::define);
            case "leak" -> leak();
            case "exit" -> System.exit(7);
            case "halt" -> Runtime.getRuntime().halt(7);
            case "crash" -> crash();
            case "fill" -> fill();
            case "remove" -> removeAll();
            case "type" -> row.set("seen", new Object());
            default -> throw new IllegalArgumentException(fault);
        }
    }

    /** Spins and cannot be interrupted. */
    private static void spin() {
        long end = System.nanoTime() + 600_000_000_000L;
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }

    /** Ends the process by writing to address 0. */
    private static void crash() throws Exception {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        type.getMethod("putAddress", long.class, long.class).invoke(unsafe(type), 0L, 0L);
    }

    /** Allocates memory outside the heap, which the JVM does not limit. */
    private static void fill() throws Exception {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Method allocate = type.getMethod("allocateMemory", long.class);
        Method set = type.getMethod("setMemory", long.class, long.class, byte.class);
        for (int block = 0; block < 4096; block++) {
            Object address = allocate.invoke(unsafe(type), 1L << 20);
            set.invoke(unsafe(type), address, 1L << 20, (byte) 1);
        }
    }

    /** Removes all operators without informing the agent. */
    private static void removeAll() throws Exception {
        ClassLoader loader = Operator.class.getClassLoader();
        Method remove = loader.loadClass("dev.millstream.operator.runtime.Bridge").getMethod("remove", int.class);
        for (int operator = 0; operator < 100; operator++) {
            remove.invoke(null, operator);
        }
    }

    private static Object unsafe(Class<?> type) throws Exception {
        Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return field.get(null);
    }

    private static int recurse(int depth) {
        return depth == 0 ? 0 : 1 + recurse(depth + 1);
    }

    private void untilMemoryIsUsedUp(Callable<Object> make) throws Exception {
        try {
            while (true) {
                kept.add(make.call());
            }
        } finally {
            kept.clear();
        }
    }

    /** Allocates memory and keeps it. */
    private void leak() {
        while (true) {
            kept.add(new long[1 << 10]);
        }
    }

    /** Defines a copy of this class. */
    private static Class<?> define() throws IOException {
        try (InputStream in = Faulty.class.getResourceAsStream("Faulty.class")) {
            return new Copies().define(in.readAllBytes());
        }
    }

    /** A class loader that defines one class. */
    private static final class Copies extends ClassLoader {
        Class<?> define(byte[] bytes) {
            return defineClass("Faulty", bytes, 0, bytes.length);
        }
    }
}
