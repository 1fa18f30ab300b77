package dev.millstream.javaagent;

import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** Groups of events that the {@code events} option selects. */
enum Group {
    SOCKET, FILE, GC, SAFEPOINT, MONITOR, EXCEPTIONS, ALLOCATION, CPU;

    /** Groups that are recorded by default, because their event count does not grow with the application's work. */
    static final Set<Group> DEFAULT = EnumSet.complementOf(EnumSet.of(EXCEPTIONS, ALLOCATION));

    /** Returns the group with this option name. Throws an {@link IllegalArgumentException} if the name is unknown. */
    static Group of(String name) {
        for (Group group : values()) {
            if (group.name().toLowerCase(Locale.ROOT).equals(name)) {
                return group;
            }
        }
        throw new IllegalArgumentException("unknown group '" + name + "'");
    }
}
