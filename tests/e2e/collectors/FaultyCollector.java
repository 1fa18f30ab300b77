import dev.millstream.collector.Collector;
import dev.millstream.collector.CollectorContext;
import dev.millstream.collector.Events;
import java.util.HashMap;
import java.util.Map;

/** A collector that does what its option {@code fault} says. */
public final class FaultyCollector implements Collector {
    private String fault;
    private long calls;

    @Override
    public void open(CollectorContext context) {
        fault = (String) context.options().get("fault");
    }

    @Override
    public void collect(Events events) throws Exception {
        calls++;
        events.add(fault + " " + calls);
        switch (fault) {
            case "none" -> events.flush();
            case "exception" -> throw new IllegalStateException("planted");
            case "sleep" -> Thread.sleep(Long.MAX_VALUE);
            case "deaf" -> ignoreInterrupts();
            case "flood" -> flood(events);
            case "value" -> events.add("never", Map.of("field", new Object()));
            case "name" -> events.add("never", Map.of("n".repeat(257), 1));
            case "cycle" -> events.add("never", cycle());
            case "message" -> events.add("m".repeat((16 << 20) + 1));
            case "exit" -> System.exit(7);
            default -> throw new IllegalArgumentException(fault);
        }
    }

    /** Ends at the end of the process only. */
    private static void ignoreInterrupts() {
        while (true) {
            try {
                Thread.sleep(1000);
            } catch (InterruptedException ignored) {
                // The test is about code that does this.
            }
        }
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
