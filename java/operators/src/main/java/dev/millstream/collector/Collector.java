package dev.millstream.collector;

/**
 * Collects events by a Java SDK. One instance is used by one thread at a time.
 *
 * <p>The instance is made when the configuration is read, by the public constructor without parameters, which must not wait for anything:
 * connect in {@link #open} or {@link #collect}.
 */
public interface Collector extends AutoCloseable {
    /**
     * Called before the first {@link #collect}, on the same thread.
     *
     * @param context what the configuration says
     * @throws Exception the call counts as failed; {@link #close} is called, and the next call opens again
     */
    default void open(CollectorContext context) throws Exception {}

    /**
     * Adds events. Called every {@code interval}; without an interval again as soon as it has returned, so it may block.
     *
     * @param events takes the events; valid only during this call
     * @throws Exception the call counts as failed; events that it added before are sent
     */
    void collect(Events events) throws Exception;

    /** Called after each {@link #open}, on a thread of the collectors: after the last call, or immediately if {@code open} failed. */
    @Override
    default void close() throws Exception {}
}
