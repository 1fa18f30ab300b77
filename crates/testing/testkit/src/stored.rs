//! Payloads as read from disk, and damaged bytes.

use bytes::Bytes;
use millstream_model::{Payload, RoutingError, Sink};

/// Returns the routing of a payload in its disk form; `None` without a routing.
pub fn written_routing(payload: &Payload) -> Option<Vec<u8>> {
    let routing = payload.routing.as_ref()?;
    let mut out = Vec::new();
    routing.write(&mut out);
    Some(out)
}

/// Returns the bytes and numbers of a payload as they are read from disk, without the routing.
pub fn stored(payload: &Payload) -> Payload {
    let mut stored = Payload::new(payload.events);
    stored.parts = payload.parts.iter().map(|part| Bytes::copy_from_slice(part)).collect();
    stored.bytes = payload.bytes;
    stored
}

/// Returns a payload as another process reads it from disk, with the routing that `sink` reads.
///
/// # Errors
///
/// Returns an error if the sink cannot read the routing.
pub fn reread(payload: &Payload, sink: &dyn Sink) -> Result<Payload, RoutingError> {
    let mut read = stored(payload);
    if let Some(routing) = written_routing(payload) {
        read.routing = sink.read_routing(&routing, &read)?;
    }
    Ok(read)
}

/// Iterates over damaged forms of bytes: every prefix, every change of one byte, and one additional
/// byte.
pub fn damaged(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<'_> {
    let beginnings = (0..bytes.len()).map(|length| bytes[..length].to_vec());
    let changed = (0..bytes.len()).flat_map(move |at| {
        let others = (0..=u8::MAX).filter(move |other| *other != bytes[at]);
        others.map(move |other| {
            let mut changed = bytes.to_vec();
            changed[at] = other;
            changed
        })
    });
    beginnings.chain(changed).chain([[bytes, b"\0"].concat()])
}
