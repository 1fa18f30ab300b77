use super::*;
use millstream_testkit_random::{TestSize, property};
use proptest::prelude::*;

/// Appends an event with these lengths in its header.
fn push(bytes: &mut Vec<u8>, time_ns: i64, message: &[u8], members: &[u8]) {
    bytes.extend_from_slice(&time_ns.to_le_bytes());
    bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(members.len() as u32).to_le_bytes());
    bytes.extend_from_slice(message);
    bytes.extend_from_slice(members);
}

fn one(message: &[u8], members: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, 7, message, members);
    bytes
}

fn events(chunk: &Chunk) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some((event, next)) = chunk.event_at(at) {
        found.push((event.time_ns, event.message.to_vec(), event.members.to_vec()));
        at = next;
    }
    found
}

#[test]
fn events_are_returned_in_their_order() {
    let mut bytes = one("käse".as_bytes(), br#""a":1,"b":{"c":[true, null]},"d":"x\"y""#);
    push(&mut bytes, crate::TIME_UNKNOWN, b"", b"");
    push(&mut bytes, -1, b"last", br#""":0"#);
    let chunk = Chunk::new(bytes, 3).unwrap();
    let found = events(&chunk);
    assert_eq!((chunk.events(), found.len()), (3, 3));
    assert_eq!((found[0].0, &found[0].1[..]), (7, "käse".as_bytes()));
    assert_eq!(found[0].2, br#""a":1,"b":{"c":[true, null]},"d":"x\"y""#);
    assert_eq!(found[1], (crate::TIME_UNKNOWN, vec![], vec![]));
    assert_eq!(found[2], (-1, b"last".to_vec(), br#""":0"#.to_vec()));
    assert_eq!(Chunk::new(Vec::new(), 0).map(|chunk| events(&chunk).len()), Ok(0));
}

#[test]
fn an_event_that_is_cut_refuses_the_chunk() {
    let whole = [one(b"first", b""), one(b"second", br#""a":1"#)].concat();
    let first = one(b"first", b"").len();
    for len in (1..whole.len()).filter(|len| *len != first) {
        let cut = Chunk::new(whole[..len].to_vec(), 2);
        assert_eq!(cut, Err(InvalidChunk::Cut), "{len} of {} bytes", whole.len());
    }
    for field in [MESSAGE_BYTES, MEMBERS_BYTES] {
        let mut huge = whole.clone();
        huge[field..field + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Chunk::new(huge, 2), Err(InvalidChunk::Cut));
    }
}

#[test]
fn another_number_of_events_refuses_the_chunk() {
    let bytes = [one(b"first", b""), one(b"second", b"")].concat();
    for events in [0, 1, 3, -1, i64::MAX] {
        assert_eq!(Chunk::new(bytes.clone(), events), Err(InvalidChunk::Events));
    }
}

#[test]
fn texts_that_are_not_utf8_or_json_refuse_the_chunk() {
    let message = |text: &[u8]| Chunk::new(one(text, b""), 1).err();
    assert_eq!(message(b"\xFF"), Some(InvalidChunk::Message));
    assert_eq!(message(b"a\xC3"), Some(InvalidChunk::Message));
    assert_eq!(message(b"a line break\nis text"), None);
    let wrong: &[&[u8]] = &[
        b"1",
        b",",
        br#""a""#,
        br#""a":"#,
        br#""a":1,"#,
        br#","a":1"#,
        br#""a":NaN"#,
        br#""a":'x'"#,
        br#""a": 1"#,
        br#""a" :1"#,
        br#""a":1, "b":2"#,
        br#""a":1}"#,
        br#""a":1},{"b":2"#,
        br#"{"a":1}"#,
        b"\"a\":\"\xFF\"",
        b"\"a\":\"x\ny\"",
        b"\"a\":\n1",
    ];
    for members in wrong {
        let found = Chunk::new(one(b"m", members), 1).err();
        let text = String::from_utf8_lossy(members);
        assert_eq!(found, Some(InvalidChunk::Members), "{text}");
    }
}

#[test]
fn one_wrong_event_refuses_the_whole_chunk() {
    let right = one(b"right", br#""a":1"#);
    let bytes = [&right[..], &one(b"wrong", b"x"), &right].concat();
    assert_eq!(Chunk::new(bytes, 3), Err(InvalidChunk::Members));
}

#[test]
fn a_text_has_a_limit() {
    let longest = vec![b'x'; TEXT_BYTES_MAX];
    assert_eq!(Chunk::new(one(&longest, b""), 1).map(|chunk| chunk.events()), Ok(1));
    let longer = vec![b'x'; TEXT_BYTES_MAX + 1];
    assert_eq!(Chunk::new(one(&longer, b""), 1), Err(InvalidChunk::TooLong));
    assert_eq!(Chunk::new(vec![0; CHUNK_BYTES_MAX + 1], 1), Err(InvalidChunk::TooLong));
}

/// Number of cases per property.
const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

proptest! {
    #![proptest_config(property(CASES))]

    #[test]
    fn any_bytes_are_refused_or_are_their_events(
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(b'"'), any::<u8>()], 0..200),
        count in 0i64..6,
    ) {
        if let Ok(chunk) = Chunk::new(bytes.clone(), count) {
            let mut again = Vec::new();
            events(&chunk).iter().for_each(|(time, text, fields)| push(&mut again, *time, text, fields));
            prop_assert_eq!(events(&chunk).len() as i64, count);
            prop_assert_eq!(again, bytes);
        }
    }

    #[test]
    fn any_changed_byte_is_refused_or_keeps_the_texts_valid(at in 0usize..64, byte in any::<u8>()) {
        let mut bytes = [one(b"first", br#""a":1,"b":"x""#), one(b"other", b"")].concat();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(chunk) = Chunk::new(bytes, 2) {
            for (_, message, members) in events(&chunk) {
                prop_assert!(str::from_utf8(&message).is_ok());
                let object = [b"{", &members[..], b"}"].concat();
                let parsed = serde_json::from_slice::<serde_json::Value>(&object);
                prop_assert!(parsed.is_ok());
            }
        }
    }
}
