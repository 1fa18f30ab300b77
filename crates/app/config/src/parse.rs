//! Parses YAML into a tree of nodes with positions.
//!
//! A syntax error ends the file. Other errors, such as a duplicate key or an unknown tag, are
//! reported and skipped, so that one run shows all of them.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::fault::{Fault, Place};
use super::node::{Data, Entry, Node, Scalar, Value};
use super::scalar;
use super::syntax::syntax_fault;

/// Deepest nesting of lists and maps, with aliases expanded.
const DEPTH_MAX: usize = 64;

/// Maximum number of values in a file with aliases expanded. Without a limit, a few lines of nested
/// aliases would exhaust memory.
const NODES_MAX: usize = 200_000;

/// Parses one document; `None` for a file without content. Recoverable errors go into `faults`.
///
/// # Errors
/// Returns the error that stopped parsing.
pub fn parse(file: &Arc<str>, text: &str, faults: &mut Vec<Fault>) -> Result<Option<Node>, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut builder = Builder::new(file.clone());
    let outcome = builder.run(text);
    faults.append(&mut builder.faults);
    outcome.map(|()| builder.root.filter(|root| !root.is_null()))
}

/// The tree under construction.
struct Builder {
    file: Arc<str>,
    open: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    documents: usize,
    nodes: usize,
    root: Option<Node>,
    faults: Vec<Fault>,
}

/// An open list or map.
struct Frame {
    place: Place,
    anchor: usize,
    body: Body,
}

enum Body {
    Seq(Vec<Node>),
    Map(MapBody),
}

#[derive(Default)]
struct MapBody {
    entries: Vec<Entry>,
    /// Index of each key in `entries`.
    index: HashMap<String, usize>,
    /// A key whose value has not been parsed yet.
    key: Option<Key>,
    /// Values of `<<` keys, which are merged after the other keys of the map.
    merges: Vec<Node>,
}

/// The left side of `key: value`.
enum Key {
    Name(String, Place),
    Merge,
    /// The rest of a call that the last value begins, as in `{ p99: quantile(cost, 0.99) }`: in
    /// YAML, the comma ends the value.
    Argument(String),
    /// An invalid key that was reported; its value is dropped.
    Bad,
}

impl Builder {
    fn new(file: Arc<str>) -> Self {
        Builder {
            file,
            open: Vec::new(),
            anchors: HashMap::new(),
            documents: 0,
            nodes: 0,
            root: None,
            faults: Vec::new(),
        }
    }

    fn run(&mut self, text: &str) -> Result<(), Fault> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| syntax_fault(&self.file, text, &error))?;
            let place = self.place(&span.start);
            self.event(event, place)?;
        }
        Ok(())
    }

    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(_) => self.document(&place),
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref(), place);
                self.finish(node, anchor, 1)
            }
            Event::Alias(anchor) => self.alias(anchor, &place),
            Event::SequenceStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "seq", &place);
                self.begin(place, anchor, Body::Seq(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.collection_tag(tag.as_deref(), "map", &place);
                self.begin(place, anchor, Body::Map(MapBody::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn place(&self, marker: &Marker) -> Place {
        Place { file: self.file.clone(), line: marker.line(), column: marker.col() + 1 }
    }

    fn document(&mut self, place: &Place) -> Result<(), Fault> {
        self.documents += 1;
        if self.documents > 1 {
            let advice = "keep one document per file; move the second one into a separate file";
            return Err(Fault::new(place, "a second YAML document begins here", advice));
        }
        Ok(())
    }

    fn begin(&mut self, place: Place, anchor: usize, body: Body) -> Result<(), Fault> {
        self.check_depth(1, &place)?;
        self.open.push(Frame { place, anchor, body });
        Ok(())
    }

    fn end(&mut self) -> Result<(), Fault> {
        let Some(Frame { place, anchor, body }) = self.open.pop() else { return Ok(()) };
        let value = match body {
            Body::Seq(items) => Value::Seq(items),
            Body::Map(map) => Value::Map(self.merge(map)),
        };
        self.finish(Node { value, place, template: None, substituted: Vec::new() }, anchor, 1)
    }

    /// Attaches a complete value of `count` nodes.
    fn finish(&mut self, node: Node, anchor: usize, count: usize) -> Result<(), Fault> {
        self.count(count, &node.place)?;
        if anchor != 0 {
            // The copy under the anchor also uses memory.
            self.count(node.extent().0, &node.place)?;
            self.anchors.insert(anchor, node.clone());
        }
        match self.open.last_mut().map(|frame| &mut frame.body) {
            None => self.root = Some(node),
            Some(Body::Seq(items)) => items.push(node),
            Some(Body::Map(map)) => {
                let fault = map.add(node);
                self.faults.extend(fault);
            }
        }
        Ok(())
    }

    fn alias(&mut self, anchor: usize, place: &Place) -> Result<(), Fault> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Fault::new(
                place,
                "the alias refers to a value that contains it",
                "remove the alias",
            ));
        };
        let (count, depth) = node.extent();
        self.check_depth(depth, place)?;
        self.finish(node, 0, count)
    }

    fn count(&mut self, more: usize, place: &Place) -> Result<(), Fault> {
        self.nodes += more;
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let what = format!("more than {NODES_MAX} values after aliases are expanded");
        Err(Fault::new(place, what, "split the file, or use fewer aliases"))
    }

    fn check_depth(&self, more: usize, place: &Place) -> Result<(), Fault> {
        if self.open.len() + more <= DEPTH_MAX {
            return Ok(());
        }
        Err(Fault::new(
            place,
            format!("nested more than {DEPTH_MAX} levels deep"),
            "remove some levels",
        ))
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, place: Place) -> Node {
        let resolved = scalar::resolve(text);
        let (data, plain) =
            match tag.filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str()) {
                Some("str") => (Data::Text, false),
                Some("int" | "float" | "bool" | "null") => (resolved, false),
                core => {
                    if core.is_some()
                        || tag.is_some_and(|tag| tag.suffix != "!" && !tag.suffix.is_empty())
                    {
                        self.tag_fault(tag, &place);
                    }
                    let plain = style == ScalarStyle::Plain && tag.is_none();
                    (if plain { resolved } else { Data::Text }, plain)
                }
            };
        let value = Value::Scalar(Scalar { data, text: text.to_owned(), plain });
        Node { value, place, template: None, substituted: Vec::new() }
    }

    fn collection_tag(&mut self, tag: Option<&Tag>, expected: &str, place: &Place) {
        if tag.is_some_and(|tag| !tag.is_yaml_core_schema() || tag.suffix != expected) {
            self.tag_fault(tag, place);
        }
    }

    fn tag_fault(&mut self, tag: Option<&Tag>, place: &Place) {
        let name = tag.map(Tag::to_string).unwrap_or_default();
        self.faults.push(Fault::new(place, format!("unknown tag `{name}`"), "remove it"));
    }

    /// Returns the entries of the map, followed by the entries of its `<<` keys. The entries of the
    /// map take precedence.
    fn merge(&mut self, mut map: MapBody) -> Vec<Entry> {
        for merged in std::mem::take(&mut map.merges) {
            match merged.value {
                Value::Map(entries) => map.fill_in(entries),
                Value::Seq(items) => {
                    for item in items {
                        match item.value {
                            Value::Map(entries) => map.fill_in(entries),
                            _ => self.faults.push(bad_merge(&item.place)),
                        }
                    }
                }
                _ => self.faults.push(bad_merge(&merged.place)),
            }
        }
        map.entries
    }
}

impl MapBody {
    /// Adds a key, or the value of the last key.
    fn add(&mut self, node: Node) -> Option<Fault> {
        match self.key.take() {
            None => {
                let (key, fault) = self.read_key(node);
                self.key = Some(key);
                fault
            }
            Some(Key::Name(key, place)) => {
                self.index.insert(key.clone(), self.entries.len());
                self.entries.push(Entry { key, place, node });
                None
            }
            Some(Key::Merge) => {
                self.merges.push(node);
                None
            }
            Some(Key::Argument(text)) => self.continue_call(&text, &node),
            Some(Key::Bad) => None,
        }
    }

    fn read_key(&self, node: Node) -> (Key, Option<Fault>) {
        let Value::Scalar(scalar) = node.value else {
            return (
                Key::Bad,
                Some(Fault::new(&node.place, "a key is a list or a map", "use a string")),
            );
        };
        if scalar.plain && scalar.text == "<<" {
            return (Key::Merge, None);
        }
        if scalar.plain && scalar.text.contains(')') && self.open_call().is_some() {
            return (Key::Argument(scalar.text), None);
        }
        match self.index.get(&scalar.text).map(|index| &self.entries[*index].place) {
            Some(first) => (Key::Bad, Some(twice(&scalar.text, &node.place, first))),
            None => (Key::Name(scalar.text, node.place), None),
        }
    }

    /// Returns the last value if it begins a call without ending it.
    fn open_call(&self) -> Option<&Scalar> {
        let scalar = self.entries.last()?.node.scalar()?;
        let count = |character: char| scalar.text.matches(character).count();
        (scalar.plain && scalar.data == Data::Text && count('(') > count(')')).then_some(scalar)
    }

    /// Appends another argument to the call that the last value begins.
    fn continue_call(&mut self, text: &str, node: &Node) -> Option<Fault> {
        if !node.is_null() || !node.shown().is_empty() {
            let advice = "put quotes around a value with parentheses and a colon";
            return Some(Fault::new(&node.place, format!("`{text}` has a value"), advice));
        }
        if let Some(Value::Scalar(call)) =
            self.entries.last_mut().map(|entry| &mut entry.node.value)
        {
            call.text = format!("{}, {text}", call.text);
        }
        None
    }

    fn fill_in(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            if !self.index.contains_key(&entry.key) {
                self.index.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }
}

/// Returns the error for a duplicate key, id or setting.
pub fn twice(key: &str, place: &Place, first: &Place) -> Fault {
    Fault::new(
        place,
        format!("duplicate key `{key}`"),
        format!("keep one of them; the first is at {first}"),
    )
}

fn bad_merge(place: &Place) -> Fault {
    Fault::new(place, "`<<` can merge only a map or a list of maps", "use, for example, <<: *name")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<serde_json::Value>, Vec<String>) {
        let mut faults = Vec::new();
        let root = parse(&"f.yaml".into(), text, &mut faults).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        (root.map(|root| root.to_json()), faults.iter().map(Fault::to_string).collect())
    }

    fn good(text: &str) -> String {
        let (root, faults) = read(text);
        assert_eq!(faults, Vec::<String>::new(), "{text}");
        root.map(|root| root.to_string()).unwrap_or_default()
    }

    fn bad(text: &str) -> Vec<String> {
        read(text).1
    }

    /// A comma inside a call does not end the call, although it ends the value in YAML.
    #[test]
    fn calls_with_several_arguments() {
        assert_eq!(
            good(
                "{ n: count(), p50: quantile(cost, 0.5), p99: quantile(cost, 0.99), t: top(a, 3) }"
            ),
            r#"{"n":"count()","p50":"quantile(cost, 0.5)","p99":"quantile(cost, 0.99)","t":"top(a, 3)"}"#
        );
        assert_eq!(
            bad("{ a: f(x, 1): 2 }"),
            [
                "f.yaml:1:15: `1)` has a value; put quotes around a value with parentheses and a colon"
            ]
        );
        assert_eq!(good("{ a: f(x, b: 1 }"), r#"{"a":"f(x","b":1}"#);
        assert_eq!(good("{ a: 'f(x', b): }"), r#"{"a":"f(x","b)":null}"#);
    }

    /// Plain scalars are typed; quoted and tagged scalars have their explicit type.
    #[test]
    fn types_of_scalars() {
        assert_eq!(
            good("a: 1\nb: \"1\"\nc: !!str 1\nd: ~\ne: [true, 'true', 1.5]\nf:\ng: ! 1\n"),
            r#"{"a":1,"b":"1","c":"1","d":null,"e":[true,"true",1.5],"f":null,"g":"1"}"#
        );
        assert_eq!(
            (good(""), good("# nothing\n"), good("\u{feff}a: 1")),
            ("".into(), "".into(), r#"{"a":1}"#.into())
        );
    }

    /// Aliases repeat their anchor; `<<` adds keys that the map lacks, and the first source wins.
    #[test]
    fn anchors_and_merge_keys() {
        assert_eq!(
            good("x: &x {a: 1, b: 2}\ny: *x\nz:\n  <<: *x\n  b: 3\n"),
            r#"{"x":{"a":1,"b":2},"y":{"a":1,"b":2},"z":{"b":3,"a":1}}"#
        );
        assert_eq!(
            good("p: &p {a: 1}\nq: &q {a: 2, c: 3}\nr: {<<: [*p, *q]}\ns: {\"<<\": 1}\n"),
            r#"{"p":{"a":1},"q":{"a":2,"c":3},"r":{"a":1,"c":3},"s":{"<<":1}}"#
        );
    }

    /// Structural errors have a position, and parsing continues after them.
    #[test]
    fn structure_faults() {
        for (text, faults) in [
            (
                "a: 1\nb: 2\na: 3\n",
                vec!["f.yaml:3:1: duplicate key `a`; keep one of them; the first is at f.yaml:1:1"],
            ),
            (
                "a: !x 1\nb: !y [2]\n",
                vec![
                    "f.yaml:1:4: unknown tag `!x`; remove it",
                    "f.yaml:2:4: unknown tag `!y`; remove it",
                ],
            ),
            ("? [a]\n: 1\n", vec!["f.yaml:1:3: a key is a list or a map; use a string"]),
            (
                "a: {<<: 1}",
                vec![
                    "f.yaml:1:9: `<<` can merge only a map or a list of maps; use, for example, \
                     <<: *name",
                ],
            ),
            (
                "a: 1\n---\nb: 1\n",
                vec![
                    "f.yaml:2:1: a second YAML document begins here; keep one document per file; \
                     move the second one into a separate file",
                ],
            ),
            (
                "a: &x [*x]",
                vec!["f.yaml:1:8: the alias refers to a value that contains it; remove the alias"],
            ),
        ] {
            assert_eq!(bad(text), faults, "{text}");
        }
    }

    /// Nested aliases that would expand to millions of values, and very deep nesting, are errors.
    #[test]
    fn bounds() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..9 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        assert_eq!(bad(&bomb).len(), 1);
        assert!(bad(&bomb)[0].contains("more than 200000 values after aliases are expanded"));
        assert!(
            bad(&"- ".repeat(100_000))[0].contains("f.yaml:1:129: nested more than 64 levels deep")
        );
        assert!(
            bad(&"[".repeat(100_000))[0]
                .ends_with("recursion limit exceeded; remove some levels of brackets")
        );
        let mut tower = String::from("a0: &a0 [x]\n");
        for level in 1..70 {
            tower += &format!("a{level}: &a{level} [*a{}]\n", level - 1);
        }
        assert!(bad(&tower)[0].contains("nested more than 64 levels deep"));
        assert!(good(&("[".repeat(64) + &"]".repeat(64))).starts_with("[["));
    }
}
