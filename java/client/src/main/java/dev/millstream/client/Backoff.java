package dev.millstream.client;

import java.util.concurrent.ThreadLocalRandom;

/** Random pauses between connection attempts, up to a limit that doubles, so that clients do not all reconnect at once. */
final class Backoff {
    private static final long FIRST_NS = 10_000_000;
    private static final long MAX_NS = 1_000_000_000;

    private long limit = FIRST_NS;

    /** Returns the next pause in nanoseconds. */
    long next() {
        long pause = ThreadLocalRandom.current().nextLong(limit);
        limit = Math.min(2 * limit, MAX_NS);
        return pause;
    }

    /** Resets the limit after a success. */
    void reset() {
        limit = FIRST_NS;
    }
}
