//! The functions that a task computes over the events of a group.

use millstream_rules::{Accumulator, Input};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Maximum number of values in the result of `top`.
const TOP_MAX: u16 = 100;

/// Counters of `top` per requested value. More counters reduce the error.
const COUNTERS_PER_TEXT: u16 = 10;

/// A function over the events of a group.
#[derive(Clone, Debug, PartialEq, JsonSchema)]
#[schemars(inline, extend("format" = "aggregate"))]
pub struct Emit(#[schemars(with = "String")] Function);

/// A function and its arguments.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// Number of events, or of events whose field is a number.
    Count(Option<String>),
    /// Events per second, or the sum of a field per second.
    Rate(Option<String>),
    Sum(String),
    Min(String),
    Max(String),
    Avg(String),
    /// The value of the latest event.
    Last(String),
    /// Number of distinct values.
    Distinct(String),
    /// A quantile of a field, from 0 to 1.
    Quantile(String, f64),
    /// The most frequent values of a field.
    Top(String, u16),
}

use Function::*;

/// Advice about the syntax of functions, for errors.
const ADVICE: &str = "use count(), rate(), one of count, rate, sum, min, max, avg, last and \
                      distinct with a field, as in sum(bytes), quantile(bytes, 0.99) or top(path, \
                      10)";

impl Emit {
    /// Returns the function.
    pub fn function(&self) -> &Function {
        &self.0
    }

    /// Returns the field that the function reads.
    pub fn field(&self) -> Option<&str> {
        match &self.0 {
            Count(field) | Rate(field) => field.as_deref(),
            Sum(field)
            | Min(field)
            | Max(field)
            | Avg(field)
            | Last(field)
            | Distinct(field)
            | Quantile(field, _)
            | Top(field, _) => Some(field),
        }
    }

    /// Returns whether the results of several windows can be added.
    pub fn is_delta(&self) -> bool {
        matches!(self.0, Count(_) | Sum(_) | Top(..))
    }

    /// Returns the accumulators that the function needs, with their fields.
    pub fn inputs(&self) -> Vec<Input> {
        let input = |accumulator, field: &String| Input { accumulator, field: Some(field.clone()) };
        match &self.0 {
            Count(field) | Rate(field) if field.is_none() => {
                vec![Input { accumulator: Accumulator::Count, field: None }]
            }
            Count(field) => field.iter().map(|field| input(Accumulator::Count, field)).collect(),
            Rate(field) => field.iter().map(|field| input(Accumulator::Sum, field)).collect(),
            Sum(field) => vec![input(Accumulator::Sum, field)],
            Min(field) => vec![input(Accumulator::Min, field)],
            Max(field) => vec![input(Accumulator::Max, field)],
            Avg(field) => vec![input(Accumulator::Sum, field), input(Accumulator::Count, field)],
            Last(field) => vec![input(Accumulator::Last, field)],
            Distinct(field) => vec![input(Accumulator::Distinct, field)],
            Quantile(field, _) => vec![input(Accumulator::Quantiles, field)],
            Top(field, texts) => {
                vec![input(Accumulator::Top { size: texts * COUNTERS_PER_TEXT }, field)]
            }
        }
    }
}

/// Returns whether `name` is the name of a field, not a template or an expression.
pub fn is_field(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || "(){}*<>=,\"'".contains(c))
}

impl FromStr for Emit {
    type Err = String;

    fn from_str(text: &str) -> Result<Emit, String> {
        let call = text.trim().strip_suffix(')').and_then(|text| text.split_once('('));
        let (name, arguments) =
            call.ok_or_else(|| format!("`{text}` is not an aggregate; {ADVICE}"))?;
        let arguments: Vec<&str> = match arguments.trim() {
            "" => Vec::new(),
            arguments => arguments.split(',').map(str::trim).collect(),
        };
        if let Some(field) = arguments.first().filter(|field| !is_field(field)) {
            return Err(format!("`{field}` is not a field; {ADVICE}"));
        }
        parse(name.trim(), &arguments).map(Emit).map_err(|what| match what {
            Some(what) => format!("`{text}` {what}; {ADVICE}"),
            None => format!("`{}` is not an aggregate; {ADVICE}", name.trim()),
        })
    }
}

/// Parses a function call. The error says what is wrong with the arguments; the error is `None` if
/// no function has this name.
fn parse(name: &str, arguments: &[&str]) -> Result<Function, Option<&'static str>> {
    let field = |arguments: &[&str]| match arguments {
        [field] => Ok((*field).to_owned()),
        [] => Err(Some("names no field")),
        _ => Err(Some("has too many arguments")),
    };
    let optional = |arguments: &[&str]| match arguments {
        [] => Ok(None),
        arguments => field(arguments).map(Some),
    };
    match name {
        "count" => optional(arguments).map(Count),
        "rate" => optional(arguments).map(Rate),
        "sum" => field(arguments).map(Sum),
        "min" => field(arguments).map(Min),
        "max" => field(arguments).map(Max),
        "avg" => field(arguments).map(Avg),
        "last" => field(arguments).map(Last),
        "distinct" => field(arguments).map(Distinct),
        "quantile" => {
            let [field, quantile] = arguments else {
                return Err(Some("needs a field and a number"));
            };
            let quantile: Option<f64> = quantile.parse().ok();
            let quantile = quantile.filter(|quantile| (0.0..=1.0).contains(quantile));
            let quantile = quantile.ok_or(Some("needs a number from 0 to 1"))?;
            Ok(Quantile((*field).to_owned(), quantile))
        }
        "top" => {
            let [field, texts] = arguments else { return Err(Some("needs a field and a number")) };
            let texts = texts.parse().ok().filter(|texts| (1..=TOP_MAX).contains(texts));
            Ok(Top((*field).to_owned(), texts.ok_or(Some("needs a number from 1 to 100"))?))
        }
        _ => Err(None),
    }
}

impl fmt::Display for Emit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field().unwrap_or_default();
        match &self.0 {
            Count(_) => write!(f, "count({field})"),
            Rate(_) => write!(f, "rate({field})"),
            Sum(_) => write!(f, "sum({field})"),
            Min(_) => write!(f, "min({field})"),
            Max(_) => write!(f, "max({field})"),
            Avg(_) => write!(f, "avg({field})"),
            Last(_) => write!(f, "last({field})"),
            Distinct(_) => write!(f, "distinct({field})"),
            Quantile(_, quantile) => write!(f, "quantile({field}, {quantile})"),
            Top(_, texts) => write!(f, "top({field}, {texts})"),
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
