//! Excerpts of events and responses in the agent's messages.

use millstream_detect::{Detector, Detectors};
use std::sync::LazyLock;

/// Maximum number of bytes to search. The limit exceeds any excerpt, so that a secret is found even
/// if the excerpt ends in the middle of it.
const SEARCHED_BYTES_MAX: usize = 4 << 10;

/// Detectors that the `redact` transform uses by default.
static DETECTORS: LazyLock<Detectors> = LazyLock::new(|| {
    let detectors = [Detector::Card, Detector::Email, Detector::Token, Detector::Key];
    Detectors::new(&detectors, Vec::new())
});

/// Returns the first bytes of `text`, at most `bytes_max`. Text that the `redact` transform hides
/// by default is replaced with the names of the detectors, because log messages may go to different
/// destinations than events.
pub fn excerpt(text: &[u8], bytes_max: usize) -> String {
    let text = &text[..text.len().min(SEARCHED_BYTES_MAX)];
    let mut hits = Vec::new();
    DETECTORS.find(text, DETECTORS.mask(), &mut hits);
    let (mut shown, mut at) = (String::new(), 0);
    for hit in hits {
        shown += &String::from_utf8_lossy(&text[at..hit.start]);
        shown += &format!("[{}]", Detector::ALL[hit.what].name());
        at = hit.end;
    }
    shown += &String::from_utf8_lossy(&text[at..]);
    shown.truncate(shown.floor_char_boundary(bytes_max));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_have_no_secrets_even_where_they_are_cut() {
        let text = b"login of ada@example.com password=hunter22 card 4532015112830366 \xFF";
        assert_eq!(excerpt(text, 200), "login of [email] password=[key] card [card] \u{fffd}");
        assert_eq!(excerpt(b"card 4532015112830366", 12), "card [card]");
        assert_eq!(excerpt("aä".as_bytes(), 2), "a");
        assert_eq!(excerpt(&[b'x'; SEARCHED_BYTES_MAX + 1], 3), "xxx");
    }
}
