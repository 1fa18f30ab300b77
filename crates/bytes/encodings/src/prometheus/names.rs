//! Conversion of names to names that follow Prometheus' rules.

/// How a name is converted to letters, digits and `_`. Metric names may also contain `:`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameEscaping {
    /// Replaces each invalid character with `_`. Different names can become equal.
    #[default]
    Underscores,
    /// Prometheus' value escaping. An invalid name gets the prefix `U__`. After the prefix, `__`
    /// represents `_`, and `_2e_` represents the character with this hexadecimal code. Different
    /// names stay different.
    Values,
}

impl NameEscaping {
    /// Appends a metric name.
    pub(super) fn push_metric_name(self, raw: &[u8], out: &mut Vec<u8>) {
        match self {
            NameEscaping::Underscores => push_metric_name(raw, out),
            NameEscaping::Values => push_values(raw, is_metric_byte, b"", out),
        }
    }

    /// Appends a label name.
    pub(super) fn push_label_name(self, raw: &[u8], out: &mut Vec<u8>) {
        match self {
            NameEscaping::Underscores => push_label_name(raw, out),
            NameEscaping::Values => {
                push_values(raw, |byte| byte.is_ascii_alphanumeric(), b"__", out)
            }
        }
    }
}

/// Prefix of names in value escaping.
const VALUES_PREFIX: &[u8] = b"U__";

/// Appends a name with Prometheus' value escaping. Also escapes a valid name that starts with a
/// nonempty `reserved`, or that looks like an escaped name.
fn push_values(raw: &[u8], is_allowed: impl Fn(u8) -> bool, reserved: &[u8], out: &mut Vec<u8>) {
    let is_allowed_at =
        |at: usize, byte: u8| is_allowed(byte) && !(at == 0 && byte.is_ascii_digit());
    let is_valid =
        raw.iter().enumerate().all(|(at, byte)| *byte == b'_' || is_allowed_at(at, *byte));
    let is_reserved = !reserved.is_empty() && raw.starts_with(reserved);
    if is_valid && !raw.is_empty() && !is_reserved && !raw.starts_with(VALUES_PREFIX) {
        return out.extend_from_slice(raw);
    }
    out.extend_from_slice(VALUES_PREFIX);
    for (at, char) in String::from_utf8_lossy(raw).char_indices() {
        match u8::try_from(char) {
            Ok(b'_') => out.extend_from_slice(b"__"),
            Ok(byte) if is_allowed_at(at, byte) => out.push(byte),
            _ => out.extend_from_slice(format!("_{:x}_", u32::from(char)).as_bytes()),
        }
    }
}

fn is_metric_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b':'
}

/// Appends a metric name, `[a-zA-Z_:][a-zA-Z0-9_:]*`. Each invalid character becomes one `_`, and a
/// leading digit gets the prefix `_`.
pub fn push_metric_name(raw: &[u8], out: &mut Vec<u8>) {
    push_name(raw, is_metric_byte, out);
}

/// Appends a label name, `[a-zA-Z_][a-zA-Z0-9_]*`, like [`push_metric_name`]. Prometheus reserves
/// the prefix `__`, so several leading underscores become one.
pub fn push_label_name(raw: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    push_name(raw, |byte| byte.is_ascii_alphanumeric(), out);
    let underscores = out[begin..].iter().take_while(|byte| **byte == b'_').count();
    if underscores > 1 {
        out.drain(begin..begin + underscores - 1);
    }
    if out.len() == begin {
        out.push(b'_');
    }
}

fn push_name(raw: &[u8], is_allowed: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    if raw.first().is_some_and(u8::is_ascii_digit) {
        out.push(b'_');
    }
    // Skip UTF-8 continuation bytes, so that each character counts once.
    let leading = raw.iter().filter(|byte| **byte & 0b1100_0000 != 0b1000_0000);
    out.extend(leading.map(|byte| if is_allowed(*byte) { *byte } else { b'_' }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(push: impl Fn(&[u8], &mut Vec<u8>), raw: &str) -> String {
        let mut out = Vec::new();
        push(raw.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn metric_names_keep_letters_digits_and_colons() {
        let cases = [
            ("shop.orders", "shop_orders"),
            ("a:b_c9", "a:b_c9"),
            ("5xx.count", "_5xx_count"),
            ("größe", "gr__e"),
            ("a b-c", "a_b_c"),
            ("__x", "__x"),
        ];
        cases.iter().for_each(|(raw, name)| assert_eq!(named(push_metric_name, raw), *name));
    }

    #[test]
    fn values_of_invalid_characters_are_kept() {
        let push = |raw: &[u8], out: &mut Vec<u8>| NameEscaping::Values.push_metric_name(raw, out);
        // The first five cases are from Prometheus' tests.
        let cases = [
            ("no:escaping_required", "no:escaping_required"),
            ("mysystem.prod.west.cpu.load", "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load"),
            (
                "mysystem.prod.west.cpu.load_total",
                "U__mysystem_2e_prod_2e_west_2e_cpu_2e_load__total",
            ),
            ("http.status:sum", "U__http_2e_status:sum"),
            ("label with 😱", "U__label_20_with_20__1f631_"),
            ("1st", "U___31_st"),
            ("a1", "a1"),
            ("größe", "U__gr_f6__df_e"),
            ("U__a_2e_b", "U__U____a__2e__b"),
            ("", "U__"),
        ];
        cases.iter().for_each(|(raw, name)| assert_eq!(named(push, raw), *name));
        let push = |raw: &[u8], out: &mut Vec<u8>| NameEscaping::Values.push_label_name(raw, out);
        let cases = [("a_b", "a_b"), ("a:b", "U__a_3a_b"), ("__name__", "U______name____")];
        cases.iter().for_each(|(raw, name)| assert_eq!(named(push, raw), *name));
    }

    #[test]
    fn label_names_have_no_colons_and_are_never_reserved() {
        let cases = [
            ("country", "country"),
            ("a:b", "a_b"),
            ("__name__", "_name__"),
            ("..x", "_x"),
            ("_x", "_x"),
            ("1st", "_1st"),
            ("", "_"),
            ("é", "_"),
        ];
        cases.iter().for_each(|(raw, name)| assert_eq!(named(push_label_name, raw), *name));
    }
}
