//! Events and the values of their fields.

use super::ReadError;
use super::input::Input;
use super::layout::{Layout, Shape, skip};
use super::text::Text;
use super::types::Types;

/// Type id of metadata events.
pub const METADATA: u64 = 0;

/// Type id of checkpoint events, which contain constant pools.
pub const CHECKPOINT: u64 = 1;

/// Maximum number of fields that an [`EventPlan`] can read.
pub const SLOTS: usize = 12;

/// An event whose fields are not decoded yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Id of the event's type.
    pub type_id: u64,
    /// Size of the event in bytes, including the encoded size.
    pub bytes: usize,
    /// The bytes of the event's fields that are available.
    pub fields: &'a [u8],
}

impl<'a> Event<'a> {
    /// Reads the size and the type of the event at the start of `bytes`, which might end before the
    /// end of the event. Returns `None` if the type is not available.
    ///
    /// # Errors
    /// Returns an error if the size is impossible.
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

/// The raw value of a field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Raw<'a> {
    /// The type has no such field, or the field is an array or a nested value.
    #[default]
    Absent,
    /// A number, the key of a value in a pool, or the 64 bits of a negative number.
    Integer(u64),
    /// A boolean or a small number.
    Byte(u8),
    /// A floating-point number.
    Float(f64),
    /// A string.
    Text(Text<'a>),
}

impl Raw<'_> {
    /// Returns the number, or 0 if the value is not a number.
    #[inline]
    pub fn integer(&self) -> u64 {
        match self {
            Raw::Integer(value) => *value,
            Raw::Byte(value) => u64::from(*value),
            _ => 0,
        }
    }

    /// Returns the floating-point number, or `None` if the value is not a finite floating-point
    /// number.
    pub fn float(&self) -> Option<f64> {
        match self {
            Raw::Float(value) => Some(*value).filter(|value| value.is_finite()),
            _ => None,
        }
    }

    /// Returns whether the value is a boolean that is true.
    pub fn flag(&self) -> bool {
        matches!(self, Raw::Byte(1..))
    }
}

/// Reads a value. Skips an array or a nested value, and returns [`Raw::Absent`] for it.
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

/// A plan for reading some fields of an event type. Each of these fields has a slot.
#[derive(Clone, Debug)]
pub struct EventPlan {
    /// All fields up to the last one to read, with the slots of the fields to read.
    steps: Vec<(Shape, Option<u8>)>,
}

impl EventPlan {
    /// Creates a plan for reading the fields with these names. The type can lack some of them.
    /// Returns `None` if the layout of the type is unknown.
    ///
    /// # Panics
    /// Panics if there are more than [`SLOTS`] names.
    pub fn new(types: &Types, type_id: u64, names: &[&str]) -> Option<EventPlan> {
        assert!(names.len() <= SLOTS, "{} fields of an event", names.len());
        let layout: &Layout = types.layout(type_id)?;
        let fields = &types.get(type_id)?.fields;
        let slot = |name: &str| names.iter().position(|wanted| *wanted == name);
        let step = |(field, shape): (&super::Field, &Shape)| {
            (shape.clone(), slot(&field.name).map(|slot| slot as u8))
        };
        let mut steps: Vec<_> = fields.iter().zip(layout).map(step).collect();
        let end = steps.iter().rposition(|(_, slot)| slot.is_some()).map_or(0, |last| last + 1);
        steps.truncate(end);
        Some(EventPlan { steps })
    }

    /// Reads the fields of an event that has the plan's type.
    ///
    /// # Errors
    /// Returns an error if a value is invalid or extends past the end of the event.
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
