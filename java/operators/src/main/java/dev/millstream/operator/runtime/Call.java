package dev.millstream.operator.runtime;

import java.time.Instant;
import java.util.Arrays;

/** A worker's call: the request, and the changes that rules make. Reused for the next call. */
final class Call {
    static final byte LIVE = 0;
    static final byte DROPPED = 1;
    static final byte FAILED = 2;

    private static final int KEPT_ROWS_MAX = 1 << 16;

    /**
     * Maximum number of columns that rules add in a call. Each column takes an array of at least 8 KiB, which {@code expansion} does not
     * count.
     */
    static final int NEW_FIELDS_MAX = 1024;

    final Out out;
    final Encoder encoder;
    final Decoder decoder = new Decoder();
    final Columns columns = new Columns();
    final Constants constants = new Constants(decoder);
    final Members members = new Members();
    final Occurrences occurrences = new Occurrences();
    final Emitted emitted = new Emitted();
    final Failures failures = new Failures();

    private long block;
    private int rows;
    private long selected;
    private int selectedRows;
    private long times;
    private long readNs;
    /** State of each selected row. */
    private byte[] states = new byte[0];
    private int dropped;
    private int changedColumns;
    private int chunk;
    private int chunkRows;
    private int chunkEvents;
    private long rowStart;

    Call(Grower grower) {
        out = new Out(grower);
        encoder = new Encoder(out);
    }

    void begin(long request) {
        block = Memory.getLong(request + Layout.REQUEST_BLOCK * 8);
        rows = Math.toIntExact(Memory.getLong(request + Layout.REQUEST_ROWS * 8));
        selected = Memory.getLong(request + Layout.REQUEST_SELECTED * 8);
        selectedRows = Math.toIntExact(Memory.getLong(request + Layout.REQUEST_SELECTED_LEN * 8));
        times = Memory.getLong(request + Layout.REQUEST_TIMES * 8);
        readNs = Memory.getLong(request + Layout.REQUEST_READ_NS * 8);
        out.begin(request, rows);
        columns.begin(request);
        constants.begin(request);
        if (states.length < selectedRows) {
            states = new byte[selectedRows];
        } else {
            Arrays.fill(states, 0, selectedRows, LIVE);
        }
        dropped = 0;
        changedColumns = 0;
        chunk = 0;
    }

    /** Drops data that is not needed between calls. */
    void end() {
        columns.end();
        emitted.end();
        failures.clear();
        if (states.length > KEPT_ROWS_MAX) {
            states = new byte[0];
        }
    }

    /** Begins a chunk of rows. The decoded values of a chunk are kept together. */
    void beginChunk(int newChunkRows) {
        chunk++;
        chunkRows = newChunkRows;
        chunkEvents = emitted.count();
        beginRow();
    }

    /** Records where the values of a row begin. */
    void beginRow() {
        rowStart = out.used();
    }

    int chunk() {
        return chunk;
    }

    int chunkRows() {
        return chunkRows;
    }

    long block() {
        return block;
    }

    int rows() {
        return rows;
    }

    int selectedRows() {
        return selectedRows;
    }

    /** Returns the row number of a selected row. */
    int row(int index) {
        return Memory.getInt(selected + 4L * index);
    }

    boolean isLive(int index) {
        return states[index] == LIVE;
    }

    byte state(int index) {
        return states[index];
    }

    int dropped() {
        return dropped;
    }

    Instant time(int row) {
        long time = times == 0 ? Layout.TIME_UNKNOWN : Memory.getLong(times + 8L * row);
        return Times.instant(time == Layout.TIME_UNKNOWN ? readNs : time);
    }

    /** Returns a field's column, which can then take values. */
    Column changing(String name) {
        Column column = columns.find(name);
        return column != null && column.isChanged() ? column : beginChanges(name, column);
    }

    private Column beginChanges(String name, Column known) {
        if (name.startsWith(Columns.META) || name.isEmpty()) {
            throw new WrongTypeException("'" + name + "' is not a valid field name");
        }
        if (known == null && columns.added() >= NEW_FIELDS_MAX) {
            throw new OutputFullException("this call adds more than " + NEW_FIELDS_MAX + " new fields");
        }
        long cells = (long) rows + emitted.count();
        long bytes = cells * 8 + Layout.CHANGED_WORDS * 8 + name.length() * 3L + 16;
        out.reserve(bytes);
        Column column = known == null ? columns.add(name) : known;
        column.beginChanges(rows, bytes);
        changedColumns++;
        return column;
    }

    /** Removes the columns that were added last, as long as no event has a value in them. */
    private void removeUnusedColumns() {
        for (Column last = columns.lastAdded(); last != null && !last.hasChanges(); last = columns.lastAdded()) {
            if (last.isChanged()) {
                out.release(last.reservedBytes());
                changedColumns--;
            }
            columns.removeLast();
        }
    }

    /** Writes a value for a column. Returns the value's cell. */
    long encode(Column column, Object value) {
        if (column == columns.message()) {
            return encodeMessage(value);
        }
        if (column == columns.timestamp()) {
            return encodeTimestamp(value);
        }
        return encoder.value(value);
    }

    private long encodeMessage(Object value) {
        if (value == null) {
            throw new WrongTypeException("message cannot be null");
        }
        long cell = value instanceof Boolean ? encoder.text(value.toString()) : encoder.value(value);
        return Cells.withKind(cell, Layout.KIND_TEXT);
    }

    private long encodeTimestamp(Object value) {
        Object plain = Canonical.of(value);
        Object time = plain instanceof String text ? Times.parse(text) : plain;
        if (time instanceof Instant instant && Times.isInNanoseconds(instant)) {
            return encoder.time(instant);
        }
        throw new WrongTypeException("timestamp must be a time from 1678 to 2261, not " + value);
    }

    void drop(int index) {
        if (states[index] == LIVE) {
            out.reserve(4);
            states[index] = DROPPED;
            dropped++;
        }
    }

    /** Adds an event with the values that were added to {@link #emitted}. */
    void emit(int row) {
        out.reserve(8 + 8L * changedColumns);
        emitted.commit(row);
    }

    /** Restores a row, and lists the row as failed. */
    void fail(int index, Failures.Failure failure) {
        int row = failure.row();
        for (int at = 0; at < columns.count(); at++) {
            columns.column(at).undo(row);
        }
        out.rewind(rowStart);
        emitted.undo(row, chunkEvents);
        removeUnusedColumns();
        if (states[index] == DROPPED) {
            dropped--;
        }
        states[index] = FAILED;
        out.reserve(failures.bytesMax(failure));
        failures.add(failure);
    }
}
