package dev.millstream.operator.runtime;

/** The memory that both sides of a call share. Generated from crates/io/jvm/src/layout.rs: do not edit. */
final class Layout {
    private Layout() {}

    /** Version of this layout; both sides must agree. */
    static final long VERSION = 1L;

    /** Cell bits that contain the start of the value. */
    static final long CELL_START_MASK = 2147483647L;

    /** Cell bit that is set if the value is in the column's buffer instead of the block. */
    static final long CELL_OWN = 2147483648L;

    /** First bit of the length in bytes. */
    static final long CELL_LENGTH_SHIFT = 32L;

    /** The bits of the length, shifted to bit 0. */
    static final long CELL_LENGTH_MASK = 268435455L;

    /** First bit of the kind, which is unsigned. */
    static final long CELL_KIND_SHIFT = 60L;

    /** No value. */
    static final long KIND_ABSENT = 0L;

    /** JSON's null. */
    static final long KIND_NULL = 1L;

    /** False; has no bytes. */
    static final long KIND_FALSE = 2L;

    /** True; has no bytes. */
    static final long KIND_TRUE = 3L;

    /** A JSON number without fraction and exponent, of any size. */
    static final long KIND_INT = 4L;

    /** A JSON number with a fraction or exponent. */
    static final long KIND_FLOAT = 5L;

    /** An RFC 3339 timestamp in UTC. */
    static final long KIND_TIME = 6L;

    /** Any bytes, UTF-8 or not. */
    static final long KIND_TEXT = 7L;

    /** The contents of a JSON string, possibly with escapes. */
    static final long KIND_ESCAPED = 8L;

    /** A JSON object. */
    static final long KIND_OBJECT = 9L;

    /** A JSON array. */
    static final long KIND_ARRAY = 10L;

    /** Members of a JSON object without a column: `"key":value,"key":value`. */
    static final long KIND_MEMBERS = 11L;

    /** In an answer: the value of the row stays, or is absent in a new column or an emitted row. */
    static final long CELL_UNCHANGED = -1L;

    /** Address of the block. */
    static final long REQUEST_BLOCK = 0L;

    /** Length of the block. */
    static final long REQUEST_BLOCK_BYTES = 1L;

    /** Number of rows, selected or not. */
    static final long REQUEST_ROWS = 2L;

    /** Address of the selected row numbers, 32 bits each, ascending. */
    static final long REQUEST_SELECTED = 3L;

    /** Number of selected rows. */
    static final long REQUEST_SELECTED_LEN = 4L;

    /** Address of the columns. The first one is always `message`. */
    static final long REQUEST_COLUMNS = 5L;

    /** Number of columns. */
    static final long REQUEST_COLUMNS_LEN = 6L;

    /** Address of the row times in nanoseconds since 1970. If 0, all rows have the read time. */
    static final long REQUEST_TIMES = 7L;

    /** Time at which the rows were read, in nanoseconds since 1970. */
    static final long REQUEST_READ_NS = 8L;

    /** Address of the segments. */
    static final long REQUEST_SEGMENTS = 9L;

    /** Number of segments. */
    static final long REQUEST_SEGMENTS_LEN = 10L;

    /** Address of the buffer for the answer, a multiple of 8. */
    static final long REQUEST_OUT = 11L;

    /** Capacity of the answer buffer. */
    static final long REQUEST_OUT_BYTES = 12L;

    /** Opaque handle of the call, for `Bridge.grow`. */
    static final long REQUEST_CALL = 13L;

    /** Length of a request in words. */
    static final long REQUEST_WORDS = 14L;

    /** In REQUEST_TIMES: the row has the read time. */
    static final long TIME_UNKNOWN = Long.MIN_VALUE;

    /** Address of a column's name. */
    static final long COLUMN_NAME = 0L;

    /** Length of the name. */
    static final long COLUMN_NAME_BYTES = 1L;

    /** Address of the column's cells, one per row. */
    static final long COLUMN_CELLS = 2L;

    /** Address of the column's own buffer. */
    static final long COLUMN_OWN = 3L;

    /** Length of the column's own buffer. */
    static final long COLUMN_OWN_BYTES = 4L;

    /** Length of a column in words. */
    static final long COLUMN_WORDS = 5L;

    /** First row of a segment. */
    static final long SEGMENT_FIRST_ROW = 0L;

    /** Number of rows in the segment. */
    static final long SEGMENT_ROWS = 1L;

    /** Address of the segment's constants. */
    static final long SEGMENT_CONSTANTS = 2L;

    /** Number of constants in the segment. */
    static final long SEGMENT_CONSTANTS_LEN = 3L;

    /** Length of a segment in words. */
    static final long SEGMENT_WORDS = 4L;

    /** Address of a constant's name. */
    static final long CONSTANT_NAME = 0L;

    /** Length of the name. */
    static final long CONSTANT_NAME_BYTES = 1L;

    /** Address of the value, which is text. */
    static final long CONSTANT_VALUE = 2L;

    /** Length of the value. */
    static final long CONSTANT_VALUE_BYTES = 3L;

    /** Length of a constant in words. */
    static final long CONSTANT_WORDS = 4L;

    /** Number of bytes at the start of the buffer that contain values. */
    static final long ANSWER_VALUE_BYTES = 0L;

    /** Offset of the changed columns. */
    static final long ANSWER_CHANGED = 1L;

    /** Number of changed columns. */
    static final long ANSWER_CHANGED_LEN = 2L;

    /** Offset of the rows for which events were emitted, 32 bits each, ascending, one per event. */
    static final long ANSWER_EMITTED = 3L;

    /** Number of emitted events. */
    static final long ANSWER_EMITTED_LEN = 4L;

    /** Offset of the dropped rows, 32 bits each, ascending. */
    static final long ANSWER_DROPPED = 5L;

    /** Number of dropped rows. */
    static final long ANSWER_DROPPED_LEN = 6L;

    /** Offset of the failures, ascending by row. */
    static final long ANSWER_FAILED = 7L;

    /** Number of failures. */
    static final long ANSWER_FAILED_LEN = 8L;

    /** Length of an answer in words. */
    static final long ANSWER_WORDS = 9L;

    /** Column number of a changed column in the request, or -1. */
    static final long CHANGED_COLUMN = 0L;

    /** Offset of the column's name, if the column is not in the request. */
    static final long CHANGED_NAME = 1L;

    /** Length of the name. */
    static final long CHANGED_NAME_BYTES = 2L;

    /** Offset of the column's cells, one per row of the request and then one per emitted event. Values are in the block or, with CELL_OWN, in the buffer. */
    static final long CHANGED_CELLS = 3L;

    /** Length of a changed column in words. */
    static final long CHANGED_WORDS = 4L;

    /** Row of a failure. */
    static final long FAILED_ROW = 0L;

    /** Reason for the failure, one of REASON. */
    static final long FAILED_REASON = 1L;

    /** Rule number. */
    static final long FAILED_RULE = 2L;

    /** Offset of the message, which is UTF-8. */
    static final long FAILED_MESSAGE = 3L;

    /** Length of the message; 0 if the message is the same as for the previous failure. */
    static final long FAILED_MESSAGE_BYTES = 4L;

    /** Length of a failure in words. */
    static final long FAILED_WORDS = 5L;

    /** The rule threw an exception. */
    static final long REASON_EXCEPTION = 0L;

    /** The row took longer than its timeout. */
    static final long REASON_TIMEOUT = 1L;

    /** A value has a type that no field can have. */
    static final long REASON_WRONG_TYPE = 2L;

    /** Java had no memory left. */
    static final long REASON_OUT_OF_MEMORY = 3L;

    /** The stack overflowed. */
    static final long REASON_STACK_OVERFLOW = 4L;

    /** The output exceeds its limit. */
    static final long REASON_OUTPUT_FULL = 5L;

    /** Returned instead of an offset: the operator is not registered. */
    static final long CALL_UNKNOWN_OPERATOR = -1L;

    /** Returned instead of an offset: the call failed as a whole; `Bridge.failure` returns the reason. */
    static final long CALL_FAILED = -2L;

    /** Maximum size of an answer in bytes. */
    static final long OUT_BYTES_MAX = 1073741824L;
}
