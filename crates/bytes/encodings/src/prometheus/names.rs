//! Names by Prometheus' rules: each invalid character becomes `_`.

/// Appends a metric name, `[a-zA-Z_:][a-zA-Z0-9_:]*`. Each invalid character becomes one `_`, and a
/// leading digit is prefixed with one.
pub fn push_metric_name(raw: &[u8], out: &mut Vec<u8>) {
    push_name(raw, |byte| byte.is_ascii_alphanumeric() || byte == b':', out);
}

/// Appends a label name, `[a-zA-Z_][a-zA-Z0-9_]*`, in the same way. Prometheus reserves names with
/// the prefix `__`, so leading underscores are collapsed into one.
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
    // Skip UTF-8 continuation bytes: each character counts once.
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
