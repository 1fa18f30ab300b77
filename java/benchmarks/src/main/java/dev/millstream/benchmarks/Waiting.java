package dev.millstream.benchmarks;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;

/** Waits 20 ms per batch, like an operator that queries another system. */
public final class Waiting implements BatchOperator {
    private static final long WAIT_MS = 20;

    /** Creates the operator. */
    public Waiting() {}

    @Override
    public void process(Batch batch) throws InterruptedException {
        Thread.sleep(WAIT_MS);
    }
}
