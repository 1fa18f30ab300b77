package dev.millstream.client;

/** A distribution of values. The agent emits the sum, count and percentiles. Each value is a point. Thread-safe. */
public final class Histogram {
    private final MetricClient client;
    private final Series series;

    Histogram(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a value. Never allocates and never blocks; if the buffer is full, the point is dropped and counted.
     *
     * @param value a finite number; other values are dropped and counted
     */
    public void record(double value) {
        client.record(series, value, Packet.NO_SECOND);
    }
}
