package dev.millstream.operator;

/** Transforms many events at a time. Otherwise works like {@link Operator}. */
public interface BatchOperator extends AutoCloseable {
    /**
     * Called once, before the first batch, on the thread that then calls {@link #process}.
     *
     * @param context the operator's configuration
     * @throws Exception the operator is unusable, and {@code on_error} applies to its events
     */
    default void open(Context context) throws Exception {}

    /**
     * Transforms a batch.
     *
     * @param batch the events; valid only during this call
     * @throws Exception all events of the batch stay unchanged, and {@code on_error} applies to them
     */
    void process(Batch batch) throws Exception;

    /** Called when the operator is removed or replaced. */
    @Override
    default void close() throws Exception {}
}
