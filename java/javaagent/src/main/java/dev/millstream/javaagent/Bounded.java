package dev.millstream.javaagent;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/** A map with separate values for only the first keys. All other keys share one value. Not thread-safe. */
final class Bounded<K, V> {
    private final int max;
    private final K otherKey;
    private final Function<K, V> create;
    private final Map<K, V> values = new HashMap<>();
    private V other;

    /** Creates a map for up to {@code max} keys. All other keys share the value that is created for {@code otherKey}. */
    Bounded(int max, K otherKey, Function<K, V> create) {
        this.max = max;
        this.otherKey = otherKey;
        this.create = create;
    }

    V get(K key) {
        V value = values.get(key);
        if (value != null) {
            return value;
        }
        if (values.size() < max) {
            V created = create.apply(key);
            values.put(key, created);
            return created;
        }
        if (other == null) {
            other = create.apply(otherKey);
        }
        return other;
    }
}
