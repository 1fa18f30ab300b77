//! Types plain scalars by the core schema of YAML 1.2.

use super::node::Data;

/// Returns the value of the unquoted `text`: `true`, `null`, a number, or text.
///
/// `yes`, `on` and `1_000` are text; so are `.inf` and `.nan`, which no option accepts.
pub fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Data::Null,
        "true" | "True" | "TRUE" => return Data::Bool(true),
        "false" | "False" | "FALSE" => return Data::Bool(false),
        _ => {}
    }
    integer(text).or_else(|| float(text)).unwrap_or(Data::Text)
}

fn integer(text: &str) -> Option<Data> {
    let value = if let Some(digits) = text.strip_prefix("0x") {
        parse_radix(digits, 16)?
    } else if let Some(digits) = text.strip_prefix("0o") {
        parse_radix(digits, 8)?
    } else {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        text.parse().ok()?
    };
    let range = i128::from(i64::MIN)..=i128::from(u64::MAX);
    range.contains(&value).then_some(Data::Int(value))
}

/// Parses digits like `from_str_radix`, but does not accept a sign.
fn parse_radix(digits: &str, radix: u32) -> Option<i128> {
    let only_digits = digits.chars().all(|digit| digit.is_digit(radix));
    if only_digits { i128::from_str_radix(digits, radix).ok() } else { None }
}

fn float(text: &str) -> Option<Data> {
    // Rust also accepts `inf`, `nan` and `infinity`, which are text in YAML.
    let numeric = text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    let value: f64 = if numeric { text.parse().ok()? } else { return None };
    value.is_finite().then_some(Data::Float(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each form of the core schema gets its type, and look-alikes stay text.
    #[test]
    fn core_schema() {
        for (text, data) in [
            ("", Data::Null),
            ("~", Data::Null),
            ("Null", Data::Null),
            ("true", Data::Bool(true)),
            ("FALSE", Data::Bool(false)),
            ("yes", Data::Text),
            ("0", Data::Int(0)),
            ("-12", Data::Int(-12)),
            ("+7", Data::Int(7)),
            ("010", Data::Int(10)),
            ("0x1F", Data::Int(31)),
            ("0o17", Data::Int(15)),
            ("0x", Data::Text),
            ("0x-1", Data::Text),
            ("1_000", Data::Text),
            ("18446744073709551615", Data::Int(u64::MAX.into())),
            ("18446744073709551616", Data::Float(18_446_744_073_709_551_616.0)),
            ("1.5", Data::Float(1.5)),
            ("1e3", Data::Float(1000.0)),
            (".5", Data::Float(0.5)),
            ("1e999", Data::Text),
            ("inf", Data::Text),
            (".nan", Data::Text),
            ("-", Data::Text),
            ("1.2.3", Data::Text),
            ("10s", Data::Text),
        ] {
            assert_eq!(resolve(text), data, "{text:?}");
        }
    }
}
