package dev.millstream.operator.runtime;

/** The attributes and {@code meta} names of a call, which are the same for all rows of a segment. */
final class Constants {
    private final Names names = new Names();
    private final Decoder decoder;
    private long segments;
    private int count;
    private long firstRow;
    private long endRow;
    private String[] currentNames = new String[16];
    private String[] currentValues = new String[16];
    private int length;

    Constants(Decoder decoder) {
        this.decoder = decoder;
    }

    void begin(long request) {
        segments = Memory.getLong(request + Layout.REQUEST_SEGMENTS * 8);
        count = Math.toIntExact(Memory.getLong(request + Layout.REQUEST_SEGMENTS_LEN * 8));
        firstRow = 0;
        endRow = 0;
        length = 0;
    }

    /** Returns the value of a name in a row, or null if there is none. */
    String value(int row, String name) {
        if (row < firstRow || row >= endRow) {
            load(row);
        }
        for (int at = 0; at < length; at++) {
            if (currentNames[at].equals(name)) {
                return currentValues[at];
            }
        }
        return null;
    }

    /** Loads the constants of a row's segment. */
    private void load(int row) {
        int low = 0;
        int high = count - 1;
        length = 0;
        while (low <= high) {
            int middle = (low + high) >>> 1;
            long segment = segments + middle * Layout.SEGMENT_WORDS * 8;
            long first = Memory.getLong(segment + Layout.SEGMENT_FIRST_ROW * 8);
            long end = first + Memory.getLong(segment + Layout.SEGMENT_ROWS * 8);
            if (row >= end) {
                low = middle + 1;
            } else if (row < first) {
                high = middle - 1;
            } else {
                load(segment);
                firstRow = first;
                endRow = end;
                return;
            }
        }
        firstRow = row;
        endRow = row + 1L;
    }

    private void load(long segment) {
        long constants = Memory.getLong(segment + Layout.SEGMENT_CONSTANTS * 8);
        int size = Math.toIntExact(Memory.getLong(segment + Layout.SEGMENT_CONSTANTS_LEN * 8));
        if (size > currentNames.length) {
            currentNames = new String[size];
            currentValues = new String[size];
        }
        for (int at = 0; at < size; at++) {
            long constant = constants + at * Layout.CONSTANT_WORDS * 8;
            int nameLength = Math.toIntExact(Memory.getLong(constant + Layout.CONSTANT_NAME_BYTES * 8));
            int valueLength = Math.toIntExact(Memory.getLong(constant + Layout.CONSTANT_VALUE_BYTES * 8));
            currentNames[at] = names.name(Memory.getLong(constant + Layout.CONSTANT_NAME * 8), nameLength);
            currentValues[at] = decoder.text(Memory.getLong(constant + Layout.CONSTANT_VALUE * 8), valueLength);
        }
        length = size;
    }
}
