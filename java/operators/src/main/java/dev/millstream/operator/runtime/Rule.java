package dev.millstream.operator.runtime;

import dev.millstream.operator.Row;

/** A compiled rule for one worker. Works like an operator, but is never closed: its data is garbage once the operator is removed. */
public interface Rule {
    /**
     * Transforms the event on which the row is positioned.
     *
     * @throws Throwable if the row failed
     */
    void process(Row row) throws Throwable;
}
