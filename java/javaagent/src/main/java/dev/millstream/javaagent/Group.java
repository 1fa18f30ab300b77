package dev.millstream.javaagent;

import java.util.EnumSet;
import java.util.Locale;
import java.util.Set;

/** Groups of events that option {@code events} selects. */
enum Group {
    SOCKET, FILE, GC, SAFEPOINT, MONITOR, EXCEPTIONS, ALLOCATION, CPU;

    /** Groups that are recorded by default: those whose number of events does not grow with the work of the application. */
    static final Set<Group> DEFAULT = EnumSet.complementOf(EnumSet.of(EXCEPTIONS, ALLOCATION));

    /** Returns the group with this name in options. Throws an {@link IllegalArgumentException} if there is none. */
    static Group of(String name) {
        for (Group group : values()) {
            if (group.name().toLowerCase(Locale.ROOT).equals(name)) {
                return group;
            }
        }
        throw new IllegalArgumentException("unknown group '" + name + "'");
    }
}
