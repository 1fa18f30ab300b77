//! Lookup of values in the constant pools: strings, class and thread names, stack traces.

use super::event::{Raw, value};
use super::input::Input;
use super::layout::{Shape, skip};
use super::pool_index::Pools;
use super::text::Text;
use super::types::Types;
use std::borrow::Cow;

/// Maximum number of keys from a value to its string. For example, a class refers to a symbol,
/// which refers to a string, which can be in the pool.
const CHAIN_MAX: usize = 4;

/// Maximum length, in bytes, of a class or method name. Longer names are truncated.
const NAME_BYTES_MAX: usize = 1024;

/// A frame of a stack trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The class name, such as `java.net.Socket`.
    pub class: String,
    /// The method name.
    pub method: String,
    /// The source line, or 0.
    pub line: u32,
}

/// The types and pools of a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Lookup<'a> {
    /// Types that the chunk declares.
    pub types: &'a Types,
    /// Constant pools of the chunk.
    pub pools: &'a Pools,
}

impl<'a> Lookup<'a> {
    /// Returns the string in a field. If the field contains a key of `type_id`, returns the string
    /// that names the value to which the key refers. Returns an empty string if there is none.
    pub fn text(&self, raw: &Raw<'a>, type_id: u64) -> Cow<'a, str> {
        let (mut raw, mut type_id) = (*raw, type_id);
        for _ in 0..CHAIN_MAX {
            let key = match raw {
                Raw::Text(Text::Key(key)) => {
                    type_id = self.types.text_type().unwrap_or(type_id);
                    key
                }
                Raw::Text(text) => return text.characters(),
                Raw::Integer(key) => key,
                _ => break,
            };
            let Some((next, next_type)) = self.named(type_id, key) else { break };
            (raw, type_id) = (next, next_type);
        }
        Cow::Borrowed("")
    }

    /// Returns the field that contains a pool value's name, and the id of the field's type. Returns
    /// `None` if the value is missing or invalid.
    fn named(&self, type_id: u64, key: u64) -> Option<(Raw<'a>, u64)> {
        let declared = self.types.get(type_id)?;
        if declared.fields.is_empty() {
            let mut input = Input(self.pools.get(type_id, key)?);
            let shape = self.types.layout(type_id)?.first()?;
            return Some((value(&mut input, shape).ok()?, type_id));
        }
        let is_name = |name: &str| matches!(name, "string" | "name" | "javaName");
        // A type that has no such field is represented by its first field.
        let field = declared.fields.iter().position(|field| is_name(&field.name)).unwrap_or(0);
        Some((self.field(type_id, key, field)?, declared.fields[field].type_id))
    }

    /// Returns a field of a pool value, by the index of the field. Returns `None` if the value or
    /// the field is missing or invalid.
    fn field(&self, type_id: u64, key: u64, index: usize) -> Option<Raw<'a>> {
        let layout = self.types.layout(type_id)?;
        let mut input = Input(self.pools.get(type_id, key)?);
        layout.iter().take(index).try_for_each(|shape| skip(&mut input, shape)).ok()?;
        value(&mut input, layout.get(index)?).ok()
    }

    /// Returns a class name as in source code: `java.lang.String`, `byte[]`.
    pub fn class(&self, raw: &Raw<'a>, type_id: u64) -> String {
        let name = self.text(raw, type_id);
        class_name(&name[..name.floor_char_boundary(NAME_BYTES_MAX)])
    }

    /// Returns a thread's name in Java, or otherwise its name in the operating system.
    pub fn thread(&self, raw: &Raw<'a>, type_id: u64) -> Cow<'a, str> {
        let named = |name: &str| {
            let declared = self.types.get(type_id)?;
            let index = declared.fields.iter().position(|field| field.name == name)?;
            let found = self.field(type_id, raw.integer(), index)?;
            Some(self.text(&found, declared.fields[index].type_id)).filter(|name| !name.is_empty())
        };
        named("javaName").or_else(|| named("osName")).unwrap_or_default()
    }

    /// Returns up to `max` frames of a stack trace, innermost first.
    pub fn stack(&self, raw: &Raw<'a>, type_id: u64, max: usize) -> Vec<Frame> {
        self.frames(raw.integer(), type_id, max).unwrap_or_default()
    }

    fn frames(&self, key: u64, type_id: u64, max: usize) -> Option<Vec<Frame>> {
        let declared = self.types.get(type_id)?;
        let layout = self.types.layout(type_id)?;
        let index = declared.fields.iter().position(|field| field.name == "frames")?;
        let mut input = Input(self.pools.get(type_id, key)?);
        layout.iter().take(index).try_for_each(|shape| skip(&mut input, shape)).ok()?;
        let frame_type = declared.fields[index].type_id;
        let Some(Shape::Array(shapes)) = layout.get(index) else { return None };
        let shapes = match &shapes[..] {
            [Shape::Nested(shapes)] => shapes,
            // The frames have a single field, and this is the layout of the field.
            _ => shapes,
        };
        let count = input.size().ok()?.min(max);
        let mut frames = Vec::new();
        for _ in 0..count {
            frames.push(self.frame(&mut input, frame_type, shapes)?);
        }
        Some(frames)
    }

    fn frame(&self, input: &mut Input<'a>, type_id: u64, shapes: &[Shape]) -> Option<Frame> {
        let declared = self.types.get(type_id)?;
        let mut frame = Frame { class: String::new(), method: String::new(), line: 0 };
        for (field, shape) in declared.fields.iter().zip(shapes) {
            let raw = value(input, shape).ok()?;
            match field.name.as_str() {
                "method" => {
                    let key = raw.integer();
                    let method = self.text(&raw, field.type_id);
                    frame.method = method[..method.floor_char_boundary(NAME_BYTES_MAX)].to_owned();
                    frame.class = self.class_of_method(field.type_id, key).unwrap_or_default();
                }
                "lineNumber" => frame.line = line(raw.integer()),
                _ => {}
            }
        }
        Some(frame)
    }

    fn class_of_method(&self, type_id: u64, key: u64) -> Option<String> {
        let declared = self.types.get(type_id)?;
        let index = declared.fields.iter().position(|field| field.name == "type")?;
        Some(self.class(&self.field(type_id, key, index)?, declared.fields[index].type_id))
    }
}

/// Removes the number from the name of a hidden class, because the number differs between JVMs.
fn without_number(name: &str) -> &str {
    let ends = ["+0x", ".0x", "/0x"].map(|mark| name.find(mark).unwrap_or(name.len()));
    &name[..ends.into_iter().min().unwrap_or(name.len())]
}

/// Returns a line number, or 0 for frames of native methods, which have a negative line number.
fn line(raw: u64) -> u32 {
    u32::try_from(raw).ok().filter(|line| *line <= i32::MAX as u32).unwrap_or(0)
}

/// Converts a JVM class name to the form in source code.
fn class_name(name: &str) -> String {
    let name = without_number(name);
    let element = name.trim_start_matches('[');
    let dimensions = name.len() - element.len();
    let mut source = match element {
        _ if dimensions == 0 => element.replace('/', "."),
        "B" => "byte".to_owned(),
        "C" => "char".to_owned(),
        "D" => "double".to_owned(),
        "F" => "float".to_owned(),
        "I" => "int".to_owned(),
        "J" => "long".to_owned(),
        "S" => "short".to_owned(),
        "Z" => "boolean".to_owned(),
        _ => element.trim_start_matches('L').trim_end_matches(';').replace('/', "."),
    };
    (0..dimensions).for_each(|_| source.push_str("[]"));
    source
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_names_of_source_code() {
        let cases = [
            ("java/lang/String", "java.lang.String"),
            ("[B", "byte[]"),
            ("[[Ljava/util/Map$Entry;", "java.util.Map$Entry[][]"),
            ("Main$$Lambda$291+0x00007f43d01b8208/817299424", "Main$$Lambda$291"),
            (
                "java/lang/invoke/LambdaForm$DMH.0x0000000023041000",
                "java.lang.invoke.LambdaForm$DMH",
            ),
            ("", ""),
        ];
        for (name, expected) in cases {
            assert_eq!(class_name(name), expected);
        }
    }
}
