package dev.millstream.operator.runtime;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;

/** An operator class that processes single rows. */
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
