//! The `Retry-After` header: how long an endpoint asks clients to wait.

use std::time::{Duration, SystemTime};

/// Maximum time that an endpoint can ask clients to wait. Longer requests are reduced to this time.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// Parses a header value, which is a number of seconds or an HTTP date. Returns `None` for any
/// other value, and zero for a date in the past.
pub fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.bytes().all(|byte| byte.is_ascii_digit()) && !value.is_empty() {
        true => Duration::from_secs(value.parse().unwrap_or(u64::MAX)),
        false => httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_seconds_and_dates_with_a_cap() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let seconds = |text: &str| retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("0"), Some(0));
        assert_eq!(seconds(" 120 "), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:50:00 GMT"), Some(23));
        assert_eq!(seconds("Sunday, 06-Nov-94 08:50:00 GMT"), Some(23));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:36 GMT"), Some(0));
        assert_eq!(seconds("99999999999999999999999"), Some(600));
        assert_eq!(seconds("Mon, 06 Nov 2034 08:49:36 GMT"), Some(600));
        for bad in ["", "soon", "-1", "1.5"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }
}
