//! The types that a configuration assigns to fields.

use crate::fields::Fields;
use millstream_columns::{Cell, Kind, parse_float};
use millstream_timestamps::{Format, push_rfc3339};
use std::net::IpAddr;
use std::sync::Arc;

/// Type of a field.
#[derive(Clone, Debug)]
pub enum Type {
    /// An unchanged string.
    Text,
    /// An integer.
    Int,
    /// A number.
    Float,
    /// `true` or `false`. Also accepts `yes`, `no`, `on`, `off`, `1` and `0`, in any letter case.
    Bool,
    /// A time in this format, which is rewritten as RFC 3339.
    Timestamp(Arc<Format>),
    /// An IPv4 or IPv6 address.
    Ip,
}

impl Type {
    /// Casts the value `cell`, whose bytes are `text`, to this type. Returns `None` if the value
    /// does not have this type. `read_ns` is the time at which the line was read, which determines
    /// the year of times without a year.
    #[inline]
    pub fn cast(&self, text: &[u8], cell: Cell, read_ns: i64, fields: &mut Fields) -> Option<Cell> {
        match self {
            Type::Text => Some(cell),
            Type::Int => match text {
                [b'1'..=b'9', rest @ ..]
                    if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit) =>
                {
                    Some(cell.with_kind(Kind::Int))
                }
                _ => slow_int(text, cell, fields),
            },
            Type::Float => float(text, cell, fields),
            Type::Bool => bool(text).map(Cell::bool),
            Type::Timestamp(format) => {
                let stamp =
                    format.parse(text, read_ns).ok().filter(|stamp| stamp.len == text.len())?;
                let mut rendered = Vec::new();
                push_rfc3339(&mut rendered, stamp.ns);
                Some(fields.push(Kind::Time, &rendered))
            }
            Type::Ip => {
                let text = std::str::from_utf8(text).ok()?;
                text.parse::<IpAddr>().ok().map(|_| cell)
            }
        }
    }
}

/// Casts an integer. An integer with a plus sign or leading zeros, which is not valid JSON, is
/// rewritten. Returns `None` for any other text.
#[cold]
fn slow_int(text: &[u8], cell: Cell, fields: &mut Fields) -> Option<Cell> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    let written = value.to_string();
    Some(if written.as_bytes() == text {
        cell.with_kind(Kind::Int)
    } else {
        fields.push(Kind::Int, written.as_bytes())
    })
}

/// Casts a number. A number that is not valid JSON is rewritten. Returns `None` for any other text.
fn float(text: &[u8], cell: Cell, fields: &mut Fields) -> Option<Cell> {
    if text.len() < 300
        && let Some(kind) = is_number(text)
    {
        return Some(cell.with_kind(kind));
    }
    let value = parse_float(text.strip_prefix(b"+").unwrap_or(text))?;
    Some(fields.push(Kind::Float, format!("{value:?}").as_bytes()))
}

/// Returns [`Kind::Int`] or [`Kind::Float`] if `text` is a number in JSON syntax (RFC 8259, section
/// 6).
pub fn is_number(text: &[u8]) -> Option<Kind> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(unsigned);
    if whole == 0 || whole > 1 && unsigned[0] == b'0' {
        return None;
    }
    let mut rest = &unsigned[whole..];
    if rest.is_empty() {
        return Some(Kind::Int);
    }
    if let [b'.', fraction @ ..] = rest {
        let count = digits(fraction);
        rest = fraction.get(count..).filter(|_| count > 0)?;
    }
    if let [b'e' | b'E', exponent @ ..] = rest {
        let exponent =
            exponent.strip_prefix(b"-").or(exponent.strip_prefix(b"+")).unwrap_or(exponent);
        let count = digits(exponent);
        rest = exponent.get(count..).filter(|_| count > 0)?;
    }
    rest.is_empty().then_some(Kind::Float)
}

fn bool(text: &[u8]) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()));
    match () {
        () if is(&["true", "yes", "on", "1", "t", "y"]) => Some(true),
        () if is(&["false", "no", "off", "0", "f", "n"]) => Some(false),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_columns::Column;

    fn cast(field_type: &Type, text: &str) -> Option<(Kind, String)> {
        let mut fields = Fields::new(1, b"");
        let cell = Cell::new(Kind::Text, 0, text.len());
        let cell = field_type.cast(text.as_bytes(), cell, 0, &mut fields)?;
        let index = fields.named(&"x".into());
        fields.set(index, 0, cell);
        let columns: Vec<Column> = fields.finish();
        let bytes = columns[0].bytes(text.as_bytes(), cell).to_vec();
        Some((cell.kind(), String::from_utf8(bytes).unwrap()))
    }

    #[test]
    fn values_are_cast_to_json_syntax() {
        let is = |field_type: &Type, text, kind, written: &str| {
            assert_eq!(cast(field_type, text), Some((kind, written.to_owned())))
        };
        is(&Type::Int, "200", Kind::Int, "200");
        is(&Type::Int, "0", Kind::Int, "0");
        is(&Type::Int, "-17", Kind::Int, "-17");
        is(&Type::Int, "+007", Kind::Int, "7");
        is(&Type::Int, "-0", Kind::Int, "0");
        is(&Type::Float, "0.004", Kind::Float, "0.004");
        is(&Type::Float, "12", Kind::Int, "12");
        is(&Type::Float, "1e3", Kind::Float, "1e3");
        is(&Type::Float, ".5", Kind::Float, "0.5");
        is(&Type::Float, "+01.50", Kind::Float, "1.5");
        is(&Type::Bool, "Yes", Kind::True, "");
        is(&Type::Bool, "0", Kind::False, "");
        is(&Type::Ip, "::1", Kind::Text, "::1");
        let time = Type::Timestamp(Arc::new(Format::new("%Y-%m-%d %H:%M:%S", None).unwrap()));
        is(&time, "2000-02-29 12:34:56", Kind::Time, "2000-02-29T12:34:56.000Z");
        assert_eq!(cast(&time, "2000-02-29 12:34:56 more"), None);
        for (field_type, text) in [
            (Type::Int, ""),
            (Type::Int, "1.5"),
            (Type::Int, "9223372036854775808"),
            (Type::Int, "12x"),
            (Type::Float, "nan"),
            (Type::Float, "1.2.3"),
            (Type::Float, "-"),
            (Type::Bool, "maybe"),
            (Type::Ip, "1.2.3"),
        ] {
            assert_eq!(cast(&field_type, text), None, "{text}");
        }
    }

    #[test]
    fn is_number_accepts_exactly_json_numbers() {
        for text in ["0", "-0", "10", "18446744073709551616"] {
            assert_eq!(is_number(text.as_bytes()), Some(Kind::Int), "{text}");
        }
        for text in ["0.5", "-1.25e-3", "1E+2", "1e400"] {
            assert_eq!(is_number(text.as_bytes()), Some(Kind::Float), "{text}");
        }
        for text in ["", "-", "01", "1.", ".5", "1e", "1e+", "+1", "1 ", "0x1", "1.5.2"] {
            assert_eq!(is_number(text.as_bytes()), None, "{text}");
        }
    }
}
