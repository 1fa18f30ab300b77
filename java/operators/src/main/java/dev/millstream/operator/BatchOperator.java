package dev.millstream.operator;

/** Transforms many events at a time; otherwise like {@link Operator}. */
public interface BatchOperator extends AutoCloseable {
    /**
     * Called once, before the first batch, on the thread that then calls {@link #process}.
     *
     * @param context what the configuration says
     * @throws Exception the operator is unusable: its events are treated as {@code on_error} says
     */
    default void open(Context context) throws Exception {}

    /**
     * Transforms a batch.
     *
     * @param batch the events; valid only during this call
     * @throws Exception every event of the batch stays as it was, and is treated as {@code on_error} says
     */
    void process(Batch batch) throws Exception;

    /** Called once the operator is removed or replaced. */
    @Override
    default void close() throws Exception {}
}
