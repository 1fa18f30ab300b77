package dev.millstream.operator.runtime;

import dev.millstream.operator.Row;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** The row of a call, which moves from event to event. Only the thread of the call can use the row, and only until the call ends. */
final class BatchRow implements Row {
    /** Maximum length of a remembered text. Longer texts that are set are rarely the same object as the previous text. */
    private static final int REMEMBERED_LENGTH_MAX = 64;

    private final Thread owner = Thread.currentThread();
    private Call call;
    private int row;
    private int index;
    /** Index of the row in the chunk. */
    private int slot;
    /** Buffer address of the cell that was located last. */
    private long base;
    /** Row and cell of the message that was searched last. */
    private int searchedRow = -1;
    private long searchedCell;

    BatchRow(Call call) {
        this.call = call;
    }

    void move(int newRow, int newIndex, int newSlot) {
        row = newRow;
        index = newIndex;
        slot = newSlot;
    }

    void end() {
        call = null;
    }

    /** Returns the call. Throws if the call has ended, or if another thread uses the row. */
    Call call() {
        Call current = call;
        if (current == null) {
            throw new IllegalStateException("this row is no longer valid because its batch has ended");
        }
        if (Thread.currentThread() != owner) {
            throw new IllegalStateException("only the thread that runs the operator can use a row");
        }
        return current;
    }

    @Override
    public Object get(String name) {
        Call current = call();
        Column column = current.columns.find(name);
        if (column == null) {
            return hidden(current, null, name);
        }
        Object[] decoded = column.decoded(current.chunk(), current.chunkRows());
        Object known = decoded[slot];
        if (known != null) {
            return known;
        }
        if (column == current.columns.message()) {
            return message(current, column, decoded);
        }
        long cell = locate(current, column);
        if (!Cells.isPresent(cell)) {
            return hidden(current, column, name);
        }
        Object value = current.decoder.value(cell, base);
        if (Cells.kind(cell) < Layout.KIND_OBJECT) {
            // Maps and lists are decoded each time, because a rule may modify the returned value.
            decoded[slot] = value;
        }
        return value;
    }

    /** Returns the cell of a column, and sets {@code base} to the cell's buffer. */
    private long locate(Call current, Column column) {
        long cell = column.changedCell(row);
        if (cell != Layout.CELL_UNCHANGED) {
            base = current.out.address();
            return cell;
        }
        cell = column.requestCell(row);
        base = column.base(cell, current.block());
        return cell;
    }

    /** Returns a value that is not in a column. */
    private Object hidden(Call current, Column column, String name) {
        if (column == current.columns.timestamp() && column != null) {
            return current.time(row);
        }
        long cell = locateMember(current, column, name);
        return Cells.isPresent(cell) ? current.decoder.value(cell, base) : current.constants.value(row, name);
    }

    /** Returns the cell of a field that has no column, or whose column is absent in this row. */
    private long locateMember(Call current, Column column, String name) {
        Column members = current.columns.members();
        boolean isRemoved = column != null && column.changedCell(row) != Layout.CELL_UNCHANGED;
        if (members == null || isRemoved) {
            return Cells.ABSENT;
        }
        long cell = locate(current, members);
        return current.members.find(current.decoder, cell, base, name);
    }

    /** Returns the cell of a field, with or without a column. */
    private long locate(Call current, Column column, String name) {
        long cell = column == null ? Cells.ABSENT : locate(current, column);
        return Cells.isPresent(cell) ? cell : locateMember(current, column, name);
    }

    @Override
    public boolean has(String name) {
        Call current = call();
        Column column = current.columns.find(name);
        return Cells.isPresent(locate(current, column, name))
                || column != null && (column == current.columns.timestamp() || column == current.columns.message())
                || current.constants.value(row, name) != null;
    }

    @Override
    public String text(String name) {
        Call current = call();
        Column column = current.columns.find(name);
        if (column != null) {
            Object[] decoded = column.decoded(current.chunk(), current.chunkRows());
            if (decoded[slot] instanceof String known) {
                return known;
            }
            if (column == current.columns.message()) {
                return message(current, column, decoded);
            }
            long cell = locate(current, column);
            int kind = Cells.kind(cell);
            if (kind == Layout.KIND_TEXT || kind == Layout.KIND_ESCAPED) {
                String text = (String) current.decoder.value(cell, base);
                decoded[slot] = text;
                return text;
            }
        }
        return otherText(current, column, name);
    }

    private String otherText(Call current, Column column, String name) {
        long cell = locate(current, column, name);
        if (Cells.isPresent(cell)) {
            return current.decoder.asText(cell, base);
        }
        Object value = hidden(current, column, name);
        return value == null ? null : value.toString();
    }

    @Override
    public long integer(String name, long otherwise) {
        Call current = call();
        Column column = current.columns.find(name);
        long cell = locate(current, column, name);
        if (Cells.isPresent(cell)) {
            return current.decoder.asLong(cell, base, otherwise);
        }
        String constant = current.constants.value(row, name);
        return constant == null ? otherwise : Decoder.integer(constant, otherwise);
    }

    @Override
    public double number(String name, double otherwise) {
        Call current = call();
        Column column = current.columns.find(name);
        long cell = locate(current, column, name);
        if (Cells.isPresent(cell)) {
            return current.decoder.asDouble(cell, base, otherwise);
        }
        String constant = current.constants.value(row, name);
        return constant == null ? otherwise : Decoder.number(constant, otherwise);
    }

    @Override
    public String message() {
        Call current = call();
        Column column = current.columns.message();
        Object[] decoded = column.decoded(current.chunk(), current.chunkRows());
        Object known = decoded[slot];
        return known != null ? (String) known : message(current, column, decoded);
    }

    private String message(Call current, Column column, Object[] decoded) {
        long cell = locate(current, column);
        String text = current.decoder.asText(cell, base);
        String message = text == null ? "" : text;
        decoded[slot] = message;
        return message;
    }

    @Override
    public Instant timestamp() {
        return (Instant) get(Columns.TIMESTAMP);
    }

    @Override
    public List<String> names() {
        Call current = call();
        Columns columns = current.columns;
        List<String> names = new ArrayList<>();
        for (int at = 0; at < columns.count(); at++) {
            Column column = columns.column(at);
            boolean isField = column != columns.message() && column != columns.timestamp() && !column.name.equals(Columns.TIMESTAMP);
            if (column == columns.members()) {
                addMembers(current, names);
            } else if (isField && Cells.isPresent(locate(current, column))) {
                names.add(column.name);
            }
        }
        return names;
    }

    /** Adds the names of members that no rule has set or removed. */
    private void addMembers(Call current, List<String> names) {
        List<String> members = new ArrayList<>();
        long cell = locate(current, current.columns.members());
        current.members.names(current.decoder, cell, base, members);
        for (String name : members) {
            Column column = current.columns.find(name);
            if (column == null || column.changedCell(row) == Layout.CELL_UNCHANGED && column != current.columns.timestamp()) {
                names.add(name);
            }
        }
    }

    @Override
    public void set(String name, Object value) {
        Call current = call();
        Column column = current.changing(name);
        if (value instanceof String text && column != current.columns.timestamp()) {
            store(current, column, textCell(current, column, text));
        } else {
            store(current, column, current.encode(column, value));
        }
    }

    private static long textCell(Call current, Column column, String text) {
        if (text == column.lastText) {
            return column.lastCell;
        }
        long cell = current.encoder.text(text);
        if (text.length() <= REMEMBERED_LENGTH_MAX) {
            column.lastText = null;
            column.lastCell = cell;
            column.lastText = text;
        }
        return cell;
    }

    private void store(Call current, Column column, long cell) {
        column.change(row, cell);
        column.forget(current.chunk(), slot);
    }

    @Override
    public void set(String name, long value) {
        Call current = call();
        Column column = current.changing(name);
        boolean isPlain = column != current.columns.timestamp() && column != current.columns.message();
        store(current, column, isPlain ? current.encoder.integer(value) : current.encode(column, value));
    }

    @Override
    public void set(String name, double value) {
        Call current = call();
        Column column = current.changing(name);
        store(current, column, current.encode(column, value));
    }

    @Override
    public void set(String name, boolean value) {
        Call current = call();
        Column column = current.changing(name);
        boolean isPlain = column != current.columns.timestamp() && column != current.columns.message();
        store(current, column, isPlain ? Cells.of(value) : current.encode(column, value));
    }

    @Override
    public void remove(String name) {
        Call current = call();
        Column column = current.columns.find(name);
        if (name.equals(Columns.MESSAGE) || name.equals(Columns.TIMESTAMP) || name.startsWith(Columns.META)) {
            throw new WrongTypeException(name + " cannot be removed");
        }
        if (Cells.isPresent(locate(current, column, name))) {
            store(current, current.changing(name), Cells.ABSENT);
        }
    }

    @Override
    public void drop() {
        call().drop(index);
    }

    @Override
    public void emit(Map<String, ?> fields) {
        Call current = call();
        if (fields == null) {
            throw new WrongTypeException("emit requires a map of fields, not null");
        }
        try {
            for (Map.Entry<?, ?> field : fields.entrySet()) {
                Column column = current.changing(Texts.name(field.getKey()));
                if (column != current.columns.message() || field.getValue() != null) {
                    current.emitted.add(column, current.encode(column, field.getValue()));
                }
            }
            current.emit(row);
        } finally {
            current.emitted.rollback();
        }
    }

    @Override
    public String between(String left, int occurrence, String right) {
        Call current = call();
        if (left == null || left.isEmpty()) {
            throw new IllegalArgumentException("'left' must not be empty");
        }
        if (occurrence < 0) {
            throw new IllegalArgumentException("'index' must not be negative");
        }
        long cell = locate(current, current.columns.message());
        if (Cells.kind(cell) != Layout.KIND_TEXT) {
            return Texts.between(message(), left, occurrence, right);
        }
        if (searchedRow != row || searchedCell != cell) {
            current.occurrences.begin();
            searchedRow = row;
            searchedCell = cell;
        }
        long address = base + Cells.start(cell);
        int length = Cells.length(cell);
        int start = current.occurrences.end(left, occurrence, address, length);
        if (start < 0) {
            return null;
        }
        int end = right == null || right.isEmpty() ? -1 : current.occurrences.indexOf(right, address, start, length);
        return current.decoder.text(address + start, (end < 0 ? length : end) - start);
    }
}
