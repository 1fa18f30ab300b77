package dev.millstream.client;

/**
 * A distribution of durations. The agent emits the minimum, maximum, average, sum, count and percentiles. Each value is a point.
 * Thread-safe.
 */
public final class Timer {
    private final MetricClient client;
    private final Series series;

    Timer(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a duration. Never allocates and never blocks; if the buffer is full, the point is dropped and counted.
     *
     * @param value a finite number in the metric's unit, usually milliseconds; other values are dropped and counted
     */
    public void record(double value) {
        client.record(series, value, Packet.NO_SECOND);
    }

    /**
     * Records the milliseconds since a start time; see {@link #record}.
     *
     * @param startNanos the value of {@link System#nanoTime} at the start
     */
    public void recordSince(long startNanos) {
        record((System.nanoTime() - startNanos) / 1e6);
    }
}
