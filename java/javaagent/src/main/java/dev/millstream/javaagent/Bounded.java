package dev.millstream.javaagent;

import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;

/** Values by key, of which only the first keys have their own; all others share one. Not thread-safe. */
final class Bounded<K, V> {
    private final int max;
    private final K otherKey;
    private final Function<K, V> create;
    private final Map<K, V> values = new HashMap<>();
    private V other;

    /** Creates a map for up to {@code max} keys. The value of all others is that of {@code otherKey}. */
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
