package dev.millstream.operator.runtime;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Row;

/** An operator class that processes whole batches. */
final class BatchRule implements Rule, AutoCloseable {
    private final BatchOperator operator;

    BatchRule(BatchOperator operator) {
        this.operator = operator;
    }

    void process(Batch batch) throws Exception {
        operator.process(batch);
    }

    @Override
    public void process(Row row) {
        throw new UnsupportedOperationException("takes batches");
    }

    @Override
    public void close() throws Exception {
        operator.close();
    }
}
