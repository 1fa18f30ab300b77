package dev.millstream.operator.groovy;

import dev.millstream.operator.Row;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** An event whose fields are a map. */
public final class MapRow implements Row {
    public final Map<String, Object> fields = new LinkedHashMap<>();
    public final List<Map<String, ?>> emitted = new ArrayList<>();
    public boolean dropped;

    /** Creates an event. Names and values alternate. */
    public MapRow(Object... namesAndValues) {
        fields.put("message", "");
        fields.put("timestamp", Instant.parse("2026-01-02T03:04:05Z"));
        for (int at = 0; at < namesAndValues.length; at += 2) {
            fields.put((String) namesAndValues[at], namesAndValues[at + 1]);
        }
    }

    @Override
    public Object get(String name) {
        return fields.get(name);
    }

    @Override
    public boolean has(String name) {
        return fields.containsKey(name);
    }

    @Override
    public String text(String name) {
        Object value = fields.get(name);
        return value == null ? null : value.toString();
    }

    @Override
    public long integer(String name, long otherwise) {
        return fields.get(name) instanceof Number number ? number.longValue() : otherwise;
    }

    @Override
    public double number(String name, double otherwise) {
        return fields.get(name) instanceof Number number ? number.doubleValue() : otherwise;
    }

    @Override
    public String message() {
        return (String) fields.get("message");
    }

    @Override
    public Instant timestamp() {
        return (Instant) fields.get("timestamp");
    }

    @Override
    public List<String> names() {
        List<String> names = new ArrayList<>(fields.keySet());
        names.removeAll(List.of("message", "timestamp"));
        return names;
    }

    @Override
    public void set(String name, Object value) {
        fields.put(name, value instanceof Integer number ? (Object) number.longValue() : value);
    }

    @Override
    public void set(String name, long value) {
        fields.put(name, value);
    }

    @Override
    public void set(String name, double value) {
        fields.put(name, value);
    }

    @Override
    public void set(String name, boolean value) {
        fields.put(name, value);
    }

    @Override
    public void remove(String name) {
        fields.remove(name);
    }

    @Override
    public void drop() {
        dropped = true;
    }

    @Override
    public void emit(Map<String, ?> event) {
        emitted.add(event);
    }

    @Override
    public String between(String left, int index, String right) {
        int from = 0;
        for (int at = 0; at <= index; at++) {
            int found = message().indexOf(left, from);
            if (found < 0) {
                return null;
            }
            from = found + left.length();
        }
        int end = right.isEmpty() ? -1 : message().indexOf(right, from);
        return message().substring(from, end < 0 ? message().length() : end);
    }
}
