//! Finds event ids in the header or the text of a record.

/// Maximum length of an id that is used, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Maximum distance of an event's metadata from its end, in bytes.
const METADATA_BYTES_MAX: usize = 1024;

/// Returns the id in a header. It must be printable ASCII without quotes and backslashes, so that
/// it is the same text in every format.
pub fn of_header(value: &[u8]) -> Option<&[u8]> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let is_id = !value.is_empty() && value.len() <= ID_BYTES_MAX && value.iter().all(is_plain);
    is_id.then_some(value)
}

/// Returns the id in the metadata of a JSON event that Millstream encoded: the `id` member in the
/// last member `meta` of the object. The form of the id is checked, because the text may be
/// anything.
pub fn of_metadata(event: &[u8]) -> Option<&[u8]> {
    const META: &[u8] = b"\"meta\":{";
    let event = event.trim_ascii_end();
    if event.first() != Some(&b'{') || !event.ends_with(b"}}") {
        return None;
    }
    let tail = &event[event.len().saturating_sub(METADATA_BYTES_MAX)..];
    let at = memchr::memmem::rfind(tail, META)?;
    // A quote within a string is escaped, so this quote begins a key.
    let members = &tail[at + META.len()..tail.len() - 1];
    member(members.strip_suffix(b"}")?, b"id").filter(|id| is_own(id))
}

/// Returns the string member `key` of flat members such as `"a":"b","c":1`; `None` if they are not
/// flat.
fn member<'a>(members: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let (mut rest, mut found) = (members, None);
    while !rest.is_empty() {
        let (name, after) = text(rest)?;
        let value = after.strip_prefix(b":")?;
        rest = match text(value) {
            Some((value, after)) => {
                if name == key {
                    found = Some(value);
                }
                after
            }
            None => {
                let len = value.iter().position(|b| *b == b',').unwrap_or(value.len());
                let is_flat = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'+');
                value[..len].iter().all(is_flat).then_some(&value[len..])?
            }
        };
        if !rest.is_empty() {
            rest = rest.strip_prefix(b",")?;
        }
    }
    found
}

/// Splits a JSON string off the front. The string is returned without its quotes.
fn text(json: &[u8]) -> Option<(&[u8], &[u8])> {
    let json = json.strip_prefix(b"\"")?;
    let mut at = 0;
    loop {
        match json.get(at)? {
            b'"' => return Some((&json[..at], &json[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Returns whether this is an id that Millstream assigned: `FILE_ID-OFFSET`, possibly with
/// ordinals.
fn is_own(id: &[u8]) -> bool {
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let mut parts = id.split(|byte| *byte == b'-');
    let origin = parts.next().unwrap_or_default();
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let mut numbers = 0;
    let mut is_rest = true;
    for part in parts {
        numbers += 1;
        is_rest &= part.split(|byte| *byte == b'.').all(is_number);
    }
    id.len() <= ID_BYTES_MAX
        && origin.len() == 16
        && origin.iter().all(is_hex)
        && is_rest
        && (1..=2).contains(&numbers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{Seed, TestSize};

    const ID: &str = "00000000deadbeef-17";

    fn of(text: &str) -> Option<&str> {
        of_metadata(text.as_bytes()).map(|id| std::str::from_utf8(id).unwrap())
    }

    #[test]
    fn the_id_of_an_event_of_millstream_is_found() {
        let event = |id: &str| {
            format!(
                r#"{{"timestamp":"t","message":"m","meta":{{"host":"a","offset":17,"id":"{id}"}}}}"#
            )
        };
        for id in [ID, "00000000deadbeef-17-2", "00000000deadbeef-17-2.3"] {
            assert_eq!(of(&event(id)), Some(id));
            assert_eq!(of(&(event(id) + "\n")), Some(id));
        }
        assert_eq!(of(&format!(r#"{{"meta":{{"id":"{ID}"}}}}"#)), Some(ID));
    }

    #[test]
    fn what_looks_like_an_id_elsewhere_is_not_one() {
        let hostile = [
            format!(r#"{{"message":"\"meta\":{{\"id\":\"{ID}\"}}}}"#),
            format!(r#"{{"a":{{"meta":{{"id":"{ID}"}}}}}}"#),
            format!(r#"{{"meta":{{"a":{{"id":"{ID}"}}}}}}"#),
            format!(r#"{{"meta":{{"text":"\",\"id\":\"{ID}"}}}}"#),
            format!(r#"{{"meta":{{"id":"{ID}","x":[1]}}}}"#),
            format!(r#"{{"meta":{{"id":"{ID}"}},"x":{{}}}}"#),
            format!(r#"["meta":{{"id":"{ID}"}}}}"#),
            r#"{"meta":{"id":"other"}}"#.to_owned(),
            r#"{"meta":{"id":"00000000deadbeef"}}"#.to_owned(),
            r#"{"meta":{"id":"00000000deadbeef-"}}"#.to_owned(),
            r#"{"meta":{"id":"00000000DEADBEEF-1"}}"#.to_owned(),
            r#"{"meta":{"id":"00000000deadbeef-1-2-3"}}"#.to_owned(),
            r#"{"meta":{"id":}}"#.to_owned(),
            r#"{"meta":{"id":"\"#.to_owned(),
            "}}".to_owned(),
            String::new(),
        ];
        for text in &hostile {
            assert_eq!(of(text), None, "{text}");
        }
    }

    /// Mutated events.
    const EVENTS: TestSize = TestSize { gate: 20_000, long: 1_000_000 };

    #[test]
    fn any_bytes_are_safe() {
        let event = format!(r#"{{"m":"x","meta":{{"host":"a\\","offset":17,"id":"{ID}"}}}}"#);
        let mut random = Seed::of_test_or(7).random();
        for _ in random.rounds(EVENTS) {
            let mut bytes = event.clone().into_bytes();
            for _ in 0..random.usize(..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = *random.choice(b"\"\\{}:,x\xff").unwrap();
            }
            bytes.truncate(random.usize(..=bytes.len()));
            assert!(of_metadata(&bytes).is_none_or(is_own));
        }
    }

    #[test]
    fn a_header_must_be_a_plain_text() {
        assert_eq!(of_header(b"any-id_1:2"), Some(&b"any-id_1:2"[..]));
        let bad: [&[u8]; 5] = [b"", b"a b", b"a\"b", b"\xff", &[b'a'; 129]];
        assert!(bad.iter().all(|value| of_header(value).is_none()));
    }
}
