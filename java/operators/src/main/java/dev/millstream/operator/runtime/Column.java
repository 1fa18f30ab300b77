package dev.millstream.operator.runtime;

import java.util.Arrays;

/** A column of a call: of the request, or added by a rule. Reused for other columns in later calls. */
final class Column {
    /** Longest array that is kept for later calls. */
    private static final int KEPT_ROWS_MAX = 1 << 16;

    String name;
    /** Its number in the request, or -1. */
    int number;
    private long cells;
    private long own;
    private long[] changed;
    private boolean isChanged;
    private long reservedBytes;
    /** Number of changed rows and values of emitted events. */
    private int changes;
    private Object[] decoded;
    private int decodedChunk;
    /** The last text that was set, and its cell. */
    String lastText;
    long lastCell;
    /** Offset of its cells in the answer. */
    long answerCells;

    /** Makes it a column without values. */
    void begin(String newName) {
        name = newName;
        number = -1;
        cells = 0;
        own = 0;
        isChanged = false;
        changes = 0;
        decodedChunk = -1;
    }

    /** Makes it a column of the request. */
    void begin(String newName, int newNumber, long column) {
        begin(newName);
        number = newNumber;
        cells = Memory.getLong(column + Layout.COLUMN_CELLS * 8);
        own = Memory.getLong(column + Layout.COLUMN_OWN * 8);
    }

    /** Drops what the call does not need any more. */
    void end() {
        decoded = null;
        lastText = null;
        if (changed != null && changed.length > KEPT_ROWS_MAX) {
            changed = null;
        }
    }

    boolean isChanged() {
        return isChanged;
    }

    /** Returns whether any row or emitted event has a value that was set. */
    boolean hasChanges() {
        return changes > 0;
    }

    long[] changed() {
        return changed;
    }

    long reservedBytes() {
        return reservedBytes;
    }

    /** Makes it able to take values, for which bytes of the answer are reserved. */
    void beginChanges(int rows, long bytes) {
        reservedBytes = bytes;
        if (changed == null || changed.length < rows) {
            changed = new long[Math.max(rows, 1024)];
        }
        Arrays.fill(changed, 0, rows, Layout.CELL_UNCHANGED);
        isChanged = true;
    }

    /** Returns the cell that a rule set, or CELL_UNCHANGED. */
    long changedCell(int row) {
        return isChanged ? changed[row] : Layout.CELL_UNCHANGED;
    }

    /** Returns the cell of the request. */
    long requestCell(int row) {
        return cells == 0 ? Cells.ABSENT : Memory.getLong(cells + 8L * row);
    }

    /** Returns the address of the buffer of a cell of the request. */
    long base(long cell, long block) {
        return Cells.isOwn(cell) ? own : block;
    }

    void change(int row, long cell) {
        if (changed[row] == Layout.CELL_UNCHANGED) {
            changes++;
        }
        changed[row] = cell;
    }

    void undo(int row) {
        lastText = null;
        if (isChanged && changed[row] != Layout.CELL_UNCHANGED) {
            changed[row] = Layout.CELL_UNCHANGED;
            changes--;
        }
    }

    /** Counts values of emitted events. */
    void countEmitted(int values) {
        changes += values;
    }

    /** Returns the values of the chunk that were decoded before. */
    Object[] decoded(int chunk, int length) {
        if (decodedChunk != chunk) {
            // A new array is cheaper than to clear an old one: stores into young arrays need no barrier.
            decoded = new Object[length];
            decodedChunk = chunk;
        }
        return decoded;
    }

    /** Forgets the decoded value of a row. */
    void forget(int chunk, int slot) {
        if (decodedChunk == chunk) {
            decoded[slot] = null;
        }
    }
}
