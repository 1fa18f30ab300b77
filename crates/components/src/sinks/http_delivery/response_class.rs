//! Classifies responses by the meaning of their status for the events of a request.

use crate::util::excerpt::excerpt;
use millstream_transport::http::Response;
use millstream_transport::{Pause, retry_after};
use std::time::SystemTime;

/// Maximum number of characters that a message quotes from a response body.
const SHOWN: usize = 200;

/// The class of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseClass {
    /// The endpoint accepted the events.
    Delivered,
    /// Retry later: after the time in `Retry-After`, or after the backoff.
    Later(Pause),
    /// Retry slowly: retries fail until an operator changes the agent or the endpoint.
    Misconfigured,
    /// The endpoint rejected these events.
    Refused {
        /// Whether the total size of the events caused the rejection.
        too_large: bool,
    },
    /// The endpoint does not support this request format.
    UnsupportedFormat,
}

/// Classifies a response by its status and `Retry-After`.
pub fn response_class(response: &Response, now: SystemTime) -> ResponseClass {
    match response.status {
        200..=299 => ResponseClass::Delivered,
        400 | 422 => ResponseClass::Refused { too_large: false },
        413 => ResponseClass::Refused { too_large: true },
        415 => ResponseClass::UnsupportedFormat,
        // Waiting does not help if a method or a version is not implemented.
        501 | 505 => ResponseClass::Misconfigured,
        408 | 425 | 429 | 500..=599 => {
            let header = response.headers.get("retry-after").and_then(|value| value.to_str().ok());
            let wait = header.and_then(|value| retry_after(value, now));
            ResponseClass::Later(wait.map_or(Pause::Backoff, Pause::Requested))
        }
        _ => ResponseClass::Misconfigured,
    }
}

/// Returns the label of the error counter for a status.
pub fn kind(status: u16) -> &'static str {
    match status {
        300..=399 => "redirect",
        401 | 407 => "authentication",
        403 => "authorization",
        404 | 410 => "not_found",
        408 => "timeout",
        429 => "throttled",
        400 | 413 | 415 | 422 => "refused",
        500.. => "server",
        _ => "status",
    }
}

/// Describes a response: its status, what to do about it, and the beginning of its body.
pub fn explain(response: &Response) -> String {
    let mut text = format!("responded {}", response.status);
    if let Some(advice) = advice(response) {
        text = format!("{text} {advice}");
    }
    with_excerpt(text, response)
}

/// Returns the reason for a rejection: the status and the beginning of the body.
pub fn reason(response: &Response) -> String {
    with_excerpt(response.status.to_string(), response)
}

/// Appends the beginning of the response body, which may quote events.
fn with_excerpt(text: String, response: &Response) -> String {
    let excerpt = excerpt(&response.body, 4 * SHOWN);
    // Control characters could move the cursor of a terminal.
    let excerpt = excerpt.split_whitespace().collect::<Vec<_>>().join(" ");
    let excerpt: String = excerpt.chars().filter(|c| !c.is_control()).take(SHOWN).collect();
    if excerpt.is_empty() { text } else { format!("{text}: {excerpt}") }
}

/// Describes the outcome of a rejected request with this many events. `is_read` says whether a
/// component reads rejected events.
pub fn refusal(events: u64, is_read: bool) -> String {
    let end = match is_read {
        true => "passed on to the output `rejected`",
        false => "dropped and counted as `refused`",
    };
    match events {
        0 => "the endpoint rejected a request without events".to_owned(),
        1 => format!("the endpoint rejected an event; it is {end}"),
        _ => format!(
            "the endpoint rejected a request with {events} events; the sink splits the request and \
             resends the parts; an event that is rejected alone is {end}"
        ),
    }
}

fn advice(response: &Response) -> Option<String> {
    Some(match response.status {
        300..=399 => {
            let to = response.headers.get("location").and_then(|to| to.to_str().ok()).map(bare);
            let to = to.map_or(String::new(), |to| format!(" to {to}"));
            format!("(a redirect{to}, which is not followed; configure the final address)")
        }
        401 => "(not authenticated; check `auth`)".to_owned(),
        403 => "(not authorized; check `auth` and its permissions)".to_owned(),
        404 | 410 => "(path not found; check the address)".to_owned(),
        405 | 501 => "(method not supported; check `method` and the address)".to_owned(),
        407 => "(a proxy requires authentication)".to_owned(),
        415 => "(request format not supported; check encoding and compression)".to_owned(),
        _ => return None,
    })
}

/// Strips user, password, query and fragment from an address.
fn bare(uri: &str) -> String {
    let uri = uri.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = uri.split_once("://").map_or(("", uri), |(scheme, rest)| (scheme, rest));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    if scheme.is_empty() { format!("{host}{path}") } else { format!("{scheme}://{host}{path}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use millstream_transport::{HeaderMap, HeaderValue};
    use std::time::Duration;

    fn response(
        status: u16,
        header: Option<(&'static str, &'static str)>,
        body: &'static str,
    ) -> Response {
        let headers =
            header.map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        let headers = headers.into_iter().collect::<HeaderMap>();
        Response { status, headers, body: Bytes::from_static(body.as_bytes()), is_complete: true }
    }

    #[test]
    fn every_status_has_a_class() {
        let class = |status| response_class(&response(status, None, ""), SystemTime::UNIX_EPOCH);
        assert!(
            [200, 201, 202, 204, 299]
                .iter()
                .all(|status| class(*status) == ResponseClass::Delivered)
        );
        let later = [408, 425, 429, 500, 502, 503, 504, 507, 520];
        assert!(later.iter().all(|status| class(*status) == ResponseClass::Later(Pause::Backoff)));
        assert!(
            [400, 422]
                .iter()
                .all(|status| class(*status) == ResponseClass::Refused { too_large: false })
        );
        assert_eq!(class(413), ResponseClass::Refused { too_large: true });
        assert_eq!(class(415), ResponseClass::UnsupportedFormat);
        let slow = [
            100, 300, 301, 302, 307, 308, 401, 402, 403, 404, 405, 407, 410, 418, 451, 501, 505,
            999,
        ];
        assert!(slow.iter().all(|status| class(*status) == ResponseClass::Misconfigured));
    }

    #[test]
    fn retry_after_is_honored() {
        let busy = response(503, Some(("retry-after", "17")), "");
        assert_eq!(
            response_class(&busy, SystemTime::UNIX_EPOCH),
            ResponseClass::Later(Pause::Requested(Duration::from_secs(17)))
        );
        let odd = response(429, Some(("retry-after", "later")), "");
        assert_eq!(
            response_class(&odd, SystemTime::UNIX_EPOCH),
            ResponseClass::Later(Pause::Backoff)
        );
    }

    #[test]
    fn a_refused_single_event_is_not_reported_as_split() {
        let text = |events| refusal(events, false);
        assert!(text(1).contains("it is dropped") && !text(1).contains("split"));
        assert!(text(7).contains("7 events") && text(7).contains("splits the request"));
        assert!(refusal(7, true).contains("`rejected`") && !refusal(7, true).contains("dropped"));
    }

    #[test]
    fn messages_contain_advice_and_no_secret() {
        let to = response(302, Some(("location", "https://me:word@new.example/in?key=1")), "");
        let text = explain(&to);
        assert!(text.contains("302") && text.contains("to https://new.example/in,"), "{text}");
        assert!(!text.contains("word") && !text.contains("key"), "{text}");
        let text = explain(&response(400, None, "out of\n  order\tsample"));
        assert_eq!(text, "responded 400: out of order sample");
        let text = explain(&response(400, None, "not a number: 'ada@example.com'"));
        assert_eq!(text, "responded 400: not a number: '[email]'");
        let text = explain(&response(400, None, "\u{1b}[2Jgone\u{7}\u{9b}1m\0!"));
        assert_eq!(text, "responded 400: [2Jgone1m!");
        let refused = |body| reason(&response(422, None, body));
        assert_eq!((refused("no\nfield x"), refused("")), ("422: no field x".into(), "422".into()));
    }
}
