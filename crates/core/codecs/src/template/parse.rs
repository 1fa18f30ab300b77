//! Parses templates, and rejects unsafe templates.

use super::value::{FIELD_BYTES_MIN, Field, Piece};
use super::{INDEX_BYTES_MAX, NAME_BYTES_MAX, Part, TOPIC_BYTES_MAX, Template, Use};

/// Splits a template into literal text, fields and time specifiers.
pub fn parts(text: &str) -> Result<Vec<Part>, String> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['%', '{']) {
        literal(&mut parts, &rest[..at]);
        rest = &rest[at..];
        rest = match rest.strip_prefix("{{") {
            Some(inside) => field(&mut parts, inside)?,
            None if rest.starts_with('%') => time(&mut parts, &rest[1..])?,
            None => {
                literal(&mut parts, "{");
                &rest[1..]
            }
        };
    }
    literal(&mut parts, rest);
    Ok(parts)
}

fn literal(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Literal(last)) => last.push_str(text),
        _ => parts.push(Part::Literal(text.to_owned())),
    }
}

/// Parses a field after its opening braces. Returns the text after the closing braces.
fn field<'t>(parts: &mut Vec<Part>, inside: &'t str) -> Result<&'t str, String> {
    let closed = inside.split_once("}}").filter(|(name, _)| !name.contains("{{"));
    let (name, rest) = closed.ok_or("`{{` is not closed; use, for example, {{ host }}")?;
    let name = name.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        || !name.chars().all(is_plain)
    {
        return Err(format!(
            "`{{{{ {name} }}}}` is not a field name; use, for example, {{{{ host }}}} or the name \
             of an attribute, in letters, digits, `_`, `-` and `.`"
        ));
    }
    parts.push(Part::Field(Field::named(name), usize::MAX));
    Ok(rest)
}

/// Parses a time specifier after its percent sign. Returns the text after the specifier.
fn time<'t>(parts: &mut Vec<Part>, rest: &'t str) -> Result<&'t str, String> {
    let letter = rest.chars().next();
    match (letter, letter.and_then(Piece::of)) {
        (Some('%'), _) => literal(parts, "%"),
        (_, Some(piece)) => parts.push(Part::Time(piece)),
        _ => {
            let found = letter.map_or("%".to_owned(), |c| format!("%{c}"));
            return Err(format!(
                "`{found}` is not a time specifier; use %Y, %m, %d, %H, %M, %S, %j, %y, %F or %s, \
                 or %% for a percent sign"
            ));
        }
    }
    Ok(&rest[letter.map_or(0, char::len_utf8)..])
}

/// Rejects templates whose values could escape their folder or name, and limits the length of each
/// value.
pub fn confine(mut template: Template) -> Result<Template, String> {
    match template.usage {
        Use::Text => {}
        Use::Path => path(&mut template.parts)?,
        Use::Topic => topic(&mut template.parts)?,
        Use::Index => index(&mut template.parts)?,
    }
    Ok(template)
}

fn is_field(part: &Part) -> bool {
    matches!(part, Part::Field(..))
}

fn path(parts: &mut [Part]) -> Result<(), String> {
    let text = outline(parts);
    if text.is_empty() || text.ends_with('/') || text.contains('\0') {
        return Err("is not a file path; use a folder and a file name".to_owned());
    }
    let Some(first) = parts.iter().position(is_field) else { return Ok(()) };
    let before = outline(&parts[..first]);
    if !before.rsplit_once('/').is_some_and(|(folder, _)| folder.contains(|c| c != '/')) {
        return Err("a field needs a folder before it, which its value cannot escape; use, for \
                    example, /var/log/millstream/{{ host }}.log"
            .to_owned());
    }
    if outline(&parts[first..]).split('/').skip(1).any(|name| matches!(name, "" | "." | "..")) {
        return Err("every folder after a field needs a name; remove `..`, `.` and `//`".to_owned());
    }
    // The fields of each file name share its length limit.
    let mut begin = 0;
    for end in 1..=parts.len() {
        let ends =
            end == parts.len() || matches!(&parts[end], Part::Literal(text) if text.contains('/'));
        if ends {
            share(&mut parts[begin..], end - begin, NAME_BYTES_MAX)?;
            begin = end;
        }
    }
    Ok(())
}

/// Divides the part of `bytes_max` that literal text and times leave among the fields of a name.
/// The name consists of the first `count` parts and the beginning of the next part, if any.
fn share(parts: &mut [Part], count: usize, bytes_max: usize) -> Result<(), String> {
    let behind = match parts.get(count) {
        Some(Part::Literal(text)) => text.split('/').next().unwrap_or_default().len(),
        _ => 0,
    };
    let literal = |(index, part): (usize, &Part)| match part {
        Part::Literal(text) if index == 0 => text.rsplit('/').next().unwrap_or_default().len(),
        Part::Literal(text) => text.len(),
        Part::Time(piece) => piece.bytes_max(),
        Part::Field(..) => 0,
    };
    let used = parts[..count].iter().enumerate().map(literal).sum::<usize>() + behind;
    let fields = parts[..count].iter().filter(|part| is_field(part)).count();
    let each = bytes_max.saturating_sub(used) / fields.max(1);
    if fields > 0 && each < FIELD_BYTES_MIN {
        return Err(format!(
            "a name of at most {bytes_max} bytes has no space for the field values; use less text \
             or fewer fields"
        ));
    }
    for part in &mut parts[..count] {
        if let Part::Field(_, field_max) = part {
            *field_max = each;
        }
    }
    Ok(())
}

fn topic(parts: &mut [Part]) -> Result<(), String> {
    let text = outline(parts);
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "._-*".contains(c);
    let literals = parts.iter().filter_map(|part| match part {
        Part::Literal(text) => Some(text),
        _ => None,
    });
    if text.is_empty()
        || literals.clone().any(|text| text.contains('*'))
        || !text.chars().all(is_legal)
    {
        return Err("is not a topic name; use letters, digits, `.`, `_` and `-`".to_owned());
    }
    let first = parts.iter().position(is_field);
    let before = outline(&parts[..first.unwrap_or(parts.len())]);
    if !before.contains(|c: char| c != '.') {
        return Err(match first {
            Some(_) => "a field needs text before it; use, for example, logs-{{ app }}".to_owned(),
            None => "is not a topic name; include a letter or digit".to_owned(),
        });
    }
    if first.is_none() && text.len() > TOPIC_BYTES_MAX {
        return Err(format!(
            "exceeds the {TOPIC_BYTES_MAX}-byte limit for topic names; use a shorter name"
        ));
    }
    share(parts, parts.len(), TOPIC_BYTES_MAX)
}

fn index(parts: &mut [Part]) -> Result<(), String> {
    let text = outline(parts);
    let is_legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-*".contains(c);
    let has_star =
        parts.iter().any(|part| matches!(part, Part::Literal(text) if text.contains('*')));
    if text.is_empty() || has_star || !text.chars().all(is_legal) {
        return Err(
            "is not an index name; use lowercase letters, digits, `.`, `_` and `-`".to_owned()
        );
    }
    if text.starts_with(['-', '_']) {
        return Err(
            "an index name cannot begin with `-` or `_`; begin with a letter or digit".to_owned()
        );
    }
    let first = parts.iter().position(is_field);
    let before = outline(&parts[..first.unwrap_or(parts.len())]);
    if !before.contains(|c: char| c.is_ascii_alphanumeric()) {
        return Err(match first {
            Some(_) => "a field needs text before it; use, for example, logs-{{ app }}".to_owned(),
            None => "is not an index name; include a letter or digit".to_owned(),
        });
    }
    if first.is_none() && text.len() > INDEX_BYTES_MAX {
        return Err(format!(
            "exceeds the {INDEX_BYTES_MAX}-byte limit for index names; use a shorter name"
        ));
    }
    share(parts, parts.len(), INDEX_BYTES_MAX)
}

/// Returns the template's text with `0` for each digit of a time and `*` for each field.
fn outline(parts: &[Part]) -> String {
    let text = |part: &Part| match part {
        Part::Literal(text) => text.clone(),
        Part::Time(piece) => "0".repeat(piece.bytes_max()),
        Part::Field(..) => "*".to_owned(),
    };
    parts.iter().map(text).collect()
}
