//! Encoding of events as slots of four words.
//!
//! | word | first slot | second slot |
//! |---|---|---|
//! | 0 | start in ticks | second wide value |
//! | 1 | kind + 1 (8 bits), subject (24), small value (32) | `ff` (8 bits), check (8), 0 (48) |
//! | 2 | duration in ticks (56 bits), check (8) | third wide value |
//! | 3 | first wide value | fourth wide value |
//!
//! The small value is the value of the first unshared field that fits into 32 bits. All other
//! values are wide. The check is the lower byte of the chunk's sequence. After a power loss, a slot
//! from an earlier use of the chunk has a different check.

use crate::schema::{EVENTS, EventKind, EventSpec, FIELDS_MAX, FieldKind};

/// A slot in a chunk.
pub type Slot = [u64; 4];

/// Kind byte of an event's second slot.
const SECOND: u64 = 0xff;

/// Number of bits for a duration. A longer duration is recorded as the maximum, which is at least
/// 200 days.
const DURATION_BITS: u32 = 56;
const DURATION_MAX: u64 = (1 << DURATION_BITS) - 1;

/// Number of bits in a reference to a subject.
pub const SUBJECT_BITS: u32 = 24;

/// Maximum number of wide values per event.
const WIDES_MAX: usize = 4;

/// Where the unshared fields of a type are stored.
#[derive(Clone, Copy, Debug)]
struct Places {
    /// Index of the small value among the unshared fields.
    small: Option<usize>,
    /// Indexes of the wide values among the unshared fields.
    wide: [usize; WIDES_MAX],
    wide_count: usize,
}

impl Places {
    const fn of(spec: &EventSpec) -> Places {
        let mut places = Places { small: None, wide: [0; WIDES_MAX], wide_count: 0 };
        let (mut index, mut own) = (0, 0);
        while index < spec.fields.len() {
            let field = &spec.fields[index];
            index += 1;
            if field.is_shared {
                continue;
            }
            let fits = matches!(field.kind, FieldKind::Count | FieldKind::Flag | FieldKind::Text);
            if fits && places.small.is_none() {
                places.small = Some(own);
            } else {
                places.wide[places.wide_count] = own;
                places.wide_count += 1;
            }
            own += 1;
        }
        places
    }

    const fn slots(&self) -> usize {
        if self.wide_count > 1 { 2 } else { 1 }
    }
}

const PLACES: [Places; EVENTS.len()] = {
    let mut all = [Places { small: None, wide: [0; WIDES_MAX], wide_count: 0 }; EVENTS.len()];
    let mut number = 0;
    while number < EVENTS.len() {
        all[number] = Places::of(&EVENTS[number]);
        number += 1;
    }
    all
};

/// Checks the schema: shared fields come first, because the subject contains the first values, and
/// the kind bytes of first and second slots are different.
const _: () = {
    let mut number = 0;
    while number < EVENTS.len() {
        let fields = EVENTS[number].fields;
        let mut index = 1;
        while index < fields.len() {
            assert!(!fields[index].is_shared || fields[index - 1].is_shared);
            index += 1;
        }
        number += 1;
    }
    assert!(EVENTS.len() < SECOND as usize);
};

fn second_head(check: u8) -> u64 {
    SECOND | u64::from(check) << 8
}

/// An event in the form in which it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Type of the event.
    pub kind: EventKind,
    /// Reference to the subject, which contains the values of the shared fields.
    pub subject: u32,
    /// Start of the event in ticks.
    pub start_ticks: u64,
    /// Time from start to end in ticks.
    pub duration_ticks: u64,
    /// The bits of the unshared fields, in the order of their declaration.
    pub own: [u64; FIELDS_MAX],
}

impl Stored {
    /// Returns the slots, and how many of them are used.
    #[inline(always)]
    pub fn encode(&self, check: u8) -> ([Slot; 2], usize) {
        let places = &PLACES[self.kind as usize];
        let wide = |number: usize| match number < places.wide_count {
            true => self.own[places.wide[number]],
            false => 0,
        };
        let small = places.small.map_or(0, |own| self.own[own].min(u64::from(u32::MAX)));
        let subject = u64::from(self.subject) & ((1 << SUBJECT_BITS) - 1);
        let head = (self.kind as u64 + 1) | subject << 8 | small << 32;
        let duration = self.duration_ticks.min(DURATION_MAX) | u64::from(check) << DURATION_BITS;
        let first = [self.start_ticks, head, duration, wide(0)];
        let second = [wide(1), second_head(check), wide(2), wide(3)];
        ([first, second], places.slots())
    }

    /// Returns the event at the start of these slots, and the number of slots that it uses. Returns
    /// `None` if there is no event with this check.
    pub fn decode(slots: &[Slot], check: u8) -> Option<(Stored, usize)> {
        let [start_ticks, head, duration, first] = *slots.first()?;
        let kind = EventKind::of_number((head as u8).checked_sub(1)?)?;
        let places = &PLACES[kind as usize];
        let second = match places.slots() {
            1 => [0; 4],
            _ => *slots.get(1).filter(|second| second[1] == second_head(check))?,
        };
        if (duration >> DURATION_BITS) as u8 != check {
            return None;
        }
        let mut own = [0; FIELDS_MAX];
        if let Some(small) = places.small {
            own[small] = head >> 32;
        }
        let wide = [first, second[0], second[2], second[3]];
        for (number, value) in wide.into_iter().enumerate().take(places.wide_count) {
            own[places.wide[number]] = value;
        }
        let subject = (head >> 8) as u32 & ((1 << SUBJECT_BITS) - 1);
        let duration_ticks = duration & DURATION_MAX;
        Some((Stored { kind, subject, start_ticks, duration_ticks, own }, places.slots()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{TestSize, property};
    use proptest::prelude::*;

    /// Number of cases per property.
    const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn an_event_of_any_type_is_read_as_it_was_stored(
            number in 0..EVENTS.len() as u8, subject in 0_u32..1 << SUBJECT_BITS, start: u64,
            duration_ticks in 0..=DURATION_MAX, values: [u64; FIELDS_MAX], check: u8,
        ) {
            let kind = EventKind::of_number(number).unwrap();
            let fields = kind.spec().fields.iter().filter(|field| !field.is_shared);
            let mut own = [0; FIELDS_MAX];
            for ((own, value), field) in own.iter_mut().zip(values).zip(fields) {
                *own = crate::schema::Value::from_bits(field.kind, value).to_bits();
            }
            let stored = Stored { kind, subject, start_ticks: start, duration_ticks, own };
            let (slots, count) = stored.encode(check);
            prop_assert_eq!(Stored::decode(&slots, check), Some((stored, count)));
            prop_assert_eq!(Stored::decode(&slots, check.wrapping_add(1)), None);
            prop_assert_eq!(Stored::decode(&slots[1..], check), None);
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_recorded_as_the_largest() {
        let own = [u64::MAX; FIELDS_MAX];
        let kind = EventKind::BatchStage;
        let stored = Stored { kind, subject: 1, start_ticks: 0, duration_ticks: u64::MAX, own };
        let (slots, count) = stored.encode(0);
        let (read, _) = Stored::decode(&slots, 0).unwrap();
        assert_eq!((count, read.duration_ticks), (1, DURATION_MAX));
        assert_eq!(read.own[..2], [u64::from(u32::MAX), u64::MAX]);
    }

    #[test]
    fn empty_slots_are_no_event() {
        assert_eq!(Stored::decode(&[[0; 4]], 0), None);
        assert_eq!(Stored::decode(&[], 0), None);
    }
}
