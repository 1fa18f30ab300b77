package dev.millstream.operator.runtime;

/** The location and kind of a value, encoded in a word. */
final class Cells {
    /** Cells of the kinds whose values have no bytes. */
    static final long NULL = Layout.KIND_NULL << Layout.CELL_KIND_SHIFT;
    static final long FALSE = Layout.KIND_FALSE << Layout.CELL_KIND_SHIFT;
    static final long TRUE = Layout.KIND_TRUE << Layout.CELL_KIND_SHIFT;
    static final long ABSENT = 0;

    private Cells() {}

    static int kind(long cell) {
        return (int) (cell >>> Layout.CELL_KIND_SHIFT);
    }

    static int length(long cell) {
        return (int) (cell >>> Layout.CELL_LENGTH_SHIFT & Layout.CELL_LENGTH_MASK);
    }

    static long start(long cell) {
        return cell & Layout.CELL_START_MASK;
    }

    static boolean isOwn(long cell) {
        return (cell & Layout.CELL_OWN) != 0;
    }

    static boolean isPresent(long cell) {
        return cell >>> Layout.CELL_KIND_SHIFT != 0;
    }

    static long of(boolean value) {
        return value ? TRUE : FALSE;
    }

    /** Returns the cell of a value in the answer buffer. */
    static long own(long kind, long start, long length) {
        return start | Layout.CELL_OWN | length << Layout.CELL_LENGTH_SHIFT | kind << Layout.CELL_KIND_SHIFT;
    }

    static long withKind(long cell, long kind) {
        return cell & (1L << Layout.CELL_KIND_SHIFT) - 1 | kind << Layout.CELL_KIND_SHIFT;
    }
}
