//! A tree of elements with attributes, which is the form of the metadata.

use crate::{text, varint};
use std::borrow::Cow;
use std::collections::HashMap;

/// A string in an element.
type Text = Cow<'static, str>;

/// An element with attributes and children.
#[derive(Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(Text, Text)>,
    children: Vec<Element>,
}

impl Element {
    /// Creates an element without attributes and children.
    pub fn new(name: &'static str) -> Element {
        Element { name, attributes: Vec::new(), children: Vec::new() }
    }

    /// Adds an attribute.
    pub fn with(mut self, name: impl Into<Text>, value: impl Into<Text>) -> Element {
        self.attributes.push((name.into(), value.into()));
        self
    }

    /// Adds children.
    pub fn containing(mut self, children: impl IntoIterator<Item = Element>) -> Element {
        self.children.extend(children);
        self
    }

    /// Appends the table of all strings, followed by the tree, which refers to strings by their
    /// number in the table.
    pub fn push(&self, out: &mut Vec<u8>) {
        let mut table = Table::default();
        let mut tree = Vec::new();
        self.push_tree(&mut table, &mut tree);
        varint::push(out, table.texts.len() as u64);
        for name in &table.texts {
            text::push(out, name);
        }
        out.extend_from_slice(&tree);
    }

    fn push_tree<'e>(&'e self, table: &mut Table<'e>, out: &mut Vec<u8>) {
        varint::push(out, table.number(self.name));
        varint::push(out, self.attributes.len() as u64);
        for (name, value) in &self.attributes {
            varint::push(out, table.number(name));
            varint::push(out, table.number(value));
        }
        varint::push(out, self.children.len() as u64);
        for child in &self.children {
            child.push_tree(table, out);
        }
    }
}

/// Numbers the distinct strings.
#[derive(Default)]
struct Table<'e> {
    texts: Vec<&'e str>,
    numbers: HashMap<&'e str, u64>,
}

impl<'e> Table<'e> {
    fn number(&mut self, text: &'e str) -> u64 {
        let next = self.texts.len() as u64;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::TypeId;

    #[test]
    fn texts_are_numbers_in_a_table() {
        let child = Element::new("b").with("x", "a");
        let tree = Element::new("a").with_type("x", TypeId(7)).containing([child]);
        let mut out = Vec::new();
        tree.push(&mut out);
        let texts = [4, 3, 1, b'a', 3, 1, b'x', 3, 1, b'7', 3, 1, b'b'];
        let elements = [0, 1, 1, 2, 1, 3, 1, 1, 0, 0];
        assert_eq!(out, [&texts[..], &elements].concat());
    }
}
