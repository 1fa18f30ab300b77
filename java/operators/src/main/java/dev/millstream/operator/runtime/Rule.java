package dev.millstream.operator.runtime;

import dev.millstream.operator.Row;

/** A compiled rule for one worker. Like an operator, but never closed: what it holds is garbage once the operator is removed. */
public interface Rule {
    /**
     * Transforms the event on which the row is positioned.
     *
     * @throws Throwable the row failed
     */
    void process(Row row) throws Throwable;
}
