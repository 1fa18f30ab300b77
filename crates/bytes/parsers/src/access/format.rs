//! Splits a format string into pieces.

use super::variables::{Of, Piece, apache, nginx};

pub(super) const NGINX_COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status \
     $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";
const APACHE_COMMON: &str = r#"%h %l %u %t "%r" %>s %b"#;
const APACHE_COMBINED: &str = r#"%h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-Agent}i""#;

/// Collects pieces and joins adjacent literals.
#[derive(Default)]
struct Pieces(Vec<Piece>);

impl Pieces {
    fn literal(&mut self, text: &[u8]) {
        match self.0.last_mut() {
            Some(Piece::Literal(last)) => last.extend_from_slice(text),
            _ => self.0.push(Piece::Literal(text.to_vec())),
        }
    }
}

/// Parses nginx's `log_format`.
pub(super) fn of_nginx(format: &str) -> Result<Vec<Piece>, String> {
    let format = if format.is_empty() || format == "combined" { NGINX_COMBINED } else { format };
    let mut pieces = Pieces::default();
    let mut rest = format;
    while let Some(at) = rest.find('$') {
        pieces.literal(&rest.as_bytes()[..at]);
        let (name, behind) = nginx_name(&rest[at + 1..])?;
        pieces.0.push(Piece::Variable(nginx(name)));
        rest = behind;
    }
    pieces.literal(rest.as_bytes());
    Ok(pieces.0)
}

/// Splits the text after a `$` into the variable's name and the rest.
fn nginx_name(text: &str) -> Result<(&str, &str), String> {
    if let Some(text) = text.strip_prefix('{') {
        return text
            .split_once('}')
            .ok_or_else(|| "${ without a closing brace; use ${name}".into());
    }
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    match text.bytes().take_while(|byte| is_name(byte)).count() {
        0 => Err("$ without a variable name; use $name, such as $status".into()),
        len => Ok(text.split_at(len)),
    }
}

/// Parses Apache's `LogFormat`.
pub(super) fn of_apache(format: &str) -> Result<Vec<Piece>, String> {
    let format = match format {
        "" | "combined" => APACHE_COMBINED,
        "common" => APACHE_COMMON,
        format => format,
    };
    let mut pieces = Pieces::default();
    let mut rest = format;
    while let Some(first) = rest.chars().next() {
        rest = match first {
            '%' => directive(&rest[1..], &mut pieces)?,
            '\\' => {
                let escaped = rest[1..].chars().next().unwrap_or('\\');
                let byte = match escaped {
                    't' => '\t',
                    'n' => '\n',
                    other => other,
                };
                pieces.literal(byte.encode_utf8(&mut [0; 4]).as_bytes());
                rest[1..].strip_prefix(escaped).unwrap_or_default()
            }
            other => {
                pieces.literal(&rest.as_bytes()[..other.len_utf8()]);
                &rest[other.len_utf8()..]
            }
        };
    }
    Ok(pieces.0)
}

/// Parses the directive after a `%`. Returns the rest of the text.
fn directive<'a>(text: &'a str, pieces: &mut Pieces) -> Result<&'a str, String> {
    if let Some(rest) = text.strip_prefix('%') {
        pieces.literal(b"%");
        return Ok(rest);
    }
    // Skips the modifiers that select the original or the final request, and the status codes to
    // which logging of the value is restricted.
    let is_condition = |c: char| c.is_ascii_digit() || "<>!,".contains(c);
    let text = text.trim_start_matches(is_condition);
    let (argument, text) = match text.strip_prefix('{') {
        Some(text) => match text.split_once('}') {
            Some((argument, rest)) => (Some(argument), rest),
            None => return Err("%{ without a closing brace; use %{name}i".into()),
        },
        None => (None, text),
    };
    let (letter, len) = letter_of(text)?;
    let unknown = || format!("unknown directive %{letter} of LogFormat; use %% for a percent sign");
    let variable = apache(letter, argument).ok_or_else(unknown)?;
    let is_bracketed = matches!(variable.of, Of::Time { .. }) && argument.is_none();
    if is_bracketed {
        pieces.literal(b"[");
    }
    pieces.0.push(Piece::Variable(variable));
    if is_bracketed {
        pieces.literal(b"]");
    }
    Ok(&text[len..])
}

/// Returns the letter of a directive and its length, which is 1, or 3 for `%^ti` and `%^to`.
fn letter_of(text: &str) -> Result<(char, usize), String> {
    match text.chars().next() {
        Some('^') if text.starts_with("^ti") => Ok(('i', 3)),
        Some('^') if text.starts_with("^to") => Ok(('o', 3)),
        Some(letter) => Ok((letter, letter.len_utf8())),
        None => Err("% without a letter; use %% for a percent sign".into()),
    }
}
