//! The memory that both sides of a call share, in 64-bit words of the host's byte order.
//!
//! The constants in this file are the only definition; a test generates
//! `java/operators/src/main/java/dev/millstream/operator/runtime/Layout.java` from them.

/// Defines constants, and lists them with their documentation for the generator.
macro_rules! layout {
    ($($(#[doc = $doc:literal])+ $name:ident = $value:expr;)+) => {
        $($(#[doc = $doc])+ pub const $name: i64 = $value;)+

        /// Every constant: documentation, name, value.
        pub const ALL: &[(&str, &str, i64)] =
            &[$((concat!($($doc),+), stringify!($name), $name),)+];
    };
}

layout! {
    /// Version of this layout; both sides must agree.
    VERSION = 1;

    // A cell (see `millstream_columns::Cell`).
    /// Cell bits that contain the start of the value.
    CELL_START_MASK = 0x7FFF_FFFF;
    /// Cell bit that is set if the value is in the column's buffer instead of the block.
    CELL_OWN = 1 << 31;
    /// First bit of the length in bytes.
    CELL_LENGTH_SHIFT = 32;
    /// The bits of the length, shifted to bit 0.
    CELL_LENGTH_MASK = 0x0FFF_FFFF;
    /// First bit of the kind, which is unsigned.
    CELL_KIND_SHIFT = 60;
    /// No value.
    KIND_ABSENT = 0;
    /// JSON's null.
    KIND_NULL = 1;
    /// False; has no bytes.
    KIND_FALSE = 2;
    /// True; has no bytes.
    KIND_TRUE = 3;
    /// A JSON number without fraction and exponent, of any size.
    KIND_INT = 4;
    /// A JSON number with a fraction or exponent.
    KIND_FLOAT = 5;
    /// An RFC 3339 timestamp in UTC.
    KIND_TIME = 6;
    /// Any bytes, UTF-8 or not.
    KIND_TEXT = 7;
    /// The contents of a JSON string, possibly with escapes.
    KIND_ESCAPED = 8;
    /// A JSON object.
    KIND_OBJECT = 9;
    /// A JSON array.
    KIND_ARRAY = 10;
    /// Members of a JSON object without a column: `"key":value,"key":value`.
    KIND_MEMBERS = 11;
    /// In an answer: the value of the row stays, or is absent in a new column or an emitted row.
    CELL_UNCHANGED = -1;

    // The request. Addresses and lengths in bytes, unless a comment says otherwise.
    /// Address of the block.
    REQUEST_BLOCK = 0;
    /// Length of the block.
    REQUEST_BLOCK_BYTES = 1;
    /// Number of rows, selected or not.
    REQUEST_ROWS = 2;
    /// Address of the selected row numbers, 32 bits each, ascending.
    REQUEST_SELECTED = 3;
    /// Number of selected rows.
    REQUEST_SELECTED_LEN = 4;
    /// Address of the columns. The first one is always `message`.
    REQUEST_COLUMNS = 5;
    /// Number of columns.
    REQUEST_COLUMNS_LEN = 6;
    /// Address of the row times in nanoseconds since 1970. If 0, all rows have the read time.
    REQUEST_TIMES = 7;
    /// Time at which the rows were read, in nanoseconds since 1970.
    REQUEST_READ_NS = 8;
    /// Address of the segments.
    REQUEST_SEGMENTS = 9;
    /// Number of segments.
    REQUEST_SEGMENTS_LEN = 10;
    /// Address of the buffer for the answer, a multiple of 8.
    REQUEST_OUT = 11;
    /// Capacity of the answer buffer.
    REQUEST_OUT_BYTES = 12;
    /// Opaque handle of the call, for `Bridge.grow`.
    REQUEST_CALL = 13;
    /// Length of a request in words.
    REQUEST_WORDS = 14;

    /// In REQUEST_TIMES: the row has the read time.
    TIME_UNKNOWN = i64::MIN;

    /// Address of a column's name.
    COLUMN_NAME = 0;
    /// Length of the name.
    COLUMN_NAME_BYTES = 1;
    /// Address of the column's cells, one per row.
    COLUMN_CELLS = 2;
    /// Address of the column's own buffer.
    COLUMN_OWN = 3;
    /// Length of the column's own buffer.
    COLUMN_OWN_BYTES = 4;
    /// Length of a column in words.
    COLUMN_WORDS = 5;

    /// First row of a segment.
    SEGMENT_FIRST_ROW = 0;
    /// Number of rows in the segment.
    SEGMENT_ROWS = 1;
    /// Address of the segment's constants.
    SEGMENT_CONSTANTS = 2;
    /// Number of constants in the segment.
    SEGMENT_CONSTANTS_LEN = 3;
    /// Length of a segment in words.
    SEGMENT_WORDS = 4;

    /// Address of a constant's name.
    CONSTANT_NAME = 0;
    /// Length of the name.
    CONSTANT_NAME_BYTES = 1;
    /// Address of the value, which is text.
    CONSTANT_VALUE = 2;
    /// Length of the value.
    CONSTANT_VALUE_BYTES = 3;
    /// Length of a constant in words.
    CONSTANT_WORDS = 4;

    // The answer, at the offset in the buffer that the call returns, a multiple of 8. Positions in
    // the answer are offsets in the buffer.
    /// Number of bytes at the start of the buffer that contain values.
    ANSWER_VALUE_BYTES = 0;
    /// Offset of the changed columns.
    ANSWER_CHANGED = 1;
    /// Number of changed columns.
    ANSWER_CHANGED_LEN = 2;
    /// Offset of the rows for which events were emitted, 32 bits each, ascending, one per event.
    ANSWER_EMITTED = 3;
    /// Number of emitted events.
    ANSWER_EMITTED_LEN = 4;
    /// Offset of the dropped rows, 32 bits each, ascending.
    ANSWER_DROPPED = 5;
    /// Number of dropped rows.
    ANSWER_DROPPED_LEN = 6;
    /// Offset of the failures, ascending by row.
    ANSWER_FAILED = 7;
    /// Number of failures.
    ANSWER_FAILED_LEN = 8;
    /// Length of an answer in words.
    ANSWER_WORDS = 9;

    /// Column number of a changed column in the request, or -1.
    CHANGED_COLUMN = 0;
    /// Offset of the column's name, if the column is not in the request.
    CHANGED_NAME = 1;
    /// Length of the name.
    CHANGED_NAME_BYTES = 2;
    /// Offset of the column's cells, one per row of the request and then one per emitted event.
    /// Values are in the block or, with CELL_OWN, in the buffer.
    CHANGED_CELLS = 3;
    /// Length of a changed column in words.
    CHANGED_WORDS = 4;

    /// Row of a failure.
    FAILED_ROW = 0;
    /// Reason for the failure, one of REASON.
    FAILED_REASON = 1;
    /// Rule number.
    FAILED_RULE = 2;
    /// Offset of the message, which is UTF-8.
    FAILED_MESSAGE = 3;
    /// Length of the message; 0 if the message is the same as for the previous failure.
    FAILED_MESSAGE_BYTES = 4;
    /// Length of a failure in words.
    FAILED_WORDS = 5;

    /// The rule threw an exception.
    REASON_EXCEPTION = 0;
    /// The row took longer than its timeout.
    REASON_TIMEOUT = 1;
    /// A value has a type that no field can have.
    REASON_WRONG_TYPE = 2;
    /// Java had no memory left.
    REASON_OUT_OF_MEMORY = 3;
    /// The stack overflowed.
    REASON_STACK_OVERFLOW = 4;
    /// The output exceeds its limit.
    REASON_OUTPUT_FULL = 5;

    /// Returned instead of an offset: the operator is not registered.
    CALL_UNKNOWN_OPERATOR = -1;
    /// Returned instead of an offset: the call failed as a whole; `Bridge.failure` returns the
    /// reason.
    CALL_FAILED = -2;

    /// Maximum size of an answer in bytes.
    OUT_BYTES_MAX = 1 << 30;
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use std::fmt::Write;
    use std::fs;
    use std::path::Path;

    const FILE: &str =
        "../../../java/operators/src/main/java/dev/millstream/operator/runtime/Layout.java";

    fn java() -> String {
        let mut out = String::from(
            "package dev.millstream.operator.runtime;\n\n\
             /** The memory that both sides of a call share. Generated from crates/io/jvm/src/layout.rs: do not edit. */\n\
             final class Layout {\n    private Layout() {}\n",
        );
        for (doc, name, value) in ALL {
            let value = match *value {
                i64::MIN => "Long.MIN_VALUE".to_owned(),
                value => format!("{value}L"),
            };
            write!(out, "\n    /**{doc} */\n    static final long {name} = {value};\n").unwrap();
        }
        out + "}\n"
    }

    #[test]
    fn the_java_side_has_the_same_constants() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, java()).unwrap();
        }
        assert!(
            fs::read_to_string(&file).unwrap() == java(),
            "Layout.java differs from layout.rs: run UPDATE=1 cargo test -p millstream-jvm layout"
        );
    }
}
