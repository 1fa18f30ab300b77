package dev.millstream.benchmarks;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;

/** Looks at no event: what a call costs. */
public final class Nothing implements BatchOperator {
    /** Creates the operator. */
    public Nothing() {}

    @Override
    public void process(Batch batch) {}
}
