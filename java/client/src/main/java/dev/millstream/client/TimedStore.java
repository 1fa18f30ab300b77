package dev.millstream.client;

/** Values at times of their own. Each is a point. Safe for any number of threads. */
public final class TimedStore {
    private final MetricClient client;
    private final Series series;

    TimedStore(MetricClient client, Series series) {
        this.client = client;
        this.series = series;
    }

    /**
     * Records a value of a time. Allocates nothing and waits for nobody; a point that there is no room for is dropped and counted.
     *
     * @param value a finite number; another is dropped and counted
     * @param second the time in Unix seconds, from 1 on; another is dropped and counted
     */
    public void set(double value, long second) {
        client.record(series, second > 0 ? value : Double.NaN, second);
    }
}
