package dev.millstream.operator.runtime;

/** Writes the answer of a call after the values of the call. */
final class Answer {
    private final Call call;
    private final Out out;
    private final long[] answer = new long[(int) Layout.ANSWER_WORDS];

    Answer(Call call) {
        this.call = call;
        out = call.out;
    }

    /** Writes the answer. Returns its offset in the buffer. */
    long write() {
        int[] events = call.emitted.order();
        answer[(int) Layout.ANSWER_VALUE_BYTES] = out.endValues();
        writeChanged(events);
        writeEmitted(events);
        writeDropped();
        answer[(int) Layout.ANSWER_FAILED] = call.failures.write(out);
        answer[(int) Layout.ANSWER_FAILED_LEN] = call.failures.count();
        return append(answer);
    }

    private long append(long[] words) {
        Memory.write(words, words.length, out.room(words.length * 8L));
        return out.append(words.length * 8L);
    }

    private void writeChanged(int[] events) {
        Columns columns = call.columns;
        long[] changed = new long[columns.count() * (int) Layout.CHANGED_WORDS];
        int count = 0;
        for (int at = 0; at < columns.count(); at++) {
            Column column = columns.column(at);
            if (column.hasChanges()) {
                writeColumn(column, events.length, changed, count * (int) Layout.CHANGED_WORDS);
                count++;
            }
        }
        for (int position = 0; position < events.length; position++) {
            call.emitted.writeCells(events[position], out.address(), call.rows() + position);
        }
        int words = count * (int) Layout.CHANGED_WORDS;
        Memory.write(changed, words, out.room(words * 8L));
        answer[(int) Layout.ANSWER_CHANGED] = out.append(words * 8L);
        answer[(int) Layout.ANSWER_CHANGED_LEN] = count;
    }

    private void writeColumn(Column column, int events, long[] changed, int at) {
        changed[at + (int) Layout.CHANGED_COLUMN] = column.number;
        if (column.number < 0) {
            byte[] name = column.name.getBytes(java.nio.charset.StandardCharsets.UTF_8);
            Memory.write(name, name.length, out.room(name.length));
            changed[at + (int) Layout.CHANGED_NAME] = out.append(name.length);
            changed[at + (int) Layout.CHANGED_NAME_BYTES] = name.length;
            out.align();
        }
        long bytes = (call.rows() + events) * 8L;
        long address = out.room(bytes);
        Memory.write(column.changed(), call.rows(), address);
        for (long end = address + call.rows() * 8L; end < address + bytes; end += 8) {
            Memory.putLong(end, Layout.CELL_UNCHANGED);
        }
        column.answerCells = out.append(bytes);
        changed[at + (int) Layout.CHANGED_CELLS] = column.answerCells;
    }

    private void writeEmitted(int[] events) {
        long address = out.room(events.length * 4L);
        for (int position = 0; position < events.length; position++) {
            Memory.putInt(address + position * 4L, call.emitted.row(events[position]));
        }
        answer[(int) Layout.ANSWER_EMITTED] = out.append(events.length * 4L);
        answer[(int) Layout.ANSWER_EMITTED_LEN] = events.length;
        out.align();
    }

    private void writeDropped() {
        long address = out.room(call.dropped() * 4L);
        int count = 0;
        for (int index = 0; index < call.selectedRows() && count < call.dropped(); index++) {
            if (call.state(index) == Call.DROPPED) {
                Memory.putInt(address + count * 4L, call.row(index));
                count++;
            }
        }
        answer[(int) Layout.ANSWER_DROPPED] = out.append(count * 4L);
        answer[(int) Layout.ANSWER_DROPPED_LEN] = count;
        out.align();
    }
}
