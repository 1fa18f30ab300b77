package dev.millstream.examples;

import dev.millstream.operator.Batch;
import dev.millstream.operator.BatchOperator;
import dev.millstream.operator.Row;
import java.util.HashMap;
import java.util.Map;

/**
 * Drops events that repeat the text of an earlier event in the same batch, and counts the repetitions in a {@code repeated} field of that
 * event.
 */
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
