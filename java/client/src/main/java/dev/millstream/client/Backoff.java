package dev.millstream.client;

import java.util.concurrent.ThreadLocalRandom;

/** Pauses between tries to connect: random up to a limit that doubles, so that many clients do not come back at once. */
final class Backoff {
    private static final long FIRST_NS = 10_000_000;
    private static final long LAST_NS = 1_000_000_000;

    private long limit = FIRST_NS;

    /** The next pause in nanoseconds. */
    long next() {
        long pause = ThreadLocalRandom.current().nextLong(limit);
        limit = Math.min(2 * limit, LAST_NS);
        return pause;
    }

    /** The agent was reached. */
    void reset() {
        limit = FIRST_NS;
    }
}
