package dev.millstream.operator.groovy;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * The names of calls that are removed from rules.
 *
 * <p>{@code println} is a function of that name, and a method of that name of any object. {@code log.info} and {@code log.*} are methods
 * of what is written as {@code log}.
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

    /** Returns whether a call is removed; the receiver is as it is written. */
    boolean contains(String receiver, String method) {
        Set<String> methods = byReceiver.getOrDefault(receiver, Set.of());
        return names.contains(method) || methods.contains(method) || methods.contains(ANY);
    }
}
