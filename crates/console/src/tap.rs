//! Samples of the events at an output: `/api/tap`.
//!
//! The agent renders the lines; this module sends them until the client disconnects. Lines that the
//! client does not read are not rendered.

use crate::reply::{Lines, Reply, error, stream};
use hyper::StatusCode;
use hyper::body::Bytes;
use std::str::FromStr;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Maximum number of taps at a time. Each tap keeps a connection and up to a few megabytes.
pub const TAPS_MAX: usize = 8;

/// The parameters of a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapRequest {
    /// A component id, or `ID.OUTPUT`.
    pub id: String,
    /// Number of events after which the tap ends.
    pub limit: Option<u64>,
    /// Expression that selects the events to show.
    pub condition: Option<String>,
    /// Format of an event.
    pub format: TapFormat,
    /// Whether events are shown without redaction.
    pub raw: bool,
    /// Whether to show the path of each event from its source to its sinks.
    pub follow: bool,
}

/// Format of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapFormat {
    /// One JSON object per line.
    Json,
    /// The message, for human readers.
    Text,
}

/// The reason why a tap cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapRefusal {
    /// The id does not exist.
    Unknown(String),
    /// The condition is invalid.
    Invalid(String),
    /// The tap is currently not possible.
    Unavailable(String),
}

impl TapRefusal {
    /// Returns the reason.
    pub fn text(&self) -> &str {
        let (TapRefusal::Unknown(text) | TapRefusal::Invalid(text) | TapRefusal::Unavailable(text)) =
            self;
        text
    }
}

/// Opens a tap and returns its lines in chunks. It may block while it compiles a condition.
pub type OpenTap = dyn Fn(TapRequest) -> Result<mpsc::Receiver<Bytes>, TapRefusal> + Send + Sync;

/// The taps of an agent.
pub struct TapService {
    open: Arc<OpenTap>,
    places: Arc<Semaphore>,
}

impl TapService {
    /// Creates the service; `open` opens each tap.
    pub fn new(open: Arc<OpenTap>) -> TapService {
        TapService { open, places: Arc::new(Semaphore::new(TAPS_MAX)) }
    }

    /// Opens the tap that a query requests.
    pub async fn answer(&self, query: &str) -> Reply {
        let request: TapRequest = match query.parse() {
            Ok(request) => request,
            Err(text) => return error(StatusCode::BAD_REQUEST, &text),
        };
        let Ok(permit) = self.places.clone().try_acquire_owned() else {
            let text = format!("{TAPS_MAX} taps are open, which is the maximum; close one of them");
            return error(StatusCode::TOO_MANY_REQUESTS, &text);
        };
        let (open, format) = (self.open.clone(), request.format);
        match tokio::task::spawn_blocking(move || open(request)).await {
            Ok(Ok(chunks)) => {
                let content_type = match format {
                    TapFormat::Json => "application/x-ndjson",
                    TapFormat::Text => "text/plain; charset=utf-8",
                };
                stream(content_type, Lines::new(chunks, permit))
            }
            Ok(Err(TapRefusal::Unknown(text))) => error(StatusCode::NOT_FOUND, &text),
            Ok(Err(TapRefusal::Invalid(text))) => error(StatusCode::BAD_REQUEST, &text),
            Ok(Err(TapRefusal::Unavailable(text))) => error(StatusCode::CONFLICT, &text),
            Err(failed) => error(StatusCode::INTERNAL_SERVER_ERROR, &failed.to_string()),
        }
    }
}

impl FromStr for TapRequest {
    type Err = String;

    /// Parses a query.
    fn from_str(query: &str) -> Result<TapRequest, String> {
        let mut request = TapRequest {
            id: String::new(),
            limit: None,
            condition: None,
            format: TapFormat::Json,
            raw: false,
            follow: false,
        };
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value =
                decoded(value).ok_or_else(|| format!("{name}: is not percent-encoded UTF-8"))?;
            match (name, value.as_str()) {
                ("id", _) => request.id = value,
                ("limit", _) => request.limit = Some(limit(&value)?),
                ("where", _) => request.condition = Some(value),
                ("format", "json") => request.format = TapFormat::Json,
                ("format", "text") => request.format = TapFormat::Text,
                ("format", _) => return Err(format!("format: `{value}` is neither json nor text")),
                ("raw", _) => request.raw = flag(name, &value)?,
                ("follow", _) => request.follow = flag(name, &value)?,
                _ => {
                    return Err(format!(
                        "unknown parameter `{name}`; the parameters are id, limit, where, format, \
                         raw and follow"
                    ));
                }
            }
        }
        match request.id.is_empty() {
            true => Err("add ?id= with the id of a component".to_owned()),
            false => Ok(request),
        }
    }
}

fn flag(name: &str, value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| format!("{name}: `{value}` is neither true nor false"))
}

fn limit(value: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|limit| *limit > 0);
    number.ok_or_else(|| {
        "limit is not a whole number greater than 0; use, for example, limit=100".to_owned()
    })
}

/// Decodes a value of a query; `None` if it is invalid.
fn decoded(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_or_its_fault_named() {
        let read: Result<TapRequest, String> = str::parse(
            "id=app.slow&limit=7&where=a%20%3D%3D+%22%C3%A9%22&format=text&raw=true&follow=true",
        );
        let expected = TapRequest {
            id: "app.slow".to_owned(),
            limit: Some(7),
            condition: Some("a == \"é\"".to_owned()),
            format: TapFormat::Text,
            raw: true,
            follow: true,
        };
        assert_eq!(read, Ok(expected));
        for (query, part) in [
            ("", "add ?id="),
            ("id=", "add ?id="),
            ("id=a&limit=0", "limit=100"),
            ("id=a&limit=x", "limit=100"),
            ("id=a&format=xml", "`xml` is neither"),
            ("id=a&raw=1", "raw: `1` is neither"),
            ("id=a&follow=", "follow: `` is neither"),
            ("id=a&wher=b", "`wher`"),
            ("id=%zz", "id: is not"),
            ("id=%ff", "id: is not"),
            ("id=%4", "id: is not"),
        ] {
            let error = query.parse::<TapRequest>().unwrap_err();
            assert!(error.contains(part), "{query}: {error}");
        }
    }
}
