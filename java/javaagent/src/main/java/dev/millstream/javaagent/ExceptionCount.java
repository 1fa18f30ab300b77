package dev.millstream.javaagent;

import dev.millstream.client.Counter;

/**
 * Number of exceptions of a type. An error has an event of its own, but also one or two of the kind that every throwable has. So only the
 * former count if there are any. All types beyond the bound are one, of which the latter count.
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
