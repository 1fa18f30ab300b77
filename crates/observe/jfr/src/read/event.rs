//! Events, and the values of their fields.

use super::ReadError;
use super::input::Input;
use super::layout::{Layout, Shape, skip};
use super::types::Types;
use std::borrow::Cow;

/// Number of the type of metadata events.
pub const METADATA: u64 = 0;

/// Number of the type of events with constant pools.
pub const CHECKPOINT: u64 = 1;

/// Maximum number of fields that an [`EventPlan`] reads.
pub const SLOTS: usize = 12;

/// Maximum bytes of a text that are decoded; longer texts are truncated.
const TEXT_BYTES_MAX: usize = 8192;

/// Maximum number of code units of a UTF-16 text, whose length in bytes is known only after
/// decoding.
const UNITS_MAX: usize = 65_536;

/// An event whose fields are not read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Number of the event's type.
    pub type_id: u64,
    /// Bytes of the event, including its size.
    pub bytes: usize,
    /// The available bytes of the event's fields.
    pub fields: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the size and the type of the event at the start of `bytes`, whose end may be missing.
    /// Returns `None` if even the type is missing.
    ///
    /// # Errors
    /// Fails if the size is impossible.
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Option<Event<'a>>, ReadError> {
        let mut input = Input(bytes);
        let head = input.varint().and_then(|size| Ok((size, input.varint()?)));
        let Ok((size, type_id)) = head else { return Ok(None) };
        let size = usize::try_from(size).map_err(|_| ReadError::Invalid("size of an event"))?;
        let head_bytes = bytes.len() - input.0.len();
        if size < head_bytes {
            return Err(ReadError::Invalid("size of an event"));
        }
        let fields = &bytes[head_bytes..size.min(bytes.len())];
        Ok(Some(Event { type_id, bytes: size, fields }))
    }

    /// Returns whether `bytes` contains the whole event.
    pub fn is_whole(&self, bytes: &[u8]) -> bool {
        self.bytes <= bytes.len()
    }
}

/// The undecoded value of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Raw<'a> {
    /// The type has no such field.
    #[default]
    Absent,
    /// A number, the key of a value in a pool, or 64 bits of a negative number.
    Integer(u64),
    /// A flag or a small number.
    Byte(u8),
    /// A number with a fraction.
    Float(f64),
    /// A text.
    Text(Text<'a>),
}

impl Raw<'_> {
    /// Returns a number, or 0 if the value is not a number.
    #[inline]
    pub fn integer(&self) -> u64 {
        match self {
            Raw::Integer(value) => *value,
            Raw::Byte(value) => u64::from(*value),
            _ => 0,
        }
    }

    /// Returns a number with a fraction; `None` if the value is not a finite number.
    pub fn float(&self) -> Option<f64> {
        match self {
            Raw::Float(value) => Some(*value).filter(|value| value.is_finite()),
            _ => None,
        }
    }

    /// Returns whether a flag is set.
    pub fn flag(&self) -> bool {
        matches!(self, Raw::Byte(1..))
    }
}

/// A text in one of its encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// No text.
    None,
    /// The key of a text in the pool.
    Key(u64),
    /// UTF-8, possibly invalid.
    Utf8(&'a [u8]),
    /// Latin-1.
    Latin1(&'a [u8]),
    /// Compressed UTF-16 code units.
    Utf16(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Reads a text.
    #[inline]
    pub(super) fn read(input: &mut Input<'a>) -> Result<Text<'a>, ReadError> {
        match input.byte()? {
            0 => Ok(Text::None),
            1 => Ok(Text::Utf8(b"")),
            2 => input.varint().map(Text::Key),
            3 => {
                let bytes = input.size()?;
                input.take(bytes).map(Text::Utf8)
            }
            4 => {
                let (units, from) = (input.size()?, input.0);
                // Each code unit takes at least one byte.
                if units > from.len() {
                    return Err(ReadError::Truncated);
                }
                if units > UNITS_MAX {
                    return Err(ReadError::TooLarge("text in UTF-16"));
                }
                (0..units).try_for_each(|_| input.varint().map(drop))?;
                Ok(Text::Utf16(&from[..from.len() - input.0.len()]))
            }
            5 => {
                let bytes = input.size()?;
                input.take(bytes).map(Text::Latin1)
            }
            _ => Err(ReadError::Invalid("encoding of a text")),
        }
    }

    /// Returns the characters of a text that is not in the pool; a long text is truncated.
    pub fn characters(&self) -> Cow<'a, str> {
        let first = |bytes: &'a [u8]| &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        match *self {
            Text::None | Text::Key(_) => Cow::Borrowed(""),
            Text::Utf8(bytes) => String::from_utf8_lossy(first(bytes)),
            Text::Latin1(bytes) => Text::latin1(first(bytes)),
            Text::Utf16(units) => {
                let mut input = Input(first(units));
                let unit = |_| input.varint().ok().map(|unit| unit as u16);
                let units: Vec<u16> = (0..TEXT_BYTES_MAX).map_while(unit).collect();
                Cow::Owned(String::from_utf16_lossy(&units))
            }
        }
    }

    fn latin1(bytes: &'a [u8]) -> Cow<'a, str> {
        match std::str::from_utf8(bytes) {
            Ok(ascii) if ascii.is_ascii() => Cow::Borrowed(ascii),
            _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
        }
    }
}

/// Reads a value that is not nested.
#[inline]
pub(super) fn value<'a>(input: &mut Input<'a>, shape: &Shape) -> Result<Raw<'a>, ReadError> {
    Ok(match shape {
        Shape::Integer => Raw::Integer(input.varint()?),
        Shape::Byte => Raw::Byte(input.byte()?),
        Shape::Float => Raw::Float(f64::from(f32::from_bits(bits(input.take(4)?) as u32))),
        Shape::Double => Raw::Float(f64::from_bits(bits(input.take(8)?))),
        Shape::Text => Raw::Text(Text::read(input)?),
        Shape::Nested(_) | Shape::Array(_) => {
            skip(input, shape)?;
            Raw::Absent
        }
    })
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A plan for reading some fields of an event type, each into a slot.
#[derive(Clone, Debug)]
pub struct EventPlan {
    /// The fields up to the last one that is read, with their slots.
    steps: Vec<(Shape, Option<u8>)>,
}

impl EventPlan {
    /// Creates a plan to read the fields with these names. The type may lack some of them. Returns
    /// `None` if the layout of the type is unknown.
    ///
    /// # Panics
    /// Panics if there are more names than [`SLOTS`].
    pub fn new(types: &Types, type_id: u64, names: &[&str]) -> Option<EventPlan> {
        assert!(names.len() <= SLOTS, "{} fields of an event", names.len());
        let layout: &Layout = types.layout(type_id)?;
        let fields = &types.get(type_id)?.fields;
        let slot = |name: &str| names.iter().position(|wanted| *wanted == name);
        let of = |(field, shape): (&super::Field, &Shape)| {
            (shape.clone(), slot(&field.name).map(|slot| slot as u8))
        };
        let mut steps: Vec<_> = fields.iter().zip(layout).map(of).collect();
        let end = steps.iter().rposition(|(_, slot)| slot.is_some()).map_or(0, |last| last + 1);
        steps.truncate(end);
        Some(EventPlan { steps })
    }

    /// Reads the fields of an event of the type.
    ///
    /// # Errors
    /// Fails if a value extends beyond the event, or is invalid.
    #[inline]
    pub fn read<'a>(&self, fields: &'a [u8]) -> Result<[Raw<'a>; SLOTS], ReadError> {
        let mut values = [Raw::Absent; SLOTS];
        let mut input = Input(fields);
        for (shape, slot) in &self.steps {
            match slot {
                Some(slot) => values[usize::from(*slot)] = value(&mut input, shape)?,
                None => skip(&mut input, shape)?,
            }
        }
        Ok(values)
    }
}
