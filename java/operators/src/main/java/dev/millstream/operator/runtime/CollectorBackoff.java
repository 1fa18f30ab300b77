package dev.millstream.operator.runtime;

/** Pauses of a collector without an interval whose calls fail, or return immediately without events. */
final class CollectorBackoff {
    static final long MIN_NS = 100_000_000L;
    static final long MAX_NS = 30_000_000_000L;

    private long nextNs = MIN_NS;

    /** Returns the pause after a call with the given duration. */
    long pauseNs(boolean isFailed, long events, long tookNs) {
        if (events > 0 || tookNs > MAX_NS) {
            nextNs = MIN_NS;
        }
        boolean isIdle = events == 0 && tookNs < MIN_NS;
        if (!isFailed && !isIdle) {
            return 0;
        }
        long pauseNs = nextNs;
        nextNs = Math.min(2 * pauseNs, MAX_NS);
        return pauseNs;
    }
}
