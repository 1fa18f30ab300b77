package dev.millstream.examples;

import dev.millstream.operator.Context;
import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;

/**
 * Normalizes log levels to {@code debug}, {@code info}, {@code warn} or {@code error}.
 *
 * <p>Unknown levels stay unchanged. An error gets an {@code errors} field, which contains the number of errors of the service on this
 * worker so far.
 *
 * <p>Options: {@code field}, the name of the level field; the default is {@code level}.
 */
public final class LevelNormalizer implements Operator {
    private static final Map<String, String> LEVELS = Map.ofEntries(
            Map.entry("trace", "debug"),
            Map.entry("debug", "debug"),
            Map.entry("info", "info"),
            Map.entry("notice", "info"),
            Map.entry("warn", "warn"),
            Map.entry("warning", "warn"),
            Map.entry("err", "error"),
            Map.entry("error", "error"),
            Map.entry("severe", "error"),
            Map.entry("fatal", "error"),
            Map.entry("critical", "error"));

    private final Map<String, Long> errors = new HashMap<>();
    private String field = "level";

    /** Creates the operator. */
    public LevelNormalizer() {}

    @Override
    public void open(Context context) {
        Object option = context.options().get("field");
        field = option == null ? field : option.toString();
    }

    @Override
    public void process(Row row) {
        String level = row.text(field);
        if (level == null) {
            return;
        }
        String normal = LEVELS.get(level.toLowerCase(Locale.ROOT));
        if (normal == null) {
            return;
        }
        if (!normal.equals(level)) {
            row.set(field, normal);
        }
        if (normal.equals("error")) {
            String service = row.text("service");
            row.set("errors", errors.merge(service == null ? "" : service, 1L, Long::sum));
        }
    }
}
