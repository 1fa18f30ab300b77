//! The fields of many events, by column.
//!
//! A separate crate because it cuts a dependency: parsers, encoders and expressions need columns,
//! but neither batches nor acknowledgements.
//!
//! A [`Column`] has one [`Cell`] per row: eight bytes that say where a value lies and what it is.
//! Values stay the text they came as, in the block that was read, until somebody computes with
//! them; what is computed, or differs from what was read, lies in a buffer of the column's own. So
//! parsing a line copies nothing, an encoder copies once, and a number that nobody looks at is
//! never converted.

#![forbid(unsafe_code)]

mod cell;
mod column;
mod members;
mod number;
mod text;
mod value;

pub use cell::{BLOCK_BYTES_MAX, Cell, Kind, VALUE_BYTES_MAX};
pub use column::{COLUMNS_MAX, Column, ColumnBuilder, Columns};
pub use members::{MEMBERS, push_member};
pub use number::{Number, parse_float, parse_int};
pub use text::{push_json_string, unescape, unescape_into};
pub use value::Value;
