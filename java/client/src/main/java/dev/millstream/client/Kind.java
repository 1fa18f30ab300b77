package dev.millstream.client;

import java.nio.charset.StandardCharsets;

/** What the agent makes of the values of a series. */
public enum Kind {
    /** The sum since the series was new, in every period. */
    COUNTER("counter"),
    /** The sum of a period by its seconds. */
    RATE_COUNTER("rate_counter"),
    /** A counter, and its rate under {@code name.rate}. */
    METER("meter"),
    /** The sum of a period under {@code name.delta}, with {@code name.rate} and {@code name.counter}. */
    DELTA_COUNTER("delta_counter"),
    /** A distribution: minimum, maximum, average, sum, count and percentiles of a period. */
    TIMER("timer"),
    /** A distribution: sum, count and percentiles of a period. */
    HISTOGRAM("histogram"),
    /** The last value. */
    STORE("store"),
    /** Values at times of their own. */
    TIMED_STORE("ts_store");

    /** The head of a point: an array of six elements, of which the first two are here. */
    final byte[] head;

    Kind(String wire) {
        byte[] name = wire.getBytes(StandardCharsets.US_ASCII);
        head = new byte[7 + name.length];
        head[0] = (byte) 0x96;
        head[1] = (byte) 0xA4;
        System.arraycopy("emit".getBytes(StandardCharsets.US_ASCII), 0, head, 2, 4);
        head[6] = (byte) (0xA0 | name.length);
        System.arraycopy(name, 0, head, 7, name.length);
    }
}
