//! The functions of the language, except macros and `matches`.

use crate::fault::Fault;
use crate::hex;
use crate::text;
use crate::time;
use crate::time_part;
use crate::types::Types;
use crate::url;
use crate::value::{Error, Outcome, Value};
use std::borrow::Cow;

/// Maximum number of arguments. The receiver of a method is counted as an argument.
pub const ARGUMENTS_MAX: usize = 4;

/// A function with its signature.
pub struct Function {
    pub name: &'static str,
    /// Whether the function is called as a method. If so, the receiver is the first argument.
    pub is_method: bool,
    /// Types of the parameters.
    pub parameters: &'static [Types],
    /// Number of required arguments.
    pub required: usize,
    pub result: Types,
    pub run: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
}

const fn method(
    name: &'static str,
    parameters: &'static [Types],
    required: usize,
    result: Types,
    run: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
) -> Function {
    Function { name, is_method: true, parameters, required, result, run }
}

const fn function(
    name: &'static str,
    takes: &'static [Types],
    result: Types,
    run: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
) -> Function {
    Function { name, is_method: false, parameters: takes, required: 1, result, run }
}

const TEXT: Types = Types::TEXT;
const INT: Types = Types::INT;
const SIZED: Types = Types::TEXT.or(Types::LIST).or(Types::MAP);
const TIMED: Types = Types::TIME.or(Types::DURATION);
const FROM_INT: Types = Types::NUMBER.or(Types::TEXT).or(Types::TIME);
const SCALAR: Types =
    Types::BOOL.or(Types::NUMBER).or(Types::TEXT).or(Types::TIME).or(Types::DURATION);
const TIME_FROM: Types = Types::TEXT.or(Types::TIME).or(Types::INT);

/// All functions. A method and a function with the same name have the same effect.
pub const FUNCTIONS: &[Function] = &[
    function("size", &[SIZED], INT, size),
    method("size", &[SIZED], 1, INT, size),
    function("int", &[FROM_INT], INT, to_int),
    function("double", &[Types::NUMBER.or(TEXT)], Types::DOUBLE, to_double),
    function("string", &[SCALAR], TEXT, to_text),
    function("bool", &[Types::BOOL.or(TEXT)], Types::BOOL, to_bool),
    function("timestamp", &[TIME_FROM], Types::TIME, to_timestamp),
    function("duration", &[TEXT.or(Types::DURATION)], Types::DURATION, to_duration),
    function("hex", &[TEXT.or(INT)], TEXT, hex::hex),
    function("unhex", &[TEXT], TEXT, hex::unhex),
    function("unhexInt", &[TEXT], INT, hex::unhex_int),
    function("urlEncode", &[TEXT], TEXT, url::url_encode),
    function("urlDecode", &[TEXT], TEXT, url::url_decode),
    function("type", &[Types::ANY], TEXT, type_of),
    function("dyn", &[Types::ANY], Types::ANY, |values| Ok(values[0].clone())),
    method("startsWith", &[TEXT, TEXT], 2, Types::BOOL, |v| {
        Ok(Value::Bool(v[0].text()?.starts_with(v[1].text()?)))
    }),
    method("endsWith", &[TEXT, TEXT], 2, Types::BOOL, |v| {
        Ok(Value::Bool(v[0].text()?.ends_with(v[1].text()?)))
    }),
    method("contains", &[TEXT, TEXT], 2, Types::BOOL, |v| {
        Ok(Value::Bool(memchr::memmem::find(v[0].text()?, v[1].text()?).is_some()))
    }),
    method("lowerAscii", &[TEXT], 1, TEXT, |v| Ok(Value::owned(v[0].text()?.to_ascii_lowercase()))),
    method("upperAscii", &[TEXT], 1, TEXT, |v| Ok(Value::owned(v[0].text()?.to_ascii_uppercase()))),
    method("trim", &[TEXT], 1, TEXT, text::trim),
    method("split", &[TEXT, TEXT, INT], 2, Types::LIST, text::split),
    method("join", &[Types::LIST, TEXT], 1, TEXT, text::join),
    method("replace", &[TEXT, TEXT, TEXT, INT], 3, TEXT, text::replace),
    method("substring", &[TEXT, INT, INT], 2, TEXT, text::substring),
    method("indexOf", &[TEXT, TEXT, INT], 2, INT, text::index_of),
    method("lastIndexOf", &[TEXT, TEXT, INT], 2, INT, text::last_index_of),
    method("charAt", &[TEXT, INT], 2, TEXT, text::char_at),
    method("reverse", &[TEXT], 1, TEXT, text::reverse),
    part("getFullYear", Types::TIME, |v| time_part::part("getFullYear", &v[0], v.get(1))),
    part("getMonth", Types::TIME, |v| time_part::part("getMonth", &v[0], v.get(1))),
    part("getDate", Types::TIME, |v| time_part::part("getDate", &v[0], v.get(1))),
    part("getDayOfMonth", Types::TIME, |v| time_part::part("getDayOfMonth", &v[0], v.get(1))),
    part("getDayOfWeek", Types::TIME, |v| time_part::part("getDayOfWeek", &v[0], v.get(1))),
    part("getDayOfYear", Types::TIME, |v| time_part::part("getDayOfYear", &v[0], v.get(1))),
    part("getHours", TIMED, |v| time_part::part("getHours", &v[0], v.get(1))),
    part("getMinutes", TIMED, |v| time_part::part("getMinutes", &v[0], v.get(1))),
    part("getSeconds", TIMED, |v| time_part::part("getSeconds", &v[0], v.get(1))),
    part("getMilliseconds", TIMED, |v| time_part::part("getMilliseconds", &v[0], v.get(1))),
];

const fn part(
    name: &'static str,
    types: Types,
    run: for<'a> fn(&[Value<'a>]) -> Outcome<'a>,
) -> Function {
    let parameters: &'static [Types] =
        if types.is_same(Types::TIME) { &[Types::TIME, TEXT] } else { &[TIMED, TEXT] };
    method(name, parameters, 1, INT, run)
}

/// Methods that are not in [`FUNCTIONS`].
pub const OTHER_METHODS: &[&str] = &["matches", "all", "exists", "exists_one", "filter", "map"];
/// Functions that are not in [`FUNCTIONS`].
pub const OTHER_FUNCTIONS: &[&str] = &["has", "matches"];

impl Function {
    /// Returns the function or method with this name.
    pub fn find(name: &str, is_method: bool) -> Option<&'static Function> {
        FUNCTIONS.iter().find(|function| function.name == name && function.is_method == is_method)
    }

    /// Returns an error if the number of arguments is wrong.
    pub fn check_number(&self, at: usize, given: usize) -> Result<(), Fault> {
        let (least, most) = (self.required, self.parameters.len());
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let own = usize::from(self.is_method);
        let range = match (least - own, most - own) {
            (least, most) if least == most => format!("{least}"),
            (least, most) => format!("{least} to {most}"),
        };
        let message = format!("`{}` takes {range} arguments, not {}", self.name, given - own);
        Err(Fault::new(at, message, "see the example in docs/expressions.md"))
    }
}

fn size<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let size = match &values[0] {
        Value::Text(text) => text::characters(text),
        value if value.types().can_be(Types::LIST) => value.elements()?.len(),
        value => value.entries()?.len(),
    };
    Ok(Value::Int(size as i64))
}

fn to_int<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    const EDGE: f64 = 9_223_372_036_854_775_808.0;
    match &values[0] {
        Value::Int(value) => Ok(Value::Int(*value)),
        Value::Double(value) if value.abs() < EDGE => Ok(Value::Int(*value as i64)),
        Value::Double(_) => Err(Error::Arithmetic),
        Value::Text(text) => {
            millstream_columns::parse_int(text).map(Value::Int).ok_or(Error::Mistyped)
        }
        Value::Time(ns) => Ok(Value::Int(ns.div_euclid(1_000_000_000))),
        _ => Err(Error::Mistyped),
    }
}

fn to_double<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Double(match &values[0] {
        Value::Int(value) => *value as f64,
        Value::Double(value) => *value,
        Value::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| Error::Mistyped)?;
            text.parse().map_err(|_| Error::Mistyped)?
        }
        _ => return Err(Error::Mistyped),
    }))
}

fn to_text<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let mut out = Vec::new();
    match &values[0] {
        Value::Text(text) => return Ok(Value::Text(text.clone())),
        Value::Bool(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Int(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Double(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Time(ns) => time::push_timestamp(*ns, &mut out),
        Value::Duration(ns) => time::push_duration(*ns, &mut out),
        _ => return Err(Error::Mistyped),
    }
    Ok(Value::Text(Cow::Owned(out)))
}

fn to_bool<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Bool(value) => Ok(Value::Bool(*value)),
        Value::Text(text) => match &text[..] {
            b"1" | b"t" | b"true" | b"TRUE" | b"True" => Ok(Value::Bool(true)),
            b"0" | b"f" | b"false" | b"FALSE" | b"False" => Ok(Value::Bool(false)),
            _ => Err(Error::Mistyped),
        },
        _ => Err(Error::Mistyped),
    }
}

fn to_timestamp<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Time(ns) => Ok(Value::Time(*ns)),
        Value::Text(text) => time::timestamp(text).map(Value::Time).ok_or(Error::Mistyped),
        Value::Int(seconds) => {
            seconds.checked_mul(1_000_000_000).map(Value::Time).ok_or(Error::Arithmetic)
        }
        _ => Err(Error::Mistyped),
    }
}

fn to_duration<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    match &values[0] {
        Value::Duration(ns) => Ok(Value::Duration(*ns)),
        Value::Text(text) => time::duration(text).map(Value::Duration).ok_or(Error::Mistyped),
        _ => Err(Error::Mistyped),
    }
}

fn type_of<'a>(values: &[Value<'a>]) -> Outcome<'a> {
    let name = match &values[0] {
        Value::Null => "null_type",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int",
        Value::Double(_) => "double",
        Value::Text(_) => "string",
        Value::Time(_) => "timestamp",
        Value::Duration(_) => "duration",
        Value::List(_) | Value::Array(_) => "list",
        Value::Map(_) | Value::Object(_) => "map",
    };
    Ok(Value::Text(Cow::Borrowed(name.as_bytes())))
}
