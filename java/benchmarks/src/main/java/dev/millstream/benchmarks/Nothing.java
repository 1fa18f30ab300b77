package dev.millstream.benchmarks;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;

/** Ignores all events, to measure the cost of a call. */
public final class Nothing implements BatchOperator {
    /** Creates the operator. */
    public Nothing() {}

    @Override
    public void process(Batch batch) {}
}
