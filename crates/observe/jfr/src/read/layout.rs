//! The layout of a value: the sequence of its fields, including the fields of their types.

use super::ReadError;
use super::declaration::Type;
use super::input::Input;
use super::text::Text;
use std::collections::HashMap;

/// Maximum nesting depth of types.
const DEPTH_MAX: usize = 8;

/// Maximum number of values in a type. A stack frame has four.
const VALUES_MAX: usize = 256;

/// Maximum number of values in all types. Types whose layout would exceed the limit cannot be read.
const ALL_VALUES_MAX: usize = 1 << 18;

/// The encoding of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A compressed integer.
    Integer,
    /// One byte: a boolean or a small number.
    Byte,
    /// A 4-byte floating-point number.
    Float,
    /// An 8-byte floating-point number.
    Double,
    /// A string in any encoding.
    Text,
    /// An array: the number of elements, followed by the elements.
    Array(Layout),
    /// The values of another type.
    Nested(Layout),
}

/// The encodings of a type's values in order.
pub type Layout = Vec<Shape>;

/// Returns the layouts of all types. A type with an unknown layout is omitted, and its values
/// cannot be read.
pub fn layouts(types: &HashMap<u64, Type>) -> HashMap<u64, Layout> {
    let mut all = ALL_VALUES_MAX;
    let entry = |id: &u64| {
        let most = VALUES_MAX.min(all);
        let mut left = most;
        let layout = layout(types, *id, DEPTH_MAX, &mut left);
        all -= most - left;
        Some((*id, layout?))
    };
    types.keys().filter_map(entry).collect()
}

fn layout(types: &HashMap<u64, Type>, id: u64, depth: usize, left: &mut usize) -> Option<Layout> {
    let declared = types.get(&id)?;
    if let Some(shape) = primitive(&declared.name) {
        return Some(vec![shape]);
    }
    let depth = depth.checked_sub(1)?;
    let mut shapes = Vec::new();
    for field in &declared.fields {
        *left = left.checked_sub(1)?;
        let shape = match field.is_key {
            true => Shape::Integer,
            false => single(layout(types, field.type_id, depth, left)?),
        };
        shapes.push(if field.is_array { Shape::Array(vec![shape]) } else { shape });
    }
    Some(shapes)
}

/// Returns the shape for a field whose type has this layout.
fn single(mut layout: Layout) -> Shape {
    match layout.pop() {
        Some(only) if layout.is_empty() => only,
        last => {
            layout.extend(last);
            Shape::Nested(layout)
        }
    }
}

fn primitive(name: &str) -> Option<Shape> {
    match name {
        "boolean" | "byte" => Some(Shape::Byte),
        "char" | "short" | "int" | "long" => Some(Shape::Integer),
        "float" => Some(Shape::Float),
        "double" => Some(Shape::Double),
        "java.lang.String" => Some(Shape::Text),
        _ => None,
    }
}

/// Skips the values in a layout.
pub fn skip_all(input: &mut Input<'_>, layout: &[Shape]) -> Result<(), ReadError> {
    layout.iter().try_for_each(|shape| skip(input, shape))
}

/// Skips a value.
#[inline]
pub fn skip(input: &mut Input<'_>, shape: &Shape) -> Result<(), ReadError> {
    match shape {
        Shape::Integer => input.varint().map(drop),
        Shape::Byte => input.byte().map(drop),
        Shape::Float => input.take(4).map(drop),
        Shape::Double => input.take(8).map(drop),
        Shape::Text => Text::read(input).map(drop),
        Shape::Nested(layout) => skip_all(input, layout),
        Shape::Array(layout) => skip_array(input, layout),
    }
}

/// Skips an array. Stops at an element that takes no bytes, because the count of such elements can
/// be arbitrarily large.
fn skip_array(input: &mut Input<'_>, layout: &[Shape]) -> Result<(), ReadError> {
    for _ in 0..input.size()? {
        let before = input.0.len();
        skip_all(input, layout)?;
        if input.0.len() == before {
            break;
        }
    }
    Ok(())
}
