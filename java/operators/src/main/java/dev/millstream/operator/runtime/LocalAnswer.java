package dev.millstream.operator.runtime;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The answer of a call as Java values, which are read while the request is allocated. */
public final class LocalAnswer {
    private final Map<String, LocalValue[]> changed = new LinkedHashMap<>();
    private final List<Integer> dropped = new ArrayList<>();
    private final List<Integer> emitted = new ArrayList<>();
    private final List<Failed> failed = new ArrayList<>();
    private final long buffer;
    private final long answer;

    /**
     * A failed row.
     *
     * @param row the row number
     * @param reason one of REASON
     * @param rule the rule number
     * @param message the reason as text
     */
    public record Failed(int row, long reason, int rule, String message) {}

    LocalAnswer(LocalRequest request, long offset) {
        buffer = request.out().address();
        answer = buffer + offset;
        readRows(dropped, Layout.ANSWER_DROPPED, Layout.ANSWER_DROPPED_LEN);
        readRows(emitted, Layout.ANSWER_EMITTED, Layout.ANSWER_EMITTED_LEN);
        readFailed();
        readChanged(request);
    }

    private long word(long number) {
        return Memory.getLong(answer + number * 8);
    }

    private void readRows(List<Integer> rows, long offset, long length) {
        for (long at = 0; at < word(length); at++) {
            rows.add(Memory.getInt(buffer + word(offset) + at * 4));
        }
    }

    private void readFailed() {
        String message = null;
        for (long at = 0; at < word(Layout.ANSWER_FAILED_LEN); at++) {
            long failure = buffer + word(Layout.ANSWER_FAILED) + at * Layout.FAILED_WORDS * 8;
            long length = Memory.getLong(failure + Layout.FAILED_MESSAGE_BYTES * 8);
            if (length > 0) {
                message = text(Memory.getLong(failure + Layout.FAILED_MESSAGE * 8), length);
            }
            int row = (int) Memory.getLong(failure + Layout.FAILED_ROW * 8);
            int rule = (int) Memory.getLong(failure + Layout.FAILED_RULE * 8);
            failed.add(new Failed(row, Memory.getLong(failure + Layout.FAILED_REASON * 8), rule, message));
        }
    }

    private String text(long offset, long length) {
        return new String(Memory.bytes(buffer + offset, length), StandardCharsets.UTF_8);
    }

    private void readChanged(LocalRequest request) {
        for (long at = 0; at < word(Layout.ANSWER_CHANGED_LEN); at++) {
            long column = buffer + word(Layout.ANSWER_CHANGED) + at * Layout.CHANGED_WORDS * 8;
            long number = Memory.getLong(column + Layout.CHANGED_COLUMN * 8);
            long name = Memory.getLong(column + Layout.CHANGED_NAME * 8);
            long length = Memory.getLong(column + Layout.CHANGED_NAME_BYTES * 8);
            long cells = buffer + Memory.getLong(column + Layout.CHANGED_CELLS * 8);
            LocalValue[] values = new LocalValue[request.rows() + emitted.size()];
            for (int row = 0; row < values.length; row++) {
                values[row] = value(request, Memory.getLong(cells + row * 8L));
            }
            changed.put(number < 0 ? text(name, length) : request.column((int) number), values);
        }
    }

    private LocalValue value(LocalRequest request, long cell) {
        if (cell == Layout.CELL_UNCHANGED) {
            return null;
        }
        long base = Cells.isOwn(cell) ? buffer : request.block();
        boolean isValid = !Cells.isOwn(cell) || Cells.start(cell) + Cells.length(cell) <= word(Layout.ANSWER_VALUE_BYTES);
        if (!isValid) {
            throw new IllegalStateException("a value is outside of the buffer");
        }
        return LocalValue.of(Cells.kind(cell), Memory.bytes(base + Cells.start(cell), Cells.length(cell)));
    }

    /**
     * Returns the changed columns. A column contains a value for each row and then for each emitted event; null means that nothing was set.
     */
    public Map<String, LocalValue[]> changed() {
        return changed;
    }

    /** Returns the dropped rows. */
    public List<Integer> dropped() {
        return dropped;
    }

    /** Returns the row of each emitted event. */
    public List<Integer> emitted() {
        return emitted;
    }

    /** Returns the failed rows. */
    public List<Failed> failed() {
        return failed;
    }
}
