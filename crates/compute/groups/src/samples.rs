//! The earliest events of a group.

use millstream_encodings::binary::{byte_string, number, number_to, push_bytes, push_number, word};

/// The earliest strings, ordered by their events' time, origin and offset. The result does not
/// depend on the order in which strings are added and merged.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    size: u16,
    /// The strings in ascending order of their events.
    samples: Vec<Sample>,
    text_bytes: usize,
}

/// The text of an event, and the event's position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sample {
    /// Event time in nanoseconds since 1970.
    pub time: i64,
    /// Origin of the event. Origin and offset order events that have equal times.
    pub origin: u64,
    /// Offset within the origin.
    pub offset: u64,
    /// Text of the event.
    pub text: Box<[u8]>,
}

impl Sample {
    fn place(&self) -> (i64, u64, u64, &[u8]) {
        (self.time, self.origin, self.offset, &self.text)
    }
}

impl Samples {
    /// Creates an empty list for up to `size` strings, at least one.
    pub fn new(size: u16) -> Samples {
        Samples { size: size.max(1), samples: Vec::new(), text_bytes: 0 }
    }

    /// Adds the text of an event, unless the list is full of earlier events.
    pub fn add(&mut self, time: i64, origin: u64, offset: u64, text: &[u8]) {
        let place = (time, origin, offset, text);
        let is_full = self.samples.len() == usize::from(self.size);
        if is_full && self.samples.last().is_some_and(|last| last.place() <= place) {
            return;
        }
        if is_full && let Some(last) = self.samples.pop() {
            self.text_bytes -= last.text.len();
        }
        let at = self.samples.partition_point(|sample| sample.place() <= place);
        crate::chunks::grow(&mut self.samples, 1, self.size.into());
        self.samples.insert(at, Sample { time, origin, offset, text: text.into() });
        self.text_bytes += text.len();
    }

    /// Adds the strings of another list.
    pub fn merge(&mut self, other: &Samples) {
        for Sample { time, origin, offset, text } in &other.samples {
            self.add(*time, *origin, *offset, text);
        }
    }

    /// Returns the strings in the order of their events.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    /// Returns the maximum number of strings.
    pub(crate) fn size(&self) -> u16 {
        self.size
    }

    /// Appends the list to `out`: the size, the number of strings, and the time, origin, offset and
    /// text of each event.
    pub fn write(&self, out: &mut Vec<u8>) {
        push_number(out, u64::from(self.size));
        push_number(out, self.samples.len() as u64);
        for Sample { time, origin, offset, text } in &self.samples {
            out.extend_from_slice(&time.to_le_bytes());
            push_number(out, *origin);
            push_number(out, *offset);
            push_bytes(out, text);
        }
    }

    /// Takes a list that [`Samples::write`] wrote from the front of `bytes`. Returns `None` if the
    /// list is damaged.
    pub fn read(bytes: &mut &[u8]) -> Option<Samples> {
        let size = number_to(bytes, u16::MAX.into())? as u16;
        let mut read = Samples::new(size);
        for _ in 0..number_to(bytes, size.into())? {
            let (time, origin, offset) = (word(bytes)? as i64, number(bytes)?, number(bytes)?);
            let text = byte_string(bytes)?;
            if read.samples.last().is_some_and(|last| last.place() > (time, origin, offset, text)) {
                return None;
            }
            read.add(time, origin, offset, text);
        }
        (read.size == size).then_some(read)
    }

    /// Returns the number of bytes that the list has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>() + self.text_bytes
    }
}
