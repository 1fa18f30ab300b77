package dev.millstream.operator.runtime;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;

/** A class operator that takes rows. */
final class RowRule implements Rule, AutoCloseable {
    private final Operator operator;

    RowRule(Operator operator) {
        this.operator = operator;
    }

    @Override
    public void process(Row row) throws Exception {
        operator.process(row);
    }

    @Override
    public void close() throws Exception {
        operator.close();
    }
}
