package dev.millstream.client;

/** A distribution of times; the agent tells their minimum, maximum, average, sum, count and percentiles. Each value is a point. Safe for any number of threads. */
public final class Timer {
    private final MetricClient client;
    private final Series series;

    Timer(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a time. Allocates nothing and waits for nobody; a point that there is no room for is dropped and counted.
     *
     * @param value a finite number in the unit that the metric has, mostly milliseconds; another is dropped and counted
     */
    public void record(double value) {
        client.record(series, value, Packet.NO_SECOND);
    }

    /**
     * Records in milliseconds how long ago a time is, as {@link #record}.
     *
     * @param startNanos what {@link System#nanoTime} was when it began
     */
    public void recordSince(long startNanos) {
        record((System.nanoTime() - startNanos) / 1e6);
    }
}
