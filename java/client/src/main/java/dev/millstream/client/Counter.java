package dev.millstream.client;

import java.util.concurrent.atomic.LongAdder;

/**
 * A sum. What is added is held and sent as one point per flush; while the agent is away the sum is held too, and nothing of it is dropped.
 * Safe for any number of threads.
 */
public final class Counter implements Held {
    private final Series series;
    private final LongAdder sum = new LongAdder();
    /** Of the sender: what it has told. */
    private long told;

    Counter(Series series) {
        this.series = series;
    }

    /**
     * Adds to the sum. Allocates nothing and waits for nobody.
     *
     * @param value any number; a negative one takes away
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
    public void addTo(Packet packet, boolean again) {
        long now = sum.sum();
        if (now != told) {
            packet.add(series, now - told);
            told = now;
        }
    }
}
