import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.io.FileWriter;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/** A collector that triggers the fault in its {@code fault} option. */
public final class FaultyCollector implements Collector {
    private String fault;
    private String file;
    private long calls;

    /** Ends the process if the file in the {@code broken} property exists. */
    public FaultyCollector() throws Exception {
        String broken = System.getProperty("broken");
        if (broken != null && Files.exists(Path.of(broken))) {
            writeToAddressZero();
        }
    }

    @Override
    public void open(CollectorContext context) {
        fault = (String) context.options().get("fault");
        file = (String) context.options().get("file");
    }

    @Override
    public void collect(Events events) throws Exception {
        calls++;
        events.add(fault + " " + calls);
        switch (fault) {
            case "none" -> events.flush();
            case "exception" -> throw new IllegalStateException("injected");
            case "sleep" -> Thread.sleep(Long.MAX_VALUE);
            case "deaf" -> ignoreInterrupts();
            case "flood" -> flood(events);
            case "value" -> events.add("never", Map.of("field", new Object()));
            case "name" -> events.add("never", Map.of("n".repeat(257), 1));
            case "cycle" -> events.add("never", cycle());
            case "message" -> events.add("m".repeat((1 << 20) + 1));
            case "exit" -> System.exit(7);
            case "crash" -> crash();
            case "empty" -> addEmptyEvents(events);
            case "program" -> startProgram(events);
            case "notes" -> note(events);
            default -> throw new IllegalArgumentException(fault);
        }
    }

    /** Returns only when the process exits. */
    private static void ignoreInterrupts() {
        while (true) {
            try {
                Thread.sleep(1000);
            } catch (InterruptedException ignored) {
                // The tests need code that ignores interrupts.
            }
        }
    }

    /** Ends the process on the third call. */
    private void crash() throws Exception {
        if (calls >= 3) {
            writeToAddressZero();
        }
    }

    /** Ends the process by writing to address 0. */
    private static void writeToAddressZero() throws Exception {
        Class<?> type = Class.forName("sun.misc.Unsafe");
        Field field = type.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        type.getMethod("putAddress", long.class, long.class).invoke(field.get(null), 0L, 0L);
    }

    /** Numbers events, and records in a file how many events of this process the agent has accepted. */
    private void note(Events events) throws IOException {
        long process = ProcessHandle.current().pid();
        try (FileWriter notes = new FileWriter(file, true)) {
            for (long n = 1; ; n++) {
                events.add(process + " " + n);
                if (n % 10 == 0) {
                    events.flush();
                    notes.write(process + " " + n + "\n");
                    notes.flush();
                }
            }
        }
    }

    /** Sends events without text, each in a separate chunk. */
    private static void addEmptyEvents(Events events) {
        while (true) {
            events.add("");
            events.flush();
        }
    }

    /** Starts a program that exits much later, and sends its process id. */
    private static void startProgram(Events events) throws Exception {
        Process program = new ProcessBuilder("sleep", "600").inheritIO().start();
        events.add(Long.toString(program.pid()));
        events.flush();
        Thread.sleep(Long.MAX_VALUE);
    }

    private static void flood(Events events) {
        String text = "f".repeat(1000);
        while (true) {
            events.add(text);
        }
    }

    /** Returns a map that contains itself. */
    private static Map<String, Object> cycle() {
        Map<String, Object> map = new HashMap<>();
        map.put("map", map);
        return map;
    }
}
