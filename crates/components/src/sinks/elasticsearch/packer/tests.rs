use super::*;
use millstream_compression::Algorithm;

/// Returns the two lines of an event.
fn event(number: usize) -> String {
    format!("{{\"create\":{{\"_id\":\"{number}\"}}}}\n{{\"n\":{}}}\n", "7".repeat(number + 1))
}

fn payload(numbers: Range<usize>) -> EncodedPayload {
    let text: String = numbers.clone().map(event).collect();
    EncodedPayload {
        bytes: text.len() as u64,
        parts: vec![Bytes::from(text)],
        events: numbers.len() as u64,
        routing: None,
        units_before: 0,
        continues: false,
    }
}

fn packer() -> DocumentPacker {
    DocumentPacker::new(Compressor::new(Algorithm::None, None))
}

fn text(request: &Request) -> String {
    String::from_utf8(request.body.concat()).unwrap()
}

#[test]
fn any_events_of_a_request_are_selected_over_all_parts() {
    let mut packer = packer();
    let requests = packer.pack(vec![payload(0..3), payload(3..3), payload(3..5), payload(5..9)]);
    let [request] = &requests[..] else { panic!("one request") };
    assert_eq!(text(request), (0..9).map(event).collect::<String>());
    for set in 0..1u32 << 9 {
        let positions: Vec<u32> = (0..9).filter(|at| set & 1 << at != 0).collect();
        let selected = packer.select(request, &positions);
        let expected: String = positions.iter().map(|at| event(*at as usize)).collect();
        assert_eq!(text(&selected), expected);
        assert_eq!(selected.events.iter().collect::<Vec<_>>(), positions);
        // The same for a selection of a selection.
        let odd: Vec<u32> = (0..positions.len() as u32).filter(|at| at % 2 == 1).collect();
        let again = packer.select(&selected, &odd);
        let expected: String =
            odd.iter().map(|at| event(positions[*at as usize] as usize)).collect();
        assert_eq!(text(&again), expected);
    }
    assert_eq!(packer.record_at(request, 4), Record::json("{\"n\":77777}"));
}

#[test]
fn a_request_is_halved_down_to_single_events() {
    let mut packer = packer();
    let mut requests = packer.pack(vec![payload(0..5)]);
    let mut singles = Vec::new();
    while let Some(request) = requests.pop() {
        let lines = text(&request);
        assert_eq!(lines.lines().count() as u64, 2 * request.events.len());
        let events: Vec<u32> = request.events.iter().collect();
        match packer.split(request) {
            Some(smaller) => requests.extend(smaller),
            None => singles.push((events, lines)),
        }
    }
    singles.reverse();
    assert_eq!(singles, (0..5).map(|at| (vec![at as u32], event(at))).collect::<Vec<_>>());
}

#[test]
fn a_payload_is_cut_between_events_by_bytes_and_count() {
    let whole = payload(0..6);
    let capacity = |bytes, events, is_empty| Capacity { bytes, events, is_empty };
    let cut = |capacity| {
        let (first, rest) = DocumentPacker::cut(&whole, capacity)?;
        assert_eq!([first.parts.concat(), rest.parts.concat()].concat(), whole.parts.concat());
        assert_eq!((first.bytes + rest.bytes, first.events + rest.events), (whole.bytes, 6));
        assert!(first.continues && !rest.continues);
        Some(first.events)
    };
    assert_eq!(cut(capacity(u64::MAX, 4, false)), Some(4));
    assert_eq!(cut(capacity(event(0).len() as u64, 9, false)), Some(1));
    assert_eq!(cut(capacity(event(0).len() as u64 - 1, 9, false)), None);
    assert_eq!(cut(capacity(1, 9, true)), Some(1), "the first event goes whatever its size");
    assert_eq!(cut(capacity(u64::MAX, 6, true)), None);
}
