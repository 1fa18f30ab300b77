package dev.millstream.examples;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Row;
import java.util.HashMap;
import java.util.Map;

/** Drops events whose text repeats an earlier one of the same batch. That gets a field {@code repeated}, the number of repetitions. */
public final class Deduplicator implements BatchOperator {
    /** Creates the operator. */
    public Deduplicator() {}

    @Override
    public void process(Batch batch) {
        Map<String, Integer> firsts = new HashMap<>();
        int[] repetitions = new int[batch.size()];
        for (int at = 0; at < batch.size(); at++) {
            Row row = batch.row(at);
            Integer first = firsts.putIfAbsent(row.message(), at);
            if (first != null) {
                repetitions[first]++;
                row.drop();
            }
        }
        for (int at = 0; at < repetitions.length; at++) {
            if (repetitions[at] > 0) {
                batch.row(at).set("repeated", repetitions[at]);
            }
        }
    }
}
