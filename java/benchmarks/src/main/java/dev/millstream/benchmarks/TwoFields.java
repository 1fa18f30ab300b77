package dev.millstream.benchmarks;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;

/** Sets two fields from the message, as the {@code operator_*} scenarios do in each language. */
public final class TwoFields implements Operator {
    /** Creates the operator. */
    public TwoFields() {}

    @Override
    public void process(Row row) {
        String message = row.message();
        row.set("is_get", message.contains("\"GET "));
        row.set("length", message.length());
    }
}
