//! Stack traces: their types, and their pool entries.

use crate::elements::Element;
use crate::keys::{KEY_BYTES_MAX, key};
use crate::metadata::{TypeId, class, field, types};
use crate::varint;

/// Maximum size, in bytes, of a frame in a stack trace entry: method, line, position, type.
pub const FRAME_BYTES_MAX: usize = 2 * KEY_BYTES_MAX + 5 + 1;

/// Maximum size, in bytes, of a class or method entry: keys, and one-byte numbers.
pub const METHOD_BYTES_MAX: usize = 4 * KEY_BYTES_MAX + 2;

/// Represents an unknown line: -1 in 32 bits.
const NO_LINE: u64 = u32::MAX as u64;

/// Returns the stack trace types, and the types to which they refer.
pub fn types() -> Vec<Element> {
    vec![
        text_class("jdk.types.ThreadState", types::THREAD_STATE, "name"),
        text_class("jdk.types.FrameType", types::FRAME_TYPE, "description"),
        text_class("jdk.types.Symbol", types::SYMBOL, "string"),
        class("java.lang.Class", types::CLASS).containing([
            reference("name", types::SYMBOL, "Name"),
            field("modifiers", types::INT, "Access Modifiers"),
        ]),
        class("jdk.types.Method", types::METHOD).containing([
            reference("type", types::CLASS, "Type"),
            reference("name", types::SYMBOL, "Name"),
            reference("descriptor", types::SYMBOL, "Descriptor"),
            field("modifiers", types::INT, "Access Modifiers"),
            field("hidden", types::BOOLEAN, "Hidden"),
        ]),
        class("jdk.types.StackFrame", types::STACK_FRAME).containing([
            reference("method", types::METHOD, "Java Method"),
            field("lineNumber", types::INT, "Line Number"),
            field("bytecodeIndex", types::INT, "Bytecode Index"),
            reference("type", types::FRAME_TYPE, "Frame Type"),
        ]),
        class("jdk.types.StackTrace", types::STACK_TRACE).containing([
            field("truncated", types::BOOLEAN, "Truncated"),
            field("frames", types::STACK_FRAME, "Stack Frames").with("dimension", "1"),
        ]),
    ]
}

/// Returns a type whose values contain a string, which tools show in place of the value.
fn text_class(name: &'static str, id: TypeId, field: &'static str) -> Element {
    let text = Element::new("field").with("name", field).with_type("class", types::STRING);
    class(name, id).with("simpleType", "true").containing([text])
}

/// Returns a field whose value is a pool entry.
pub fn reference(name: &'static str, id: TypeId, label: &'static str) -> Element {
    field(name, id, label).with("constantPool", "true")
}

/// Appends the entry for a class. `name` is a symbol number.
pub fn push_class(out: &mut Vec<u8>, name: u32) {
    varint::push(out, key(name));
    varint::push(out, 0);
}

/// Appends the entry for a method. Class, name and descriptor are entry numbers in their pools.
pub fn push_method(out: &mut Vec<u8>, class: u32, name: u32, descriptor: u32) {
    varint::push(out, key(class));
    varint::push(out, key(name));
    varint::push(out, key(descriptor));
    // Modifiers, and the flag for hidden methods, are 0.
    out.extend_from_slice(&[0, 0]);
}

/// A frame of a stack trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Entry number of the method.
    pub method: u32,
    /// Line in the source file, if known.
    pub line: Option<u32>,
    /// Entry number of the frame type.
    pub frame_type: u32,
}

/// Appends the entry for a stack trace. The first frame is the top of the stack.
pub fn push_stack_trace(out: &mut Vec<u8>, frames: impl ExactSizeIterator<Item = StackFrame>) {
    let is_truncated = false;
    out.push(u8::from(is_truncated));
    varint::push(out, frames.len() as u64);
    for frame in frames {
        varint::push(out, key(frame.method));
        varint::push(out, frame.line.map_or(NO_LINE, u64::from));
        varint::push(out, 0);
        varint::push(out, key(frame.frame_type));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_refer_to_others_by_key() {
        let mut out = Vec::new();
        push_class(&mut out, 4);
        push_method(&mut out, 0, 1, 2);
        let frame = StackFrame { method: 6, line: None, frame_type: 1 };
        push_stack_trace(&mut out, [frame, StackFrame { line: Some(9), ..frame }].into_iter());
        let frames = [&[0, 2, 7, 255, 255, 255, 255, 15, 0, 2][..], &[7, 9, 0, 2]].concat();
        assert_eq!(out, [&[5, 0, 1, 2, 3, 0, 0][..], &frames].concat());
    }
}
