//! String functions. Positions are in characters. In a string that is not valid UTF-8, each invalid
//! sequence is treated as U+FFFD.

use crate::value::{Error, Outcome, Value};
use std::borrow::Cow;

/// Maximum size of a computed string in bytes, so that an expression cannot repeat a line without
/// limit.
pub const COMPUTED_BYTES_MAX: usize = 16 << 20;

/// Returns the number of characters.
pub fn characters(text: &[u8]) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.utf8_chunks()
        .map(|chunk| chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty()))
        .sum()
}

/// Decodes a string. Replaces invalid UTF-8.
fn chars<'a>(text: &Cow<'a, [u8]>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => String::from_utf8_lossy(text),
        Cow::Owned(text) => Cow::Owned(String::from_utf8_lossy(text).into_owned()),
    }
}

fn part<'a>(text: &Cow<'a, str>, start: usize, end: usize) -> Value<'a> {
    Value::Text(match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text.as_bytes()[start..end]),
        Cow::Owned(text) => Cow::Owned(text.as_bytes()[start..end].to_vec()),
    })
}

/// Returns the byte offset of the character at an index. The index after the last character is the
/// end.
fn offset(text: &str, index: i64) -> Result<usize, Error> {
    let index = usize::try_from(index).map_err(|_| Error::Missing)?;
    let mut offsets = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    offsets.nth(index).ok_or(Error::Missing)
}

pub fn trim<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let text = chars(values[0].text()?);
    let start = text.len() - text.trim_start().len();
    Ok(part(&text, start, start + text.trim().len()))
}

pub fn substring<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let text = chars(values[0].text()?);
    let start = offset(&text, values[1].int()?)?;
    let end = values.get(2).map_or(Ok(text.len()), |end| offset(&text, end.int()?))?;
    if start > end { Err(Error::Missing) } else { Ok(part(&text, start, end)) }
}

pub fn char_at<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let text = chars(values[0].text()?);
    let start = offset(&text, values[1].int()?)?;
    let len = text[start..].chars().next().map_or(0, char::len_utf8);
    Ok(part(&text, start, start + len))
}

pub fn index_of<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let (text, wanted) = (chars(values[0].text()?), chars(values[1].text()?));
    let from = values.get(2).map_or(Ok(0), |from| offset(&text, from.int()?))?;
    let found = text[from..].find(&*wanted).map(|at| text[..from + at].chars().count() as i64);
    Ok(Value::Int(found.unwrap_or(-1)))
}

pub fn last_index_of<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let (text, wanted) = (chars(values[0].text()?), chars(values[1].text()?));
    let last = values.get(2).map_or(Ok(text.len()), |last| offset(&text, last.int()?))?;
    let end = (last + wanted.len()).min(text.len());
    let found = memchr::memmem::rfind(&text.as_bytes()[..end], wanted.as_bytes());
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

/// Returns an error if the length exceeds the limit for computed strings.
pub fn check_len(len: usize) -> Result<(), Error> {
    if len > COMPUTED_BYTES_MAX { Err(Error::Arithmetic) } else { Ok(()) }
}

/// Returns the maximum number of replacements or parts, or `None` for no limit.
fn limit(value: Option<&Value<'_>>) -> Result<Option<usize>, Error> {
    Ok(value.map(Value::int).transpose()?.and_then(|limit| usize::try_from(limit).ok()))
}

pub fn replace<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let (text, old, new) =
        (chars(values[0].text()?), chars(values[1].text()?), chars(values[2].text()?));
    let most = limit(values.get(3))?.unwrap_or(usize::MAX);
    let hits = text.matches(&*old).take(most).count();
    check_len(text.len().saturating_add(hits.saturating_mul(new.len())))?;
    Ok(Value::owned(text.replacen(&*old, &new, most)))
}

pub fn split<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let (text, separator) = (values[0].text()?, chars(values[1].text()?));
    let text = chars(text);
    let most = limit(values.get(2))?.unwrap_or(usize::MAX);
    let mut list = Vec::new();
    let (mut start, mut next) = (0, 0);
    while most > 0 && list.len() + 1 < most && start < text.len() {
        // An empty separator matches after every character.
        let skip = if separator.is_empty() {
            text[start..].chars().next().map_or(0, char::len_utf8)
        } else {
            0
        };
        let Some(at) = text[start + skip..].find(&*separator) else { break };
        next = start + skip + at;
        list.push(part(&text, start, next));
        start = next + separator.len();
    }
    let is_last_given = separator.is_empty() && start == text.len() && next == start;
    if most > 0 && !(is_last_given) {
        list.push(part(&text, start, text.len()));
    }
    Ok(Value::list(list))
}

pub fn join<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let separator: &[u8] =
        values.get(1).map_or(Ok(&[][..]), |value| value.text().map(|text| &text[..]))?;
    let mut out = Vec::new();
    for (index, value) in values[0].elements()?.iter().enumerate() {
        let text = value.text()?;
        check_len(out.len() + separator.len() + text.len())?;
        out.extend_from_slice(if index == 0 { &[] } else { separator });
        out.extend_from_slice(text);
    }
    Ok(Value::owned(out))
}

pub fn reverse<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let text = chars(values[0].text()?);
    Ok(Value::owned(text.chars().rev().collect::<String>()))
}
