package dev.millstream.operator.groovy;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The names of calls that are removed from rules.
 *
 * <p>{@code println} matches the function with that name, and the method with that name on any object. {@code log.info} and {@code log.*}
 * match methods on a receiver that is written as {@code log}.
 */
final class RemovedCalls {
    private static final String ANY = "*";

    private final Set<String> names = new HashSet<>();
    private final Map<String, Set<String>> byReceiver = new HashMap<>();

    RemovedCalls(List<String> entries) {
        for (String entry : entries) {
            int dot = entry.lastIndexOf('.');
            if (dot < 0) {
                names.add(entry);
            } else {
                byReceiver.computeIfAbsent(entry.substring(0, dot), receiver -> new HashSet<>()).add(entry.substring(dot + 1));
            }
        }
    }

    boolean isEmpty() {
        return names.isEmpty() && byReceiver.isEmpty();
    }

    /** Returns whether a call is removed. The receiver is given as written in the source. */
    boolean contains(String receiver, String method) {
        Set<String> methods = byReceiver.getOrDefault(receiver, Set.of());
        return names.contains(method) || methods.contains(method) || methods.contains(ANY);
    }
}
