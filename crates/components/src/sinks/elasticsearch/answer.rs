//! Reads the response to a bulk request, item by item as it arrives.
//!
//! A [`Splitter`] finds the elements of the `items` array in the bytes. Each item is decoded
//! separately, and only its failures are kept. The text outside of the items is decoded last, with
//! an empty object in place of each item. A response that is truncated at any point, or is
//! otherwise not valid JSON, is therefore never mistaken for a complete response.
//!
//! The memory is bounded, whatever the server sends: only the beginning of a string and one byte of
//! whitespace are kept, and an item that is still too long ends the response.

mod cut_string;
mod object;

use crate::sinks::http_delivery::{Answer, Failure, Judgement, UnusableAnswer};
use crate::util::excerpt::excerpt;
use cut_string::CutString;
use millstream_model::secrets::mask_answer;
use millstream_transport::http::BodyReader;
use object::Object;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

/// Maximum size of an item in bytes, after its strings are truncated.
const ITEM_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes outside of the items that are kept, in addition to [`OUTSIDE_BYTES_PER_ITEM`].
const OUTSIDE_BYTES_MAX: usize = 64 << 10;

/// Maximum bytes that are kept for each item after it is replaced: the placeholder, a comma, and
/// whitespace.
const OUTSIDE_BYTES_PER_ITEM: usize = 8;

/// Maximum bytes from the end of one item to the end of the next as the response arrives. An item
/// may quote the whole document, which is at most as long as a request.
const READ_BYTES_MAX: usize = 16 << 20;

/// Placeholder for an item. Unlike a number, it cannot join with the bytes around it to another
/// value.
const PLACEHOLDER: &[u8] = b"{}";

/// Maximum number of bytes to keep from a reason.
const REASON_BYTES_MAX: usize = 500;

/// Reads the response to a bulk request.
#[derive(Default)]
pub struct BulkAnswer {
    /// Number of events in the request.
    expected: u32,
    /// Number of items so far.
    items: u32,
    failures: Vec<Failure>,
    splitter: Splitter,
    /// Error in the response, if there is one.
    error: Option<UnusableAnswer>,
}

/// Finds the elements of an object's `items` array.
#[derive(Default)]
struct Splitter {
    /// The bytes outside of the items, with a [`PLACEHOLDER`] for each item.
    outside: Vec<u8>,
    /// The bytes of the current item so far.
    item: Vec<u8>,
    /// Number of bytes that arrived since the last item ended.
    read: usize,
    /// Maximum length of `outside` in bytes.
    outside_max: usize,
    depth: u32,
    in_items: bool,
    /// The current string.
    string: Option<CutString>,
    is_escaped: bool,
}

/// The members of the response outside the items.
#[derive(Deserialize)]
struct Outside {
    #[serde(rename = "errors")]
    _errors: bool,
    items: Vec<IgnoredAny>,
}

/// An item, which is the result of one operation.
#[derive(Deserialize)]
struct Item {
    create: Option<Object<Operation>>,
    index: Option<Object<Operation>>,
}

#[derive(Deserialize)]
struct Operation {
    status: u16,
    #[serde(default)]
    error: Option<Value>,
}

impl Splitter {
    fn new(items: u32) -> Splitter {
        let of_items = (items as usize).saturating_mul(OUTSIDE_BYTES_PER_ITEM);
        Splitter { outside_max: OUTSIDE_BYTES_MAX.saturating_add(of_items), ..Splitter::default() }
    }

    /// Processes the next bytes, and calls `each` with every item that ends in them.
    fn take(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), UnusableAnswer> {
        while let Some((first, rest)) = bytes.split_first() {
            let left = bytes.len();
            bytes = match self.string.take() {
                Some(string) => self.string(string, bytes)?,
                None => {
                    self.byte(*first, &mut each)?;
                    rest
                }
            };
            self.read += left - bytes.len();
            self.check_size()?;
        }
        Ok(())
    }

    /// Processes a byte outside of strings.
    fn byte(
        &mut self,
        byte: u8,
        each: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        match byte {
            b'"' => self.string = Some(CutString::default()),
            b'{' | b'[' => {
                self.in_items |= byte == b'[' && self.depth == 1 && self.is_before_items();
                self.depth += 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.push(byte);
        if self.ends_item(byte) {
            each(&self.item)?;
            self.item.clear();
            self.read = 0;
            self.outside.extend_from_slice(PLACEHOLDER);
        }
        self.in_items &= self.depth > 1;
        Ok(())
    }

    /// Processes the available part of a string. Returns the bytes after it.
    fn string<'b>(
        &mut self,
        mut string: CutString,
        bytes: &'b [u8],
    ) -> Result<&'b [u8], UnusableAnswer> {
        let escaped = usize::from(std::mem::take(&mut self.is_escaped));
        let end = memchr::memchr2(b'"', b'\\', &bytes[escaped..]).map(|end| escaped + end);
        let is_closed = end.is_some_and(|end| bytes[end] == b'"');
        self.is_escaped = end.is_some() && !is_closed;
        let taken = match end {
            Some(end) => end + usize::from(self.is_escaped),
            None => bytes.len(),
        };
        let (inside, rest) = bytes.split_at(taken);
        string.take(inside, self.part())?;
        if !is_closed {
            self.string = Some(string);
            return Ok(rest);
        }
        string.close()?;
        self.part().push(b'"');
        Ok(&rest[1..])
    }

    /// Returns an error if a part has become too long.
    fn check_size(&self) -> Result<(), UnusableAnswer> {
        let too_long = |part: &str, bytes: usize| {
            let bound = bytes >> 10;
            let text = format!("{part} exceeds the maximum of {bound} KiB");
            Err(UnusableAnswer { is_too_long: true, text })
        };
        if self.read > READ_BYTES_MAX {
            return too_long("the response up to the end of its next item", READ_BYTES_MAX);
        }
        if self.item.len() > ITEM_BYTES_MAX {
            return too_long(
                "an item in the response, with its strings truncated,",
                ITEM_BYTES_MAX,
            );
        }
        if self.outside.len() > self.outside_max {
            return too_long("the response outside its items", self.outside_max);
        }
        Ok(())
    }

    fn push(&mut self, byte: u8) {
        // The bracket that closes an item belongs to the item.
        let part = if self.ends_item(byte) { &mut self.item } else { self.part() };
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        if !is_space(&byte) || !part.last().is_some_and(is_space) {
            part.push(byte);
        }
    }

    /// Returns whether `byte`, after which the depth is `self.depth`, closes an element of the
    /// `items` array.
    fn ends_item(&self, byte: u8) -> bool {
        self.in_items && self.depth == 2 && matches!(byte, b'}' | b']')
    }

    /// Returns the buffer to which the current byte belongs.
    fn part(&mut self) -> &mut Vec<u8> {
        if self.in_items && self.depth > 2 { &mut self.item } else { &mut self.outside }
    }

    /// Returns whether an array that begins here is the value of `items`.
    fn is_before_items(&self) -> bool {
        let before = self.outside.trim_ascii_end().strip_suffix(b":");
        let before = before.and_then(|before| before.trim_ascii_end().strip_suffix(b"\"items\""));
        // Another name may end with these bytes, such as `"x\"items"`.
        before.is_some_and(|before| matches!(before.trim_ascii_end(), [.., b'{' | b',']))
    }
}

impl BulkAnswer {
    /// Creates a reader for the response to a request with this many events.
    pub fn new(expected: u64) -> BulkAnswer {
        let expected = expected as u32;
        BulkAnswer { expected, splitter: Splitter::new(expected), ..BulkAnswer::default() }
    }
}

impl BodyReader for BulkAnswer {
    fn read(&mut self, bytes: &[u8]) -> bool {
        let BulkAnswer { expected, items, failures, splitter, error } = self;
        let result = splitter.take(bytes, |item| {
            if items == expected {
                return Err(format!(
                    "the response contains more items than the request, which contains {expected}"
                ));
            }
            failures.extend(judge(item, *items)?);
            *items += 1;
            Ok(())
        });
        *error = error.take().or(result.err());
        error.is_none()
    }
}

impl Answer for BulkAnswer {
    fn judge(self: Box<Self>, is_complete: bool) -> Result<Vec<Failure>, UnusableAnswer> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if !is_complete {
            return Err(UnusableAnswer::ended_early());
        }
        let outside: Outside = object(&self.splitter.outside)
            .map_err(|error| format!("the response is not a bulk response: {error}"))?;
        let items = outside.items.len();
        if items != self.items as usize || self.items != self.expected {
            return Err(format!(
                "the response contains {items} items, but the request contains {}",
                self.expected
            )
            .into());
        }
        Ok(self.failures)
    }
}

/// Decodes an object. Checks the UTF-8 first, because serde_json does not check strings that it
/// skips.
fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let object = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let Object(object) = object;
    Ok(object)
}

/// Judges an item. Returns `None` if the endpoint accepted the event.
fn judge(item: &[u8], position: u32) -> Result<Option<Failure>, String> {
    let Item { create, index } =
        object(item).map_err(|error| format!("an item in the response is invalid: {error}"))?;
    let is_create = create.is_some();
    let Object(Operation { status, error }) = create
        .or(index)
        .ok_or("an item in the response is for an operation other than `create` or `index`")?;
    if (200..300).contains(&status) || status == 409 && is_create {
        return Ok(None);
    }
    let text = |key: &str| error.as_ref().and_then(|error| error.get(key)?.as_str());
    let kind = text("type").unwrap_or_default();
    let judgement = judgement(status, kind, text("reason").unwrap_or_default());
    Ok(Some(Failure { position, judgement, reason: reason(status, error.as_ref()) }))
}

/// Returns the judgement of an event that the endpoint did not accept.
fn judgement(status: u16, kind: &str, reason: &str) -> Judgement {
    match status {
        // A read-only or closed index, a missing permission.
        401 | 403 => Judgement::Blocked,
        _ if kind == "cluster_block_exception" => Judgement::Blocked,
        // The cluster may have reached its limit of shards.
        400 if kind == "validation_exception" && reason.contains("shards open") => {
            Judgement::Blocked
        }
        // With the `index` action, 409 means that another writer was faster.
        408 | 409 | 425 | 429 | 500.. => Judgement::Later,
        _ if kind == "es_rejected_execution_exception" => Judgement::Later,
        _ => Judgement::Refused,
    }
}

/// Describes a failure: status, type and reason, on one line.
fn reason(status: u16, error: Option<&Value>) -> String {
    let text = |key: &str| error.and_then(|error| error.get(key)?.as_str());
    let mut reason = match (text("type"), text("reason"), error) {
        (Some(kind), Some(reason), _) => format!("{status} {kind}: {reason}"),
        (Some(kind), None, _) => format!("{status} {kind}"),
        (None, _, Some(Value::String(error))) => format!("{status} {error}"),
        _ => status.to_string(),
    };
    if let Some(cause) = error.and_then(|error| error.get("caused_by")?.get("reason")?.as_str()) {
        reason = format!("{reason}: {cause}");
    }
    // The server may quote headers, the address, and values of the event.
    let reason = excerpt(mask_answer(&reason).as_bytes(), REASON_BYTES_MAX);
    reason.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
