package dev.millstream.collector;

/** Ends a call of a collector: its source stops, it has exceeded its timeout, or the call has already ended. */
public final class CollectorStoppedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * Creates the exception.
     *
     * @param message why the call ends
     */
    public CollectorStoppedException(String message) {
        super(message);
    }
}
