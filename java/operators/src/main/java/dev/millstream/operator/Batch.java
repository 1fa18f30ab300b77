package dev.millstream.operator;

/** The events of one call. Valid only during the call. */
public interface Batch extends Iterable<Row> {
    /** Returns the number of events. */
    int size();

    /**
     * Moves the batch's row to an event, and returns the row.
     *
     * @param index 0 to {@link #size()} - 1
     * @return always the same object
     */
    Row row(int index);
}
