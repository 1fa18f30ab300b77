//! The structured data in RFC 5424 lines.

use millstream_columns::push_json_string;

/// The name and parameters of an element.
type Element<'a> = (&'a [u8], Vec<(&'a [u8], Vec<u8>)>);

/// Parses structured data at the start of `text` and writes it as a JSON object. Writes nothing for
/// `-`. Returns the length of the data, or `None` if the data is invalid. If an element or
/// parameter occurs twice, the last one wins.
pub(super) fn read(text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if text.first() == Some(&b'-') {
        return Some(1);
    }
    let (mut elements, mut rest): (Vec<Element<'_>>, _) = (Vec::new(), text);
    while let Some(inside) = rest.strip_prefix(b"[") {
        let (element, behind) = element(inside)?;
        elements.retain(|(name, _)| *name != element.0);
        elements.push(element);
        rest = behind;
    }
    if elements.is_empty() {
        return None;
    }
    object(&elements, out, |parameters, out| {
        object(parameters, out, |value, out| push_json_string(value, out))
    });
    Some(text.len() - rest.len())
}

/// Parses `id name="value" ...]`. Returns the element and the rest; `None` if the element is
/// invalid.
fn element(text: &[u8]) -> Option<(Element<'_>, &[u8])> {
    let (id, mut rest) = name(text)?;
    let mut parameters: Vec<(&[u8], Vec<u8>)> = Vec::new();
    loop {
        let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
        rest = &rest[spaces..];
        if let Some(behind) = rest.strip_prefix(b"]") {
            return Some(((id, parameters), behind));
        }
        let (key, behind) = name(rest).filter(|_| spaces > 0)?;
        let (value, behind) = value(behind.strip_prefix(b"=\"")?)?;
        parameters.retain(|(name, _)| *name != key);
        parameters.push((key, value));
        rest = behind;
    }
}

/// Parses a name. Returns the name and the rest; `None` if there is no name.
fn name(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let is_name = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'=' | b']' | b'"');
    let len = text.iter().take_while(|byte| is_name(byte)).count();
    (len > 0).then(|| text.split_at(len))
}

/// Parses a quoted value. Returns the unescaped value and the rest; `None` if there is no closing
/// quote.
fn value(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (mut value, mut rest) = (Vec::new(), text);
    loop {
        let (byte, behind) = rest.split_first()?;
        rest = behind;
        match (byte, behind.first()) {
            (b'"', _) => return Some((value, rest)),
            (b'\\', Some(escaped @ (b'"' | b'\\' | b']'))) => {
                value.push(*escaped);
                rest = &behind[1..];
            }
            _ => value.push(*byte),
        }
    }
}

/// Writes members as a JSON object.
fn object<V>(members: &[(&[u8], V)], out: &mut Vec<u8>, write: impl Fn(&V, &mut Vec<u8>)) {
    out.push(b'{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_json_string(name, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}
