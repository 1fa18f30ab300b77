//! Finds several values in JSON by their paths, in one pass over the text.

use super::cursor::{Cursor, DEPTH_MAX, NOT_JSON};
use super::{check_end, check_utf8};
use crate::fields::Reason;
use millstream_columns::{Cell, Kind, Step, unescape};
use std::ops::Range;

/// Distinct paths, arranged as a tree. Values that are not on any path are skipped, but must be
/// valid JSON.
#[derive(Debug, Default)]
pub struct JsonPaths {
    /// The paths, sorted and without duplicates.
    paths: Vec<Vec<Step>>,
    /// The nodes. Each node follows its ancestors, and the first node is the whole text.
    nodes: Vec<Node>,
}

/// A value that a path selects or passes through.
#[derive(Debug)]
struct Node {
    /// The path that selects the value.
    path: Option<usize>,
    /// The paths that select the value or pass through it.
    below: Range<usize>,
    /// Members of the value and their nodes, sorted by name.
    members: Vec<(Box<[u8]>, usize)>,
    /// Elements of the value and their nodes, sorted by index.
    elements: Vec<(u32, usize)>,
}

impl JsonPaths {
    /// Creates a tree of paths. Each path must have at most 100 steps.
    pub fn new(mut paths: Vec<Vec<Step>>) -> JsonPaths {
        paths.sort();
        paths.dedup();
        let all = 0..paths.len();
        let mut tree = JsonPaths { paths, nodes: Vec::new() };
        tree.add_node(all, 0);
        tree
    }

    /// Returns the index of a path among the values that [`JsonPaths::read`] returns.
    pub fn index(&self, path: &[Step]) -> Option<usize> {
        self.paths.binary_search_by(|known| known[..].cmp(path)).ok()
    }

    /// Adds the node for the paths `below`, whose first `depth` steps are equal. Returns the index
    /// of the node.
    fn add_node(&mut self, below: Range<usize>, depth: usize) -> usize {
        let number = self.nodes.len();
        let is_end = self.paths.get(below.start).is_some_and(|path| path.len() == depth);
        let path = (is_end && !below.is_empty()).then_some(below.start);
        let (members, elements) = (Vec::new(), Vec::new());
        self.nodes.push(Node { path, below: below.clone(), members, elements });
        let mut start = below.start + usize::from(path.is_some());
        while start < below.end {
            let step = self.paths[start][depth].clone();
            let of_step = self.paths[start..below.end].iter();
            let end = start + of_step.take_while(|path| path[depth] == step).count();
            let child = self.add_node(start..end, depth + 1);
            let node = &mut self.nodes[number];
            match step {
                Step::Member(name) => node.members.push((name.into_bytes().into(), child)),
                Step::Element(index) => node.elements.push((index, child)),
            }
            start = end;
        }
        number
    }

    /// Finds the value for each path in `text`. Returns false and no values if the text is not
    /// valid UTF-8 or JSON, or has more than 128 levels.
    ///
    /// The cells refer to the text. Strings have no quotes, and are [`Kind::Escaped`] if they
    /// contain escapes. Other values are unchanged. `null` and missing values are absent. If
    /// several members have the same name, the last one counts.
    pub fn read(&self, text: &[u8], values: &mut Vec<Cell>) -> bool {
        values.clear();
        values.resize(self.paths.len(), Cell::ABSENT);
        let mut cursor = Cursor { text, line: Cell::new(Kind::Text, 0, text.len()), at: 0 };
        let is_json = self.read_all(&mut cursor, values).is_ok();
        if !is_json {
            values.fill(Cell::ABSENT);
        }
        is_json
    }

    fn read_all(&self, cursor: &mut Cursor<'_>, values: &mut [Cell]) -> Result<(), Reason> {
        check_utf8(cursor)?;
        self.value(cursor, 0, 0, values)?;
        check_end(cursor)
    }

    /// Reads the value for a node. `depth` is the number of enclosing values.
    fn value(
        &self,
        cursor: &mut Cursor<'_>,
        node: usize,
        depth: u32,
        values: &mut [Cell],
    ) -> Result<(), Reason> {
        let Some(node) = self.nodes.get(node) else { return Err(NOT_JSON) };
        // Clears the values from an earlier member with the same name.
        values[node.below.clone()].fill(Cell::ABSENT);
        let first = cursor.token();
        let start = cursor.at;
        let kind = match first {
            b'{' if !node.members.is_empty() => self.object(cursor, node, depth, values)?,
            b'[' if !node.elements.is_empty() => self.array(cursor, node, depth, values)?,
            _ => cursor.value(first, depth, DEPTH_MAX)?.kind(),
        };
        if let Some(path) = node.path {
            values[path] = cell(kind, start..cursor.at);
        }
        Ok(())
    }

    fn object(
        &self,
        cursor: &mut Cursor<'_>,
        node: &Node,
        depth: u32,
        values: &mut [Cell],
    ) -> Result<Kind, Reason> {
        self.each_child(cursor, b'}', depth, values, |cursor| {
            let (start, end) = cursor.key()?;
            let name = unescape(&cursor.text[start..end]);
            let child = node.members.binary_search_by(|(known, _)| (**known).cmp(&*name)).ok();
            Ok(child.map(|child| node.members[child].1))
        })?;
        Ok(Kind::Object)
    }

    fn array(
        &self,
        cursor: &mut Cursor<'_>,
        node: &Node,
        depth: u32,
        values: &mut [Cell],
    ) -> Result<Kind, Reason> {
        let mut wanted = node.elements.iter().peekable();
        let mut indexes = 0..;
        self.each_child(cursor, b']', depth, values, |_| {
            let index = indexes.next();
            let child = wanted.next_if(|(position, _)| Some(*position) == index);
            Ok(child.map(|(_, child)| *child))
        })?;
        Ok(Kind::Array)
    }

    /// Reads the members or elements of a container up to its closing bracket. `find` returns the
    /// node of the next child if the child is on a path.
    fn each_child(
        &self,
        cursor: &mut Cursor<'_>,
        close: u8,
        depth: u32,
        values: &mut [Cell],
        mut find: impl FnMut(&mut Cursor<'_>) -> Result<Option<usize>, Reason>,
    ) -> Result<(), Reason> {
        cursor.at += 1;
        let mut has_next = !closes(cursor, close);
        while has_next {
            match find(cursor)? {
                Some(child) => self.value(cursor, child, depth + 1, values)?,
                None => skip(cursor, depth + 1)?,
            }
            has_next = has_more(cursor, close)?;
        }
        Ok(())
    }
}

/// Skips a value. `depth` is the number of enclosing values.
fn skip(cursor: &mut Cursor<'_>, depth: u32) -> Result<(), Reason> {
    let first = cursor.token();
    cursor.value(first, depth, DEPTH_MAX)?;
    Ok(())
}

/// Skips the closing bracket if the container is empty. Returns whether it is empty.
fn closes(cursor: &mut Cursor<'_>, close: u8) -> bool {
    let is_empty = cursor.token() == close;
    cursor.at += usize::from(is_empty);
    is_empty
}

/// Skips a comma or the closing bracket. Returns true for a comma.
fn has_more(cursor: &mut Cursor<'_>, close: u8) -> Result<bool, Reason> {
    let byte = cursor.token();
    if byte != b',' && byte != close {
        return Err(NOT_JSON);
    }
    cursor.at += 1;
    Ok(byte == b',')
}

/// Returns the cell for a value at `place` in the text.
fn cell(kind: Kind, place: Range<usize>) -> Cell {
    match kind {
        Kind::Null => Cell::ABSENT,
        Kind::Text | Kind::Escaped => Cell::new(kind, place.start + 1, place.len() - 2),
        kind => Cell::new(kind, place.start, place.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str) -> Step {
        Step::Member(name.to_owned())
    }

    /// Returns the kind and text of each path's value, joined. Paths are names and indexes
    /// separated by `/`.
    fn find(paths: &[&str], text: &str) -> Vec<String> {
        let step = |part: &str| part.parse().map_or_else(|_| member(part), Step::Element);
        let steps = |path: &str| path.split('/').map(step).collect::<Vec<Step>>();
        let tree = JsonPaths::new(paths.iter().map(|path| steps(path)).collect());
        let mut values = Vec::new();
        let is_json = tree.read(text.as_bytes(), &mut values);
        assert_eq!(is_json, serde_json::from_str::<serde_json::Value>(text).is_ok(), "{text}");
        let show = |path: &&str| {
            let cell = values[tree.index(&steps(path)).unwrap()];
            format!("{:?} {}", cell.kind(), &text[cell.start()..][..cell.len()])
        };
        paths.iter().map(show).collect()
    }

    #[test]
    fn values_are_found_in_one_pass() {
        let text = r#" { "a" : {"b":[10, {"c":"x\ny"}, [true]],"d":null}, "skip": [{"a":1}],
                    "e.f":"plain", "g":-1.5e3,"h":false,"i":{} } "#;
        let paths =
            ["a/b/1/c", "a/b/0", "a/b/2", "a/b/3", "a/d", "a/x", "e.f", "g", "h", "i", "a/b/1"];
        let expected = [
            r"Escaped x\ny",
            "Int 10",
            "Array [true]",
            "Absent ",
            "Absent ",
            "Absent ",
            "Text plain",
            "Float -1.5e3",
            "False false",
            "Object {}",
            r#"Object {"c":"x\ny"}"#,
        ];
        assert_eq!(find(&paths, text), expected);
    }

    #[test]
    fn names_may_be_escaped_and_the_last_of_several_counts() {
        assert_eq!(find(&["ab"], r#"{"\u0061b":1}"#), ["Int 1"]);
        assert_eq!(find(&["a/b", "a/c"], r#"{"a":{"b":1},"a":{"c":2}}"#), ["Absent ", "Int 2"]);
        assert_eq!(find(&["a/b", "a"], r#"{"a":{"b":1},"a":null}"#), ["Absent "; 2]);
        assert_eq!(find(&["a", "a/b"], r#"{"a":1,"a":{"b":2}}"#), [r#"Object {"b":2}"#, "Int 2"]);
    }

    #[test]
    fn other_shapes_than_those_of_the_path_have_no_value() {
        assert_eq!(find(&["a/b"], r#"{"a":[{"b":1}]}"#), ["Absent "]);
        assert_eq!(find(&["a/0"], r#"{"a":{"0":1}}"#), ["Absent "]);
        assert_eq!(find(&["a/0"], r#"{"a":[]}"#), ["Absent "]);
        assert_eq!(find(&["0/a"], r#"[{"a":"x"},{"a":"y"}]"#), ["Text x"]);
        assert_eq!(find(&["a"], "7"), ["Absent "]);
    }

    #[test]
    fn invalid_json_has_no_values() {
        for text in [
            "",
            " ",
            "a=1",
            r#"{"a":1"#,
            r#"{"a":1,}"#,
            r#"{"a":1}x"#,
            r#"{"a":1,"b":[1 2]}"#,
            r#"{"a":1,"b":{"c":tru}}"#,
            r#"{"a":1 "b":2}"#,
            r#"{"a":1]"#,
            r#"{"a":[1}"#,
            r#"{"a" 1}"#,
            "{\"a\":1,\"b\":\"\t\"}",
        ] {
            assert_eq!(find(&["a", "a/0"], text), ["Absent ", "Absent "], "{text}");
        }
        let mut values = Vec::new();
        let tree = JsonPaths::new(vec![vec![member("a")]]);
        assert!(!tree.read(b"{\"a\":1,\"b\":\"\xFF\"}", &mut values), "not UTF-8");
        assert_eq!(values, [Cell::ABSENT]);
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(tree.read(nested(128).as_bytes(), &mut values));
        assert!(!tree.read(nested(129).as_bytes(), &mut values), "too deep");
    }
}
