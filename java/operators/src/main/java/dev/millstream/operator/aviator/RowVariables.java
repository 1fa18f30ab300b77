package dev.millstream.operator.aviator;

import dev.millstream.operator.Row;
import java.util.AbstractMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The fields of an event as the variables of an expression. Fields are read when they are used, and are never changed. Values that a script
 * assigns are kept separately until the next event.
 */
final class RowVariables extends AbstractMap<String, Object> {
    /** Name of the event itself, for functions. A script cannot use this name. */
    static final String ROW = " row";
    private static final Set<String> OF_EVERY_EVENT = Set.of("message", "timestamp", ROW);

    private final Map<String, Object> assigned = new HashMap<>();
    private Row row;

    /** Moves to another event, and clears the assigned values. */
    void use(Row next) {
        row = next;
        if (!assigned.isEmpty()) {
            assigned.clear();
        }
    }

    @Override
    public Object get(Object key) {
        Interrupts.check();
        String name = (String) key;
        if (!assigned.isEmpty() && assigned.containsKey(name)) {
            return assigned.get(name);
        }
        return switch (name) {
            case "message" -> row.message();
            case "timestamp" -> row.timestamp();
            case ROW -> row;
            default -> row.get(name);
        };
    }

    @Override
    public boolean containsKey(Object key) {
        String name = (String) key;
        return assigned.containsKey(name) || OF_EVERY_EVENT.contains(name) || row.has(name);
    }

    @Override
    public Object put(String name, Object value) {
        return assigned.put(name, value);
    }

    @Override
    public Object remove(Object name) {
        return assigned.remove(name);
    }

    @Override
    public boolean isEmpty() {
        return false;
    }

    @Override
    public Set<Entry<String, Object>> entrySet() {
        Map<String, Object> all = new HashMap<>();
        for (String name : row.names()) {
            all.put(name, row.get(name));
        }
        all.putAll(assigned);
        return all.entrySet();
    }

    @Override
    public Set<String> keySet() {
        Set<String> names = new HashSet<>(row.names());
        names.addAll(assigned.keySet());
        return names;
    }
}
