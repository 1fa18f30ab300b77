package dev.millstream.client;

import java.nio.charset.StandardCharsets;

/** How the agent aggregates the values of a series. */
public enum Kind {
    /** The sum since the series began, emitted in every period. */
    COUNTER("counter"),
    /** The sum of a period divided by the period's length in seconds. */
    RATE_COUNTER("rate_counter"),
    /** A counter, plus its rate under {@code name.rate}. */
    METER("meter"),
    /** The sum of a period under {@code name.delta}, plus {@code name.rate} and {@code name.counter}. */
    DELTA_COUNTER("delta_counter"),
    /** A distribution: the minimum, maximum, average, sum, count and percentiles of a period. */
    TIMER("timer"),
    /** A distribution: the sum, count and percentiles of a period. */
    HISTOGRAM("histogram"),
    /** The last value. */
    STORE("store"),
    /** Values with explicit timestamps. */
    TIMED_STORE("ts_store");

    /** The beginning of each point: the msgpack header of a six-element array, and the first two elements. */
    final byte[] prefix;

    Kind(String type) {
        byte[] name = type.getBytes(StandardCharsets.US_ASCII);
        prefix = new byte[7 + name.length];
        prefix[0] = (byte) 0x96;
        prefix[1] = (byte) 0xA4;
        System.arraycopy("emit".getBytes(StandardCharsets.US_ASCII), 0, prefix, 2, 4);
        prefix[6] = (byte) (0xA0 | name.length);
        System.arraycopy(name, 0, prefix, 7, name.length);
    }
}
