package dev.millstream.client;

import java.util.concurrent.atomic.LongAdder;

/**
 * A sum. Each flush sends the additions since the previous flush as one point. While the agent is down, the sum accumulates and nothing is
 * dropped. Thread-safe.
 */
public final class Counter implements Accumulator {
    private final Series series;
    private final LongAdder sum = new LongAdder();
    /** The sum at the last flush; used only by the sender. */
    private long flushed;

    Counter(Series series) {
        this.series = series;
    }

    /**
     * Adds to the sum. Never allocates and never blocks.
     *
     * @param value any number, possibly negative
     */
    public void add(long value) {
        sum.add(value);
    }

    /** Adds one. */
    public void increment() {
        sum.add(1);
    }

    @Override
    public Series series() {
        return series;
    }

    @Override
    public void flushTo(Packet packet, boolean resend) {
        long current = sum.sum();
        if (current != flushed) {
            packet.add(series, current - flushed);
            flushed = current;
        }
    }
}
