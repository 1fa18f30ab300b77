//! The tree of a configuration file, every value with its place.

use serde_json::{Map, Number, Value as Json};

use super::fault::Place;

/// One value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    pub value: Value,
    pub place: Place,
    /// The text as written in the file, where a variable was replaced in it. Such a value is never
    /// shown; this text is.
    pub template: Option<String>,
}

/// What a node holds.
#[derive(Clone, Debug)]
pub enum Value {
    Scalar(Scalar),
    Seq(Vec<Node>),
    Map(Vec<Entry>),
    /// A value that could not be had (an unset variable). Its fault is reported already, so it
    /// passes every further check.
    Hole,
}

/// One key of a map; keys are in the order of the file and unique.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

/// A scalar with its text as written.
#[derive(Clone, Debug)]
pub struct Scalar {
    pub data: Data,
    pub text: String,
    /// Written without quotes or tag, so that its type follows from its text.
    pub plain: bool,
}

/// A scalar's type and, where it is not text, its value.
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
    /// The value under `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }

    /// The entry of `key`, if this is a map that has it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The entries, if this is a map; else none.
    pub fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items, if this is a list; else none.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::Seq(items) => items,
            _ => &[],
        }
    }

    /// The scalar, if this is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.value {
            Value::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// The text, if this is text (not a number, and so on).
    pub fn text(&self) -> Option<&str> {
        self.scalar().filter(|scalar| scalar.data == Data::Text).map(|scalar| scalar.text.as_str())
    }

    /// Whether nothing was written: `key:` alone, `~` or `null`.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|scalar| scalar.data == Data::Null)
    }

    /// The scalar's text as it may be shown: a replaced variable shows as `${NAME}`.
    pub fn shown(&self) -> &str {
        match (&self.template, self.scalar()) {
            (Some(template), _) => template,
            (None, Some(scalar)) => &scalar.text,
            (None, None) => "",
        }
    }

    /// The scalar's text in double quotes, or the bare `${NAME}` in backticks.
    pub fn quoted(&self) -> String {
        match &self.template {
            Some(template) => format!("`{template}`"),
            None => format!("{:?}", self.shown()),
        }
    }

    /// Whether a variable could not be replaced here or below.
    pub fn has_hole(&self) -> bool {
        match &self.value {
            Value::Hole => true,
            Value::Scalar(_) => false,
            Value::Seq(items) => items.iter().any(Node::has_hole),
            Value::Map(entries) => entries.iter().any(|entry| entry.node.has_hole()),
        }
    }

    /// Every value here and below that came from a variable.
    pub fn secrets(&self) -> Vec<&str> {
        match &self.value {
            Value::Scalar(scalar) if self.template.is_some() => vec![&scalar.text],
            Value::Scalar(_) | Value::Hole => Vec::new(),
            Value::Seq(items) => items.iter().flat_map(Node::secrets).collect(),
            Value::Map(entries) => entries.iter().flat_map(|entry| entry.node.secrets()).collect(),
        }
    }

    /// How many nodes this is, and how many of them lie on the longest way down.
    pub fn extent(&self) -> (usize, usize) {
        let below: Vec<(usize, usize)> = match &self.value {
            Value::Scalar(_) | Value::Hole => Vec::new(),
            Value::Seq(items) => items.iter().map(Node::extent).collect(),
            Value::Map(entries) => entries.iter().map(|entry| entry.node.extent()).collect(),
        };
        let count = below.iter().map(|(count, _)| count).sum::<usize>();
        (count + 1, below.iter().map(|(_, depth)| *depth).max().unwrap_or(0) + 1)
    }

    /// The node a JSON pointer leads to, or the nearest one above it.
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

    /// The value as JSON, without places.
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

/// A JSON object of these entries.
pub fn entries_to_json<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Json {
    let pairs = entries.into_iter().map(|entry| (entry.key.clone(), entry.node.to_json()));
    Json::Object(pairs.collect::<Map<_, _>>())
}
