//! SASL OAUTHBEARER tokens.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum time until the token file is reread, and therefore until a rotated token is used.
const REFRESH: Duration = Duration::from_secs(300);

/// A bearer token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// Text to send to the broker.
    pub text: String,
    /// Name of the client. The broker ignores this name and takes the name from the token.
    pub principal: String,
    /// Time at which the library asks for another token, in milliseconds since 1970.
    pub lifetime_ms: i64,
}

impl Token {
    /// Creates a token; returns `None` if the text is empty. If the token is a JSON Web Token, its
    /// lifetime ends no later than its expiry.
    pub fn new(text: &str) -> Option<Token> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let refresh_ms = (now + REFRESH).as_millis() as i64;
        let claims = text.split('.').nth(1).and_then(base64url);
        let claims = claims.unwrap_or_default();
        let expires_ms = number(&claims, b"\"exp\"").map(|seconds| seconds.saturating_mul(1000));
        (!text.is_empty()).then(|| Token {
            text: text.to_owned(),
            principal: "millstream".to_owned(),
            lifetime_ms: expires_ms.map_or(refresh_ms, |expires| expires.min(refresh_ms)),
        })
    }
}

/// Decodes unpadded Base64 with the URL-safe alphabet.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

/// Returns the whole number that follows a key in a JSON object; `None` if there is none.
fn number(json: &[u8], key: &[u8]) -> Option<i64> {
    let at = json.windows(key.len()).position(|window| window == key)?;
    let rest = std::str::from_utf8(&json[at + key.len()..]).ok()?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_again_when_it_expires_and_at_the_latest_after_five_minutes() {
        // {"sub":"agent","exp":1700000000}
        let old = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZ2VudCIsImV4cCI6MTcwMDAwMDAwMH0.";
        assert_eq!(Token::new(old).unwrap().lifetime_ms, 1_700_000_000_000);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
        let opaque = Token::new("no-json-web-token").unwrap().lifetime_ms - now;
        assert!((299_000..=300_000).contains(&opaque), "{opaque}");
        assert_eq!(Token::new(""), None);
    }

    #[test]
    fn base64_and_numbers_of_any_text_are_decoded_or_refused() {
        assert_eq!(base64url("-_8").as_deref(), Some(&[0xfb, 0xff][..]));
        assert_eq!(base64url("a b"), None);
        assert_eq!(number(b"{\"exp\" : 12}", b"\"exp\""), Some(12));
        assert_eq!(number(b"{\"exp\":\"12\"}", b"\"exp\""), None);
        assert_eq!(number(b"{\"exp\"", b"\"exp\""), None);
    }
}
