package dev.millstream.benchmarks;

import dev.millstream.operator.Operator;
import dev.millstream.operator.Row;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;

/**
 * Keeps or releases memory as each event requests: {@code keep N} keeps N KiB, {@code swap N} keeps N KiB and releases the oldest block,
 * {@code release} releases everything.
 */
public final class Hoard implements Operator {
    /** Shared by the instances of all threads. */
    private static final Queue<byte[]> KEPT = new ConcurrentLinkedQueue<>();

    private static final int KIB = 1024;

    /** Creates the operator. */
    public Hoard() {}

    @Override
    public void process(Row row) {
        String[] words = row.message().split(" ");
        switch (words[0]) {
            case "keep" -> KEPT.add(new byte[Integer.parseInt(words[1]) * KIB]);
            case "swap" -> {
                KEPT.poll();
                KEPT.add(new byte[Integer.parseInt(words[1]) * KIB]);
            }
            default -> KEPT.clear();
        }
    }
}
