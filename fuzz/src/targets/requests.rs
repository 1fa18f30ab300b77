//! Requests to the API: queries of taps, and bodies of requests for profiles and recorder changes.

use crate::lines::lossy;
use millstream_console::{EventChange, ProfileRequest, TapFormat, TapRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub const WORDS: &[&[u8]] = &[
    b"id=app",
    b"id=app.slow",
    b"&limit=7",
    b"&where=",
    b"&format=json",
    b"&format=text",
    b"&raw=true",
    b"&follow=false",
    b"%20",
    b"%c3%a9",
    b"%ff",
    b"+",
    b"&",
    b"=",
    b"{\"event\":\"cpu\",\"interval\":\"10ms\",\"duration\":\"30s\"}",
    b"\"event\":\"wall\"",
    b"{\"enabled\":true,\"threshold\":\"20ms\",\"rate\":100}",
    b"\"threshold\":null",
    b"\"rate\":\"off\"",
    b"18446744073709551615",
    b"\"1h\"",
    b"\"off\"",
];

/// Checks that a parsed request can be written and parsed again as the same request.
pub fn requests(input: &[u8]) {
    if let Ok(query) = std::str::from_utf8(input)
        && let Ok(request) = query.parse::<TapRequest>()
    {
        assert!(!request.id.is_empty() && request.limit != Some(0), "{request:?}");
        assert_eq!(written(&request).parse(), Ok(request), "{query}");
    }
    is_read_as_written::<ProfileRequest>(input);
    is_read_as_written::<EventChange>(input);
}

/// Returns the query of a request, in which every byte of a text is percent-encoded.
fn written(request: &TapRequest) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let format = if request.format == TapFormat::Json { "json" } else { "text" };
    let id = encoded(&request.id);
    let mut query = format!("id={id}&format={format}&raw={}", request.raw);
    query.push_str(&format!("&follow={}", request.follow));
    if let Some(limit) = request.limit {
        query.push_str(&format!("&limit={limit}"));
    }
    if let Some(condition) = &request.condition {
        query.push_str(&format!("&where={}", encoded(condition)));
    }
    query
}

fn is_read_as_written<T: DeserializeOwned + Serialize>(input: &[u8]) {
    let Ok(request) = serde_json::from_slice::<T>(input) else { return };
    let text = serde_json::to_string(&request).expect("a request that was read");
    let again: T = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{} is written as {text}: {error}", lossy(input)));
    assert_eq!(serde_json::to_string(&again).ok(), Some(text), "{}", lossy(input));
}
