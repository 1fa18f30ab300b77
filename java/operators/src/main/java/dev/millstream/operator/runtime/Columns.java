package dev.millstream.operator.runtime;

import java.util.Arrays;

/** The columns of a call by name. */
final class Columns {
    static final String MESSAGE = "message";
    static final String TIMESTAMP = "timestamp";
    static final String META = "meta.";

    /** Maximum number of columns whose arrays are kept for later calls. */
    private static final int KEPT_MAX = 256;

    private final Names names = new Names();
    private Column[] all = new Column[0];
    private int count;
    /** Number of columns in the request, plus the timestamp column. */
    private int given;
    /** Hash table with open addressing. The length is a power of two. */
    private Column[] table = new Column[64];
    private Column message;
    private Column timestamp;
    private Column members;

    /** Reads the columns of a request. */
    void begin(long request) {
        long columns = Memory.getLong(request + Layout.REQUEST_COLUMNS * 8);
        int length = Math.toIntExact(Memory.getLong(request + Layout.REQUEST_COLUMNS_LEN * 8));
        clear(length);
        // Add the timestamp column first, so that a field with this name is not visible.
        timestamp = next();
        timestamp.begin(TIMESTAMP);
        insert(table, timestamp);
        for (int number = 0; number < length; number++) {
            begin(number, columns + number * Layout.COLUMN_WORDS * 8);
        }
        given = count;
    }

    private void begin(int number, long column) {
        int length = Math.toIntExact(Memory.getLong(column + Layout.COLUMN_NAME_BYTES * 8));
        String name = names.name(Memory.getLong(column + Layout.COLUMN_NAME * 8), length);
        Column each = next();
        each.begin(name, number, column);
        if (number == 0) {
            message = each;
        }
        if (name.isEmpty()) {
            members = each;
        } else {
            insert(table, each);
        }
    }

    /** Discards all data of the call, and keeps only a moderate number of columns. */
    void end() {
        for (int at = 0; at < count; at++) {
            all[at].end();
        }
        if (all.length > KEPT_MAX) {
            all = new Column[0];
            table = new Column[64];
        }
        count = 0;
    }

    private void clear(int length) {
        count = 0;
        members = null;
        message = null;
        if (table.length < 2 * (length + 1)) {
            table = new Column[Integer.highestOneBit(length + 1) * 4];
        } else {
            Arrays.fill(table, null);
        }
    }

    private Column next() {
        if (count == all.length) {
            all = Arrays.copyOf(all, Math.max(16, count * 2));
        }
        if (all[count] == null) {
            all[count] = new Column();
        }
        return all[count++];
    }

    /** Returns the number of columns, including the timestamp column, which is the first column. */
    int count() {
        return count;
    }

    Column column(int at) {
        return all[at];
    }

    /** Returns the column with the text of the events. */
    Column message() {
        return message;
    }

    /** Returns the column for the times that rules set. */
    Column timestamp() {
        return timestamp;
    }

    /** Returns the column with the members of JSON objects that have no column; null if there is no such column. */
    Column members() {
        return members;
    }

    /** Returns a column, or null if there is none. */
    Column find(String name) {
        if (name == null) {
            throw new WrongTypeException("a field name cannot be null");
        }
        Column[] slots = table;
        int mask = slots.length - 1;
        int at = slot(name, mask);
        while (true) {
            Column column = slots[at];
            if (column == null || column.name == name || column.name.equals(name)) {
                return column;
            }
            at = at + 1 & mask;
        }
    }

    private static int slot(String name, int mask) {
        int hash = name.hashCode();
        return (hash ^ hash >>> 16) & mask;
    }

    /** Adds a column that is not in the request. */
    Column add(String name) {
        if (2 * (count + 1) > table.length) {
            enlarge();
        }
        Column column = next();
        column.begin(name);
        insert(table, column);
        return column;
    }

    /** Returns the number of columns that are not in the request. */
    int added() {
        return count - given;
    }

    /** Returns the column that was added last, or null if no column was added. */
    Column lastAdded() {
        return count > given ? all[count - 1] : null;
    }

    /** Removes the column that was added last. No search for another column passes over this column's place in the table. */
    void removeLast() {
        count--;
        Column last = all[count];
        int mask = table.length - 1;
        int at = slot(last.name, mask);
        while (table[at] != last) {
            at = at + 1 & mask;
        }
        table[at] = null;
        last.end();
    }

    private void enlarge() {
        Column[] larger = new Column[table.length * 2];
        for (int at = 0; at < count; at++) {
            if (all[at] != members) {
                insert(larger, all[at]);
            }
        }
        table = larger;
    }

    /** Inserts a column. Does nothing if a column with this name exists. */
    private static void insert(Column[] slots, Column column) {
        int mask = slots.length - 1;
        int at = slot(column.name, mask);
        while (slots[at] != null) {
            if (slots[at].name.equals(column.name)) {
                return;
            }
            at = at + 1 & mask;
        }
        slots[at] = column;
    }
}
