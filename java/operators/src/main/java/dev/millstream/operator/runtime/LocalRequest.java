package dev.millstream.operator.runtime;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/** The request of a call, created from Java values as the agent creates a request from its columns. */
public final class LocalRequest implements AutoCloseable {
    private static final long OUT_BYTES = 4096;

    private final int rows;
    private final Map<String, LocalValue[]> columns = new LinkedHashMap<>();
    private final List<String> ownColumns = new ArrayList<>();
    private final List<Segment> segments = new ArrayList<>();
    private final List<NativeBlock> blocks = new ArrayList<>();
    private int[] selected;
    private long[] times;
    private long readNs;
    private long outBytes = OUT_BYTES;
    private NativeBlock out;
    private NativeBlock request;
    private long block;

    /**
     * Rows with the same constants.
     *
     * @param firstRow the first row
     * @param rows the number of rows
     * @param constants attributes and {@code meta} names
     */
    private record Segment(int firstRow, int rows, Map<String, String> constants) {}

    /** Creates a request for a number of rows. */
    public LocalRequest(int rows) {
        this.rows = rows;
        selected = IntStream.range(0, rows).toArray();
        columns.put(Columns.MESSAGE, absent());
    }

    private LocalValue[] absent() {
        LocalValue[] values = new LocalValue[rows];
        Arrays.fill(values, LocalValue.of(Layout.KIND_ABSENT, ""));
        return values;
    }

    /** Sets the value of a field in a row. {@code message} is the row's text. */
    public LocalRequest set(int row, String column, Object value) {
        columns.computeIfAbsent(column, name -> absent())[row] = LocalValue.of(value);
        return this;
    }

    /** Puts a column's values into a buffer that only this column uses. */
    public LocalRequest own(String column) {
        ownColumns.add(column);
        return this;
    }

    /** Selects rows, in ascending order. By default, all rows are selected. */
    public LocalRequest select(int... rowNumbers) {
        selected = rowNumbers.clone();
        return this;
    }

    /** Sets the time at which the rows were read, in nanoseconds since 1970. */
    public LocalRequest readNs(long nanoseconds) {
        readNs = nanoseconds;
        return this;
    }

    /** Sets the time of each row in nanoseconds since 1970, or TIME_UNKNOWN. */
    public LocalRequest times(long... nanoseconds) {
        times = nanoseconds.clone();
        return this;
    }

    /** Adds a segment after the last segment. */
    public LocalRequest segment(int firstRow, int segmentRows, Map<String, String> constants) {
        segments.add(new Segment(firstRow, segmentRows, constants));
        return this;
    }

    /** Sets the capacity of the answer buffer. */
    public LocalRequest outBytes(long bytes) {
        outBytes = bytes;
        return this;
    }

    /** Returns the number of rows. */
    public int rows() {
        return rows;
    }

    /** Returns the address of the request. The first call allocates the request. */
    long address(long call) {
        if (request == null) {
            long[] words = new long[(int) Layout.REQUEST_WORDS];
            build(words);
            request = words(words);
        }
        out = allocate(outBytes);
        Memory.putLong(request.address() + Layout.REQUEST_OUT * 8, out.address());
        Memory.putLong(request.address() + Layout.REQUEST_OUT_BYTES * 8, outBytes);
        Memory.putLong(request.address() + Layout.REQUEST_CALL * 8, call);
        return request.address();
    }

    /** Enlarges the answer buffer. */
    long grow(long used, long needed) {
        NativeBlock larger = allocate(needed);
        Memory.write(Memory.bytes(out.address(), used), (int) used, larger.address());
        blocks.remove(out);
        out.close();
        out = larger;
        Memory.putLong(request.address() + Layout.REQUEST_OUT * 8, larger.address());
        Memory.putLong(request.address() + Layout.REQUEST_OUT_BYTES * 8, needed);
        return larger.address();
    }

    NativeBlock out() {
        return out;
    }

    long block() {
        return block;
    }

    private NativeBlock allocate(long bytes) {
        NativeBlock allocated = NativeBlock.allocate(bytes);
        blocks.add(allocated);
        return allocated;
    }

    private NativeBlock bytes(byte[] bytes) {
        NativeBlock allocated = allocate(bytes.length);
        Memory.write(bytes, bytes.length, allocated.address());
        return allocated;
    }

    private NativeBlock words(long[] words) {
        NativeBlock allocated = allocate(words.length * 8L);
        Memory.write(words, words.length, allocated.address());
        return allocated;
    }

    private void build(long[] words) {
        ByteArrayOutputStream shared = new ByteArrayOutputStream();
        long[] columnWords = new long[columns.size() * (int) Layout.COLUMN_WORDS];
        int at = 0;
        for (Map.Entry<String, LocalValue[]> column : columns.entrySet()) {
            buildColumn(column.getKey(), column.getValue(), shared, columnWords, at);
            at += (int) Layout.COLUMN_WORDS;
        }
        NativeBlock numbers = allocate(selected.length * 4L);
        for (int index = 0; index < selected.length; index++) {
            Memory.putInt(numbers.address() + index * 4L, selected[index]);
        }
        block = bytes(shared.toByteArray()).address();
        words[(int) Layout.REQUEST_BLOCK] = block;
        words[(int) Layout.REQUEST_BLOCK_BYTES] = shared.size();
        words[(int) Layout.REQUEST_ROWS] = rows;
        words[(int) Layout.REQUEST_SELECTED] = numbers.address();
        words[(int) Layout.REQUEST_SELECTED_LEN] = selected.length;
        words[(int) Layout.REQUEST_COLUMNS] = words(columnWords).address();
        words[(int) Layout.REQUEST_COLUMNS_LEN] = columns.size();
        words[(int) Layout.REQUEST_TIMES] = times == null ? 0 : words(times).address();
        words[(int) Layout.REQUEST_READ_NS] = readNs;
        words[(int) Layout.REQUEST_SEGMENTS] = segments().address();
        words[(int) Layout.REQUEST_SEGMENTS_LEN] = segments.size();
    }

    private void buildColumn(String name, LocalValue[] values, ByteArrayOutputStream shared, long[] words, int at) {
        boolean isOwn = ownColumns.contains(name);
        ByteArrayOutputStream buffer = isOwn ? new ByteArrayOutputStream() : shared;
        long[] cells = new long[rows];
        for (int row = 0; row < rows; row++) {
            LocalValue value = values[row];
            long cell = Cells.withKind(Cells.own(0, buffer.size(), value.bytes().length), value.kind());
            cells[row] = value.isAbsent() ? Cells.ABSENT : isOwn ? cell : cell & ~Layout.CELL_OWN;
            buffer.writeBytes(value.bytes());
        }
        byte[] nameBytes = name.getBytes(StandardCharsets.UTF_8);
        words[at + (int) Layout.COLUMN_NAME] = bytes(nameBytes).address();
        words[at + (int) Layout.COLUMN_NAME_BYTES] = nameBytes.length;
        words[at + (int) Layout.COLUMN_CELLS] = words(cells).address();
        words[at + (int) Layout.COLUMN_OWN] = isOwn ? bytes(buffer.toByteArray()).address() : 0;
        words[at + (int) Layout.COLUMN_OWN_BYTES] = isOwn ? buffer.size() : 0;
    }

    private NativeBlock segments() {
        long[] words = new long[segments.size() * (int) Layout.SEGMENT_WORDS];
        for (int number = 0; number < segments.size(); number++) {
            Segment segment = segments.get(number);
            int at = number * (int) Layout.SEGMENT_WORDS;
            words[at + (int) Layout.SEGMENT_FIRST_ROW] = segment.firstRow;
            words[at + (int) Layout.SEGMENT_ROWS] = segment.rows;
            words[at + (int) Layout.SEGMENT_CONSTANTS] = constants(segment.constants).address();
            words[at + (int) Layout.SEGMENT_CONSTANTS_LEN] = segment.constants.size();
        }
        return words(words);
    }

    private NativeBlock constants(Map<String, String> constants) {
        long[] words = new long[constants.size() * (int) Layout.CONSTANT_WORDS];
        int at = 0;
        for (Map.Entry<String, String> constant : constants.entrySet()) {
            byte[] name = constant.getKey().getBytes(StandardCharsets.UTF_8);
            byte[] value = constant.getValue().getBytes(StandardCharsets.UTF_8);
            words[at + (int) Layout.CONSTANT_NAME] = bytes(name).address();
            words[at + (int) Layout.CONSTANT_NAME_BYTES] = name.length;
            words[at + (int) Layout.CONSTANT_VALUE] = bytes(value).address();
            words[at + (int) Layout.CONSTANT_VALUE_BYTES] = value.length;
            at += (int) Layout.CONSTANT_WORDS;
        }
        return words(words);
    }

    String column(int number) {
        return new ArrayList<>(columns.keySet()).get(number);
    }

    /** Frees the request's memory. */
    @Override
    public void close() {
        blocks.forEach(NativeBlock::close);
        blocks.clear();
    }
}
