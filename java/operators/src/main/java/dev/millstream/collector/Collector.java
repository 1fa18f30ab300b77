package dev.millstream.collector;

/**
 * Collects events with a Java SDK. Only one thread at a time uses an instance.
 *
 * <p>The agent creates the instance when it reads the configuration, using the public constructor without parameters. The constructor must
 * not block: connect in {@link #open} or {@link #collect}.
 */
public interface Collector extends AutoCloseable {
    /**
     * Called before the first {@link #collect}, on the same thread.
     *
     * @param context the collector's configuration and state
     * @throws Exception the call counts as failed; the agent calls {@link #close}, and opens the collector again before the next call
     */
    default void open(CollectorContext context) throws Exception {}

    /**
     * Adds events. Called every {@code interval}. Without an interval, the agent calls this method again as soon as it returns, so the
     * method may block.
     *
     * @param events receives the events; valid only during this call
     * @throws Exception the call counts as failed; events that were added before the exception are sent
     */
    void collect(Events events) throws Exception;

    /** Called after each {@link #open}, on a collector thread: after the last call, or immediately if {@code open} failed. */
    @Override
    default void close() throws Exception {}
}
