package dev.millstream.javaagent;

import dev.millstream.client.Counter;

/**
 * Number of exceptions of a type. JFR records a {@code JavaErrorThrow} event for each error, plus one or two {@code JavaExceptionThrow}
 * events. Other exceptions have only {@code JavaExceptionThrow} events. A type with {@code JavaErrorThrow} events is therefore counted by
 * those events. The series for all types beyond the bound is counted by {@code JavaExceptionThrow} events.
 */
final class ExceptionCount {
    private final Counter counter;
    private final boolean isMixed;
    private long throwables;
    private boolean isError;

    /** Creates the count of one type, or the shared count of several types if {@code isMixed}. */
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

    /** Adds an error. The first error subtracts the type's other events, which may have arrived earlier. */
    void addError() {
        if (!isMixed) {
            counter.add(isError ? 1 : 1 - throwables);
            isError = true;
        }
    }
}
