package dev.millstream.operator.runtime;

import java.util.Arrays;

/** The events that rules emit during a call. */
final class Emitted {
    private static final int KEPT_MAX = 1 << 14;
    private static final int UNDONE = -1;

    /** Row of each event, or UNDONE. */
    private int[] rows = new int[64];
    /** End of each event's values. */
    private int[] ends = new int[64];
    private int count;
    private Column[] columns = new Column[64];
    private long[] cells = new long[64];
    private int values;

    /** Adds a value to the event that the next {@link #commit} adds. */
    void add(Column column, long cell) {
        if (values == cells.length) {
            columns = Arrays.copyOf(columns, values * 2);
            cells = Arrays.copyOf(cells, values * 2);
        }
        columns[values] = column;
        cells[values] = cell;
        values++;
    }

    /** Adds an event with the values that were added since the previous event. */
    void commit(int row) {
        if (count == rows.length) {
            rows = Arrays.copyOf(rows, count * 2);
            ends = Arrays.copyOf(ends, count * 2);
        }
        ends[count] = values;
        rows[count] = row;
        count(count, 1);
        count++;
    }

    /** Adds to the value counts of an event's columns. */
    private void count(int event, int by) {
        for (int at = start(event); at < ends[event]; at++) {
            columns[at].countEmitted(by);
        }
    }

    /** Drops values that belong to no event. */
    void rollback() {
        values = start(count);
    }

    private int start(int event) {
        return event == 0 ? 0 : ends[event - 1];
    }

    int count() {
        return count;
    }

    /** Removes the events of a row, all of which have the number {@code from} or a higher number. */
    void undo(int row, int from) {
        rollback();
        for (int event = from; event < count; event++) {
            if (rows[event] == row) {
                rows[event] = UNDONE;
                count(event, -1);
            }
        }
        while (count > from && rows[count - 1] == UNDONE) {
            count--;
        }
        rollback();
    }


    /** Discards the call's events, and keeps only arrays of moderate length. */
    void end() {
        Arrays.fill(columns, 0, Math.min(values, columns.length), null);
        count = 0;
        values = 0;
        if (cells.length > KEPT_MAX) {
            columns = new Column[64];
            cells = new long[64];
        }
        if (rows.length > KEPT_MAX) {
            rows = new int[64];
            ends = new int[64];
        }
    }

    /** Sorts the events by row, without undone events. Returns the event numbers in this order. */
    int[] order() {
        long[] keys = new long[count];
        int length = 0;
        for (int event = 0; event < count; event++) {
            if (rows[event] != UNDONE) {
                keys[length++] = (long) rows[event] << 32 | event;
            }
        }
        Arrays.sort(keys, 0, length);
        int[] order = new int[length];
        for (int at = 0; at < length; at++) {
            order[at] = (int) keys[at];
        }
        return order;
    }

    int row(int event) {
        return rows[event];
    }

    /** Writes an event's cells to the columns of the answer, at the event's position in the answer. */
    void writeCells(int event, long address, int position) {
        for (int at = start(event); at < ends[event]; at++) {
            Memory.putLong(address + columns[at].answerCells + 8L * position, cells[at]);
        }
    }
}
