//! The tree of a configuration file, with the position of every value.

use serde_json::{Map, Number, Value as Json};

use super::fault::Place;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub place: Place,
    /// The text as written in the file, if a variable was substituted in it. Messages show it
    /// instead of the value.
    pub template: Option<String>,
    /// The substituted values, without defaults.
    pub substituted: Vec<Substituted>,
}

/// A value that replaced a variable or the name of a file.
#[derive(Clone, Debug)]
pub struct Substituted {
    /// Text that messages show instead of the value, such as `${NAME}`.
    pub shown: String,
    /// The value.
    pub value: String,
}

/// The value of a node.
#[derive(Clone, Debug)]
pub enum Value {
    Scalar(Scalar),
    Seq(Vec<Node>),
    Map(Vec<Entry>),
    /// A value that could not be determined, such as an unset variable. The error was already
    /// reported, so the value passes all further checks.
    Hole,
}

/// A key of a map; keys are in file order and unique.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

/// A scalar, with its text as written.
#[derive(Clone, Debug)]
pub struct Scalar {
    pub data: Data,
    pub text: String,
    /// Whether the scalar was written without quotes or tag, so that its text determines its type.
    pub plain: bool,
}

/// Type of a scalar, and its value unless it is text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Data {
    Null,
    Bool(bool),
    /// Always within `i64::MIN..=u64::MAX`.
    Int(i128),
    /// Always finite.
    Float(f64),
    Text,
}

impl Node {
    /// Returns the value of `key`, if this is a map that contains the key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// Returns the entry of `key`, if this is a map that contains the key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the entries of a map; empty for other values.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the items of a list; empty for other values.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Seq(items) => items,
            _ => &[],
        }
    }

    /// Returns the scalar; `None` for other values.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Returns the text of a text scalar; `None` for a number or another type.
    pub fn text(&self) -> Option<&str> {
        self.scalar().filter(|scalar| scalar.data == Data::Text).map(|scalar| scalar.text.as_str())
    }

    /// Returns whether the value is absent: only `key:`, `~` or `null`.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| scalar.data == Data::Null)
    }

    /// Returns the scalar's text for messages: a variable appears as `${NAME}`.
    pub fn shown(&self) -> &str {
        match (&self.template, self.scalar()) {
            (Some(template), _) => template,
            (None, Some(scalar)) => &scalar.text,
            (None, None) => "",
        }
    }

    /// Returns the scalar's text in double quotes, or `${NAME}` in backticks.
    pub fn quoted(&self) -> String {
        match &self.template {
            Some(template) => format!("`{template}`"),
            None => format!("{:?}", self.shown()),
        }
    }

    /// Returns whether a variable in this node or below could not be substituted.
    pub fn has_hole(&self) -> bool {
        match &self.value {
            Value::Hole => true,
            Value::Scalar(_) => false,
            Value::Seq(items) => items.iter().any(Node::has_hole),
            Value::Map(entries) => entries.iter().any(|entry| entry.node.has_hole()),
        }
    }

    /// Returns every value in this node and below that came from a variable.
    pub fn all_substituted(&self) -> Vec<&Substituted> {
        match &self.value {
            Value::Scalar(_) | Value::Hole => self.substituted.iter().collect(),
            Value::Seq(items) => items.iter().flat_map(Node::all_substituted).collect(),
            Value::Map(entries) => {
                entries.iter().flat_map(|entry| entry.node.all_substituted()).collect()
            }
        }
    }

    /// Returns the number of nodes, and the depth of the tree.
    pub fn extent(&self) -> (usize, usize) {
        let below: Vec<(usize, usize)> = match &self.value {
            Value::Scalar(_) | Value::Hole => Vec::new(),
            Value::Seq(items) => items.iter().map(Node::extent).collect(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.extent()).collect(),
        };
        let count = below.iter().map(|(count, _)| count).sum::<usize>();
        (count + 1, below.iter().map(|(_, depth)| *depth).max().unwrap_or(0) + 1)
    }

    /// Returns the node at a JSON pointer, or its nearest existing ancestor.
    pub fn nearest(&self, pointer: &str) -> &Node {
        let mut node = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let item = step.parse().ok().and_then(|index: usize| node.items().get(index));
            match item.or_else(|| node.get(&step)) {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Returns the value as JSON, without positions.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar(scalar) => scalar.to_json(),
            Value::Seq(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => entries_to_json(entries),
            Value::Hole => Json::Null,
        }
    }
}

impl Scalar {
    fn to_json(&self) -> Json {
        match self.data {
            Data::Null => Json::Null,
            Data::Bool(value) => Json::Bool(value),
            Data::Int(value) => Number::from_i128(value).map_or(Json::Null, Json::Number),
            Data::Float(value) => Number::from_f64(value).map_or(Json::Null, Json::Number),
            Data::Text => Json::String(self.text.clone()),
        }
    }
}

/// Returns a JSON object of these entries.
pub fn entries_to_json<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Json {
    let pairs = entries.into_iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
    Json::Object(pairs.collect::<Map<_, _>>())
}
