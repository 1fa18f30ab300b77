//! Stores the fields of many events by column.
//!
//! A separate crate because it cuts a dependency: parsers, encoders and expressions need columns,
//! but neither batches nor acknowledgements.
//!
//! A [`Column`] has one [`Cell`] per row: eight bytes that contain the location and kind of a
//! value. Values stay slices of the input block and are decoded only when they are used. Computed
//! or edited values are in the column's buffer. As a result, parsing a line copies nothing, an
//! encoder copies once, and an unused number is never converted.

#![forbid(unsafe_code)]

mod cell;
mod column;
mod members;
mod number;
mod path;
mod text;
mod value;

pub use cell::{BLOCK_BYTES_MAX, Cell, Kind, VALUE_BYTES_MAX};
pub use column::{COLUMNS_MAX, Column, ColumnBuilder, ColumnView, Columns};
pub use members::{MEMBERS, push_member};
pub use number::{Number, parse_float, parse_int};
pub use path::{DisplayPath, Step};
pub use text::{push_json_string, unescape, unescape_into};
pub use value::Value;
