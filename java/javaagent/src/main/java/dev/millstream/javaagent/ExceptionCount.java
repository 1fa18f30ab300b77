package dev.millstream.javaagent;

import dev.millstream.client.Counter;

/**
 * Number of exceptions of a type. Each error has an event {@code JavaErrorThrow}, and also one or two events
 * {@code JavaExceptionThrow}, the only kind of other exceptions. So a type with the former is counted by them. The series of all types
 * beyond the bound is counted by the latter.
 */
final class ExceptionCount {
    private final Counter counter;
    private final boolean isMixed;
    private long throwables;
    private boolean isError;

    /** Counts a type, or several. */
    ExceptionCount(Counter counter, boolean isMixed) {
        this.counter = counter;
        this.isMixed = isMixed;
    }

    void addThrowable() {
        if (!isError) {
            throwables++;
            counter.increment();
        }
    }

    /** Adds an error. The first one takes back the other events of its type, which may have come before. */
    void addError() {
        if (!isMixed) {
            counter.add(isError ? 1 : 1 - throwables);
            isError = true;
        }
    }
}
