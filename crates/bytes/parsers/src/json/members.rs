//! Iteration over the members of a JSON object.

use super::cursor::{Cursor, DEPTH_MAX, NOT_JSON};
use super::{check_end, check_utf8};
use crate::fields::Reason;
use millstream_columns::{Cell, Kind, unescape};

/// Calls `each` with the unescaped name and the source text of every member of a JSON object.
/// Returns false if the text is not exactly one object. Even then, `each` might already have been
/// called for some members.
pub fn json_members<'t>(text: &'t [u8], each: impl FnMut(&[u8], &'t [u8])) -> bool {
    let mut cursor = Cursor { text, line: Cell::new(Kind::Text, 0, text.len()), at: 0 };
    object(&mut cursor, text, each).is_ok()
}

fn object<'t>(
    cursor: &mut Cursor<'t>,
    text: &'t [u8],
    mut each: impl FnMut(&[u8], &'t [u8]),
) -> Result<(), Reason> {
    check_utf8(cursor)?;
    cursor.expect(b'{')?;
    if cursor.token() == b'}' {
        cursor.at += 1;
        return check_end(cursor);
    }
    loop {
        cursor.token();
        let begin = cursor.at;
        let (start, end) = cursor.key()?;
        let first = cursor.token();
        cursor.value(first, 1, DEPTH_MAX)?;
        each(&unescape(&text[start..end]), &text[begin..cursor.at]);
        match cursor.token() {
            b',' => cursor.at += 1,
            b'}' => break,
            _ => return Err(NOT_JSON),
        }
    }
    cursor.at += 1;
    check_end(cursor)
}
