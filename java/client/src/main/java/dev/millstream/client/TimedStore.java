package dev.millstream.client;

/** Values with explicit timestamps. Each value is a point. Thread-safe. */
public final class TimedStore {
    private final MetricClient client;
    private final Series series;

    TimedStore(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a value with a timestamp. Never allocates and never blocks; if the buffer is full, the point is dropped and counted.
     *
     * @param value a finite number; other values are dropped and counted
     * @param second the Unix time in seconds, at least 1; points with other values are dropped and counted
     */
    public void set(double value, long second) {
        client.record(series, second > 0 ? value : Double.NaN, second);
    }
}
