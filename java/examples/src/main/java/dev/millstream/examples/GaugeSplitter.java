package dev.millstream.examples;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Splits a line such as {@code gauges: cpu=0.5 memory=1024} into one event per number, and drops the line.
 *
 * <p>Each event has the fields {@code name} and {@code value}. Other lines stay, and so does a line that contains a value that is not a
 * number.
 */
public final class GaugeSplitter implements Operator {
    private static final String PREFIX = "gauges: ";

    /** Creates the operator. */
    public GaugeSplitter() {}

    @Override
    public void process(Row row) {
        String line = row.message();
        if (!line.startsWith(PREFIX)) {
            return;
        }
        // Parse all numbers before emitting the first event.
        Map<String, Double> gauges = new LinkedHashMap<>();
        for (String pair : line.substring(PREFIX.length()).trim().split(" +")) {
            int equals = pair.indexOf('=');
            if (equals < 0) {
                throw new IllegalArgumentException("'" + pair + "' does not contain '='");
            }
            gauges.put(pair.substring(0, equals), Double.valueOf(pair.substring(equals + 1)));
        }
        gauges.forEach((name, value) -> row.emit(Map.of("name", name, "value", value, "message", name + "=" + value)));
        row.drop();
    }
}
