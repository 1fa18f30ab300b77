//! Line endings within multi-line events.

use memchr::{memchr, memmem};
use millstream_framing::Event;

/// Replaces CRLF with LF within events, in place, which shortens the events. `block` contains the
/// text of the events, in order.
pub(super) fn normalize(block: &mut [u8], events: &mut [Event]) {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return };
    if memchr(b'\r', &block[first.start as usize..last.end as usize]).is_none() {
        return;
    }
    for event in events {
        let text = &mut block[event.start as usize..event.end as usize];
        event.end = event.start + without_carriage_returns(text) as u32;
    }
}

/// Closes the gaps that the removed carriage returns leave in the text; returns the new length.
fn without_carriage_returns(text: &mut [u8]) -> usize {
    let ends: Vec<usize> = memmem::find_iter(text, b"\r\n").collect();
    let mut written = ends.first().copied().unwrap_or(text.len());
    for (index, end) in ends.iter().enumerate() {
        let next = ends.get(index + 1).copied().unwrap_or(text.len());
        text.copy_within(end + 1..next, written);
        written += next - (end + 1);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_within_events_are_line_feeds() {
        let text = b"a\r\n\r\nb\r \xC3\r\r\nc|d|e\r\n";
        let at = |start, end| Event {
            start,
            end,
            offset: 0,
            next: 0,
            time_ns: 0,
            stream: None,
            is_partial: false,
        };
        let mut events = [at(0, 13), at(14, 15), at(16, 19)];
        let mut block = text.to_vec();
        normalize(&mut block, &mut events);
        let texts = events.map(|event| &block[event.start as usize..event.end as usize]);
        assert_eq!(texts, [&b"a\n\nb\r \xC3\r\nc"[..], b"d", b"e\n"]);
    }
}
