//! What an aggregate computes: its groups and its numbers.

use super::totals::{Number, Totals};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// What decides the result of a window. Part of every snapshot: a window that began under other
/// options ends under them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definition {
    /// The fields whose values make a group.
    pub group_by: Vec<String>,
    /// The aggregates, with their names.
    pub emit: Vec<(String, Emit)>,
    /// Length of the window in seconds.
    pub window_s: u64,
}

impl Definition {
    /// Returns the fields that aggregates read, each once.
    pub fn fields(&self) -> Vec<&str> {
        let mut fields: Vec<&str> = Vec::new();
        for field in self.emit.iter().filter_map(|(_, emit)| emit.field()) {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    }
}

/// Whether a text is a field, not a template or an expression.
pub fn is_field(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "(){}*<>=,\"'".contains(c))
}

/// An aggregate.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(inline, extend("format" = "aggregate"))]
pub struct Emit(#[schemars(with = "String")] Function);

#[derive(Clone, Debug, PartialEq)]
enum Function {
    Count,
    OfField(Aggregate, String),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Aggregate {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl Aggregate {
    const ALL: [(&str, Aggregate); 5] = [
        ("count", Aggregate::Count),
        ("sum", Aggregate::Sum),
        ("min", Aggregate::Min),
        ("max", Aggregate::Max),
        ("avg", Aggregate::Avg),
    ];

    fn name(self) -> &'static str {
        let found = Aggregate::ALL.iter().find(|(_, aggregate)| *aggregate == self);
        found.map_or("", |(name, _)| name)
    }

    fn of(self, number: &Number) -> Option<f64> {
        let is_empty = number.count == 0;
        match self {
            Aggregate::Count => Some(number.count as f64),
            _ if is_empty => None,
            Aggregate::Sum => Some(number.sum),
            Aggregate::Min => Some(number.min),
            Aggregate::Max => Some(number.max),
            Aggregate::Avg => Some(number.sum / number.count as f64),
        }
    }
}

impl Emit {
    /// Returns the field that it reads.
    pub fn field(&self) -> Option<&str> {
        match &self.0 {
            Function::Count => None,
            Function::OfField(_, field) => Some(field),
        }
    }

    /// Whether results of several windows add up.
    pub fn is_delta(&self) -> bool {
        match self.0 {
            Function::Count => true,
            Function::OfField(aggregate, _) => {
                matches!(aggregate, Aggregate::Count | Aggregate::Sum)
            }
        }
    }

    /// Returns its value; `None` if it has none, such as the least of no number. `fields` are those
    /// of the definition, in the order of the totals' numbers.
    pub fn value(&self, totals: &Totals, fields: &[&str]) -> Option<f64> {
        let value = match &self.0 {
            Function::Count => Some(totals.events as f64),
            Function::OfField(aggregate, field) => {
                let index = fields.iter().position(|name| name == field)?;
                aggregate.of(totals.numbers.get(index)?)
            }
        };
        value.filter(|value| value.is_finite())
    }
}

impl FromStr for Emit {
    type Err = String;

    fn from_str(text: &str) -> Result<Emit, String> {
        let advice = "write `count()`, or `count`, `sum`, `min`, `max` or `avg` of a field, such as `sum(bytes)`";
        let call = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let (name, field) =
            call.ok_or_else(|| format!("`{text}` is not an aggregate; {advice}"))?;
        let (name, field) = (name.trim(), field.trim());
        let found = Aggregate::ALL.iter().find(|(of, _)| *of == name);
        match (found, field) {
            (Some((_, Aggregate::Count)), "") => Ok(Emit(Function::Count)),
            (Some(_), "") => Err(format!("`{text}` names no field; {advice}")),
            (Some(_), field) if !is_field(field) => {
                Err(format!("`{field}` is not a field; {advice}"))
            }
            (Some((_, aggregate)), field) => {
                Ok(Emit(Function::OfField(*aggregate, field.to_owned())))
            }
            (None, _) => Err(format!("`{name}` is not an aggregate; {advice}")),
        }
    }
}

impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Function::Count => f.write_str("count()"),
            Function::OfField(aggregate, field) => write!(f, "{}({field})", aggregate.name()),
        }
    }
}

impl<'de> Deserialize<'de> for Emit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Emit, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Emit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
