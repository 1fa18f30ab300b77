package dev.millstream.client;

/** A distribution of values; the agent tells their sum, count and percentiles. Each value is a point. Safe for any number of threads. */
public final class Histogram {
    private final MetricClient client;
    private final Series series;

    Histogram(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a value. Allocates nothing and waits for nobody; a point that there is no room for is dropped and counted.
     *
     * @param value a finite number; another is dropped and counted
     */
    public void record(double value) {
        client.record(series, value, Packet.NO_SECOND);
    }
}
