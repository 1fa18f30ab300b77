package dev.millstream.operator;

/**
 * Transforms events one by one inside the agent.
 *
 * <p>Each worker thread has a separate instance, made by the public constructor without parameters; so an instance needs no
 * synchronization, and its state is that of one worker.
 */
public interface Operator extends AutoCloseable {
    /**
     * Called once, before the first row, on the thread that then calls {@link #process}.
     *
     * @param context what the configuration says
     * @throws Exception the operator is unusable: its events are treated as {@code on_error} says
     */
    default void open(Context context) throws Exception {}

    /**
     * Transforms one event.
     *
     * @param row the event; valid only until the batch ends, and positioned on another event after this call
     * @throws Exception the event stays as it was, and is treated as {@code on_error} says
     */
    void process(Row row) throws Exception;

    /** Called once the operator is removed or replaced. */
    @Override
    default void close() throws Exception {}
}
