package dev.millstream.operator;

/**
 * Transforms events one by one inside the agent.
 *
 * <p>The agent creates a separate instance for each worker thread, using the public constructor without parameters. An instance therefore
 * needs no synchronization, and its state belongs to one worker.
 */
public interface Operator extends AutoCloseable {
    /**
     * Called once, before the first row, on the thread that then calls {@link #process}.
     *
     * @param context the operator's configuration
     * @throws Exception the operator is unusable, and {@code on_error} applies to its events
     */
    default void open(Context context) throws Exception {}

    /**
     * Transforms one event.
     *
     * @param row the event; valid only until the batch ends, and positioned on another event after this call
     * @throws Exception the event stays unchanged, and {@code on_error} applies to it
     */
    void process(Row row) throws Exception;

    /** Called when the operator is removed or replaced. */
    @Override
    default void close() throws Exception {}
}
