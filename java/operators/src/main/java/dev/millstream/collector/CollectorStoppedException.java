package dev.millstream.collector;

/** Ends a collector call because the source is stopping, the call has exceeded its timeout, or the call has already ended. */
public final class CollectorStoppedException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * Creates the exception.
     *
     * @param message the reason why the call ends
     */
    public CollectorStoppedException(String message) {
        super(message);
    }
}
