//! Responses of the API.

use http_body_util::Full;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use millstream_model::secrets;
use serde::Serialize;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

const JSON: &str = "application/json";

/// A response with its body.
pub type Reply = Response<Body>;

/// The body of a response.
pub enum Body {
    /// A complete body.
    Whole(Full<Bytes>),
    /// Lines, until the client disconnects.
    Lines(Lines),
}

/// The lines of a tap as a response body.
pub struct Lines {
    chunks: mpsc::Receiver<Bytes>,
    /// Keeps the tap counted toward the maximum while the connection exists.
    _permit: OwnedSemaphorePermit,
}

impl Lines {
    /// Creates the body from chunks of lines. The tap counts toward the maximum until the body
    /// drops the permit.
    pub fn new(chunks: mpsc::Receiver<Bytes>, permit: OwnedSemaphorePermit) -> Lines {
        Lines { chunks, _permit: permit }
    }
}

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.chunks.poll_recv(cx).map(|chunk| chunk.map(|chunk| Ok(Frame::data(chunk))))
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(body) => Pin::new(body).poll_frame(cx),
            Body::Lines(lines) => Pin::new(lines).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(body) => body.is_end_stream(),
            Body::Lines(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(body) => body.size_hint(),
            Body::Lines(_) => SizeHint::default(),
        }
    }
}

/// Returns an error response.
pub fn error(status: StatusCode, text: &str) -> Reply {
    as_json(status, &json!({ "error": text }))
}

/// Returns a JSON response.
pub fn as_json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_string(value) {
        Ok(text) => reply(status, JSON, (escaped(masked(text)) + "\n").into()),
        Err(error) => {
            reply(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", error.to_string().into())
        }
    }
}

/// Escapes control characters that JSON allows in strings, because a terminal may interpret them as
/// commands.
fn escaped(text: String) -> String {
    if !text.contains(char::is_control) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character.is_control() {
            true => escaped += &format!("\\u{:04x}", u32::from(character)),
            false => escaped.push(character),
        }
    }
    escaped
}

/// Masks secrets in a JSON text. The result is valid JSON, whatever the secrets contain.
fn masked(text: String) -> String {
    match secrets::mask(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(masked) => match serde_json::from_str::<Value>(&text) {
            Ok(mut value) => {
                mask_strings(&mut value);
                value.to_string()
            }
            Err(_) => masked,
        },
    }
}

/// Masks secrets in the strings of a value. Member names are not masked, because they come from the
/// API or are component ids.
fn mask_strings(value: &mut Value) {
    match value {
        Value::String(text) => *text = secrets::mask(text).into_owned(),
        Value::Array(items) => items.iter_mut().for_each(mask_strings),
        Value::Object(members) => members.values_mut().for_each(mask_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a response.
pub fn reply(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = with_headers(content_type, Body::Whole(Full::new(body)));
    *reply.status_mut() = status;
    reply
}

/// Returns a response that lasts until the client disconnects.
pub fn stream(content_type: &'static str, lines: Lines) -> Reply {
    with_headers(content_type, Body::Lines(lines))
}

fn with_headers(content_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json_whatever_is_masked_and_has_no_control_characters() {
        secrets::remember(secrets::Origin::Configuration, [r#"","b":"#, "of-json-1"]);
        let value = json!({ "a": "of-json-1\u{9b}", "b": "\u{1b}" });
        let text = escaped(masked(value.to_string()));
        assert!(!text.contains(char::is_control), "{text:?}");
        let expected = json!({ "a": "REDACTED\u{9b}", "b": "\u{1b}" });
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    }
}
