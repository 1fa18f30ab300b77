//! The types in a chunk, as its metadata declares them.

use super::ReadError;
use super::declaration::{Field, Type, Unit};
use super::input::Input;
use super::layout::{Layout, Shape, layouts};
use super::text::Text;
use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum nesting depth of elements. The JDK uses five levels.
const DEPTH_MAX: usize = 16;

/// Maximum size of a chunk's metadata in bytes. A JDK's metadata takes about 110 KB.
pub const METADATA_BYTES_MAX: usize = 8 << 20;

/// Maximum number of strings in the metadata.
const TEXTS_MAX: usize = 1 << 18;

/// Maximum number of types in a chunk. A JDK declares about 250, and each event class of an
/// application adds one.
const TYPES_MAX: usize = 16_384;

/// Maximum number of fields in all types.
const FIELDS_MAX: usize = 1 << 17;

/// Maximum total bytes of all type and field names. The limit is needed because names refer to
/// strings, which can be shared.
const NAME_BYTES_MAX: usize = 1 << 20;

/// The types in a chunk, indexed by id.
#[derive(Debug, Default)]
pub struct Types {
    types: HashMap<u64, Type>,
    layouts: HashMap<u64, Layout>,
    text_type: Option<u64>,
    bytes: usize,
}

impl Types {
    /// Reads the metadata of a chunk from a whole event, including its size.
    ///
    /// # Errors
    /// Returns an error if the event is not metadata, is invalid, or exceeds a limit.
    pub fn read(event: &[u8]) -> Result<Types, ReadError> {
        let mut input = Input(event);
        input.size()?;
        if input.varint()? != super::METADATA {
            return Err(ReadError::Invalid("position of the metadata"));
        }
        // Skips the start, duration and version.
        for _ in 0..3 {
            input.varint()?;
        }
        let texts = texts(&mut input)?;
        let mut reader = Reader { texts: &texts, types: HashMap::new(), fields: 0, name_bytes: 0 };
        reader.element(&mut input, 0, &mut Parent::Root)?;
        let bytes = reader.bytes();
        let types = reader.types;
        let layouts = layouts(&types);
        let mut read = Types { types, layouts, text_type: None, bytes };
        read.text_type = read.id("java.lang.String");
        Ok(read)
    }

    /// Returns the type with this id.
    pub fn get(&self, id: u64) -> Option<&Type> {
        self.types.get(&id)
    }

    /// Returns the id of the type with this name.
    pub fn id(&self, name: &str) -> Option<u64> {
        self.types.iter().find(|(_, declared)| declared.name == name).map(|(id, _)| *id)
    }

    /// Returns the approximate memory that the types take, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns all types and their ids, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Type)> {
        self.types.iter().map(|(id, declared)| (*id, declared))
    }

    /// Returns the id of the string type.
    pub(super) fn text_type(&self) -> Option<u64> {
        self.text_type
    }

    /// Returns the layout of a type's values.
    pub(super) fn layout(&self, id: u64) -> Option<&Layout> {
        self.layouts.get(&id)
    }
}

/// Reads the strings to which the elements refer.
fn texts<'a>(input: &mut Input<'a>) -> Result<Vec<Cow<'a, str>>, ReadError> {
    let count = input.size()?;
    if count > TEXTS_MAX {
        return Err(ReadError::TooLarge("number of strings"));
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(Text::read(input)?.characters());
    }
    Ok(texts)
}

/// The parent of an element.
enum Parent<'t> {
    Root,
    /// A type, to which the element's fields are added.
    Type(&'t mut Type),
    /// A field, for which the element can set the unit.
    Field(&'t mut Field),
}

struct Reader<'a> {
    texts: &'a [Cow<'a, str>],
    types: HashMap<u64, Type>,
    fields: usize,
    name_bytes: usize,
}

/// The relevant attributes of an element.
#[derive(Default)]
struct Attributes<'a> {
    name: &'a str,
    id: Option<u64>,
    class: u64,
    super_type: &'a str,
    is_key: bool,
    is_array: bool,
    value: &'a str,
}

impl<'a> Reader<'a> {
    fn text(&self, input: &mut Input<'_>) -> Result<&'a str, ReadError> {
        let number = input.size()?;
        self.texts
            .get(number)
            .map(|text| &**text)
            .ok_or(ReadError::Invalid("reference in the metadata"))
    }

    /// Returns the memory that the types and their layouts take, in bytes.
    fn bytes(&self) -> usize {
        let field = size_of::<Field>() + size_of::<Shape>();
        self.name_bytes + self.fields * field + self.types.len() * 2 * size_of::<Type>()
    }

    /// Copies a name and counts its bytes.
    fn name(&mut self, name: &str) -> Result<String, ReadError> {
        self.name_bytes += name.len();
        match self.name_bytes > NAME_BYTES_MAX {
            true => Err(ReadError::TooLarge("names of types and fields")),
            false => Ok(name.to_owned()),
        }
    }

    fn attributes(&self, input: &mut Input<'_>) -> Result<Attributes<'a>, ReadError> {
        let mut found = Attributes::default();
        for _ in 0..input.size()? {
            let (key, value) = (self.text(input)?, self.text(input)?);
            let number = || value.parse().map_err(|_| ReadError::Invalid("number in the metadata"));
            match key {
                "name" => found.name = value,
                "id" => found.id = Some(number()?),
                "class" => found.class = number()?,
                "superType" => found.super_type = value,
                "constantPool" => found.is_key = value == "true",
                "dimension" => found.is_array = value != "0",
                "value" => found.value = value,
                _ => {}
            }
        }
        Ok(found)
    }

    fn element(
        &mut self,
        input: &mut Input<'_>,
        depth: usize,
        parent: &mut Parent<'_>,
    ) -> Result<(), ReadError> {
        if depth > DEPTH_MAX {
            return Err(ReadError::TooLarge("nesting of the metadata"));
        }
        let element = self.text(input)?;
        let attributes = self.attributes(input)?;
        match (element, parent) {
            ("class", _) => self.class(input, depth, &attributes),
            ("field", Parent::Type(declared)) => self.field(input, depth, &attributes, declared),
            ("annotation", Parent::Field(field)) => {
                field.unit = unit(attributes.value).or(field.unit);
                self.children(input, depth, &mut Parent::Root)
            }
            _ => self.children(input, depth, &mut Parent::Root),
        }
    }

    fn children(
        &mut self,
        input: &mut Input<'_>,
        depth: usize,
        parent: &mut Parent<'_>,
    ) -> Result<(), ReadError> {
        for _ in 0..input.size()? {
            self.element(input, depth + 1, parent)?;
        }
        Ok(())
    }

    fn class(
        &mut self,
        input: &mut Input<'_>,
        depth: usize,
        attributes: &Attributes<'_>,
    ) -> Result<(), ReadError> {
        let id = attributes.id.ok_or(ReadError::Invalid("type without a number"))?;
        let name = self.name(attributes.name)?;
        let is_event = attributes.super_type == "jdk.jfr.Event";
        let mut declared = Type { name, is_event, fields: Vec::new() };
        self.children(input, depth, &mut Parent::Type(&mut declared))?;
        self.types.insert(id, declared);
        match self.types.len() > TYPES_MAX {
            true => Err(ReadError::TooLarge("number of types")),
            false => Ok(()),
        }
    }

    fn field(
        &mut self,
        input: &mut Input<'_>,
        depth: usize,
        attributes: &Attributes<'_>,
        declared: &mut Type,
    ) -> Result<(), ReadError> {
        let Attributes { name, class, is_key, is_array, .. } = *attributes;
        let name = self.name(name)?;
        let mut field = Field { name, type_id: class, is_key, is_array, unit: None };
        self.children(input, depth, &mut Parent::Field(&mut field))?;
        declared.fields.push(field);
        self.fields += 1;
        match self.fields > FIELDS_MAX {
            true => Err(ReadError::TooLarge("number of fields")),
            false => Ok(()),
        }
    }
}

fn unit(value: &str) -> Option<Unit> {
    match value {
        "TICKS" => Some(Unit::Ticks),
        "NANOSECONDS" => Some(Unit::Nanoseconds),
        "MILLISECONDS" => Some(Unit::Milliseconds),
        "SECONDS" => Some(Unit::Seconds),
        _ => None,
    }
}
