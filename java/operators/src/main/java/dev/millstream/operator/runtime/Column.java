package dev.millstream.operator.runtime;

import java.util.Arrays;

/** A column of a call, which is in the request or was added by a rule. Reused for other columns in later calls. */
final class Column {
    /** Maximum length of an array that is kept for later calls. */
    private static final int KEPT_ROWS_MAX = 1 << 16;

    String name;
    /** Column number in the request, or -1. */
    int number;
    private long cells;
    private long own;
    private long[] changed;
    private boolean isChanged;
    private long reservedBytes;
    /** Number of changed rows, plus values of emitted events. */
    private int changes;
    private Object[] decoded;
    private int decodedChunk;
    /** The text that was set last, and its cell. */
    String lastText;
    long lastCell;
    /** Offset of the column's cells in the answer. */
    long answerCells;

    /** Initializes the column without values. */
    void begin(String newName) {
        name = newName;
        number = -1;
        cells = 0;
        own = 0;
        isChanged = false;
        changes = 0;
        decodedChunk = -1;
    }

    /** Initializes the column from the request. */
    void begin(String newName, int newNumber, long column) {
        begin(newName);
        number = newNumber;
        cells = Memory.getLong(column + Layout.COLUMN_CELLS * 8);
        own = Memory.getLong(column + Layout.COLUMN_OWN * 8);
    }

    /** Drops data that the call no longer needs. */
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

    /** Returns whether a rule has set a value in any row or emitted event. */
    boolean hasChanges() {
        return changes > 0;
    }

    long[] changed() {
        return changed;
    }

    long reservedBytes() {
        return reservedBytes;
    }

    /** Lets the column take values, for which {@code bytes} in the answer are reserved. */
    void beginChanges(int rows, long bytes) {
        reservedBytes = bytes;
        if (changed == null || changed.length < rows) {
            changed = new long[Math.max(rows, 1024)];
        }
        Arrays.fill(changed, 0, rows, Layout.CELL_UNCHANGED);
        isChanged = true;
    }

    /** Returns the cell that a rule has set, or CELL_UNCHANGED. */
    long changedCell(int row) {
        return isChanged ? changed[row] : Layout.CELL_UNCHANGED;
    }

    /** Returns the cell in the request. */
    long requestCell(int row) {
        return cells == 0 ? Cells.ABSENT : Memory.getLong(cells + 8L * row);
    }

    /** Returns the buffer address of a cell in the request. */
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

    /** Adds to the number of values of emitted events. */
    void countEmitted(int values) {
        changes += values;
    }

    /** Returns the chunk's values that were decoded so far. */
    Object[] decoded(int chunk, int length) {
        if (decodedChunk != chunk) {
            // Creating an array is cheaper than clearing an old array, because stores into young arrays need no barrier.
            decoded = new Object[length];
            decodedChunk = chunk;
        }
        return decoded;
    }

    /** Discards the decoded value of a row. */
    void forget(int chunk, int slot) {
        if (decodedChunk == chunk) {
            decoded[slot] = null;
        }
    }
}
