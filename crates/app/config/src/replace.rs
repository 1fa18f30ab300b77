//! Variables in scalar values: `${NAME}`, `${NAME:-default}`, `${file:/path}`, `$$`.
//!
//! Variables are substituted in the tree after YAML is parsed, so that a value can never change the
//! structure.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::fault::Fault;
use super::node::{Data, Node, Substituted, Value};
use super::scalar;
use super::secret_name::is_secret_name;

/// Maximum size of a file in `${file:...}`, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Substitutes the variables in every scalar value of `node`. A value that cannot be determined
/// becomes a hole.
pub fn replace(node: &mut Node, environment: Environment<'_>, faults: &mut Vec<Fault>) {
    match &mut node.value {
        Value::Seq(items) => items.iter_mut().for_each(|item| replace(item, environment, faults)),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|entry| replace(&mut entry.node, environment, faults));
        }
        Value::Scalar(scalar) if scalar.text.contains('$') => {
            replace_scalar(node, environment, faults)
        }
        Value::Scalar(_) | Value::Hole => {}
    }
}

/// Returns the values of the variables and files that `text` names. Defaults and unset variables
/// are omitted.
pub fn values(text: &str, environment: Environment<'_>) -> Vec<String> {
    let value = |piece: Piece<'_>| match piece {
        Piece::Variable { name, .. } => environment(name),
        Piece::File(_) => piece.value(environment).ok(),
        Piece::Text(_) | Piece::Bad(_) => None,
    };
    pieces(text).into_iter().filter_map(value).collect()
}

/// Returns the secrets among the values of the variables and files that `text` names: all values of
/// files, and values of variables with a secret name.
pub fn secret_values(text: &str, environment: Environment<'_>) -> Vec<String> {
    let value = |piece: Piece<'_>| match piece {
        Piece::Variable { name, .. } if is_secret_variable(name) => environment(name),
        Piece::File(_) => piece.value(environment).ok(),
        Piece::Variable { .. } | Piece::Text(_) | Piece::Bad(_) => None,
    };
    pieces(text).into_iter().filter_map(value).collect()
}

/// Returns whether a variable with this name is secret, such as `API_KEY` or `SLACK_WEBHOOK_PATH`.
fn is_secret_variable(name: &str) -> bool {
    let name = name.to_lowercase();
    let words = ["auth", "key", "keys", "pass", "pwd"];
    let has_word = name.split('_').any(|word| words.contains(&word) || word.ends_with("hook"));
    has_word || is_secret_name(&name)
}

fn replace_scalar(node: &mut Node, environment: Environment<'_>, faults: &mut Vec<Fault>) {
    let Value::Scalar(scalar) = &mut node.value else { return };
    let (mut text, mut secret, mut whole) = (String::new(), false, true);
    let mut substituted = Vec::new();
    for piece in pieces(&scalar.text) {
        if let Piece::Text(literal) = piece {
            text += literal;
            continue;
        }
        secret = true;
        match piece.value(environment) {
            Ok(value) => {
                text += &value;
                substituted.extend(piece.substituted(value));
            }
            Err((what, advice)) => {
                faults.push(Fault::new(&node.place, what, advice));
                whole = false;
            }
        }
    }
    if !whole {
        node.value = Value::Hole;
        return;
    }
    scalar.data = if scalar.plain { scalar::resolve(&text) } else { Data::Text };
    let template = std::mem::replace(&mut scalar.text, text);
    node.template = secret.then_some(template);
    node.substituted = substituted;
}

/// A piece of a scalar's text.
enum Piece<'t> {
    Text(&'t str),
    Variable {
        name: &'t str,
        default: Option<&'t str>,
    },
    File(&'t str),
    /// A `${` that starts no valid variable.
    Bad(&'t str),
}

/// Splits `text` at its variables; `$$` becomes the text `$`.
fn pieces(mut text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    while let Some(at) = text.find('$') {
        pieces.push(Piece::Text(&text[..at]));
        let (piece, length) = piece(&text[at..]);
        pieces.push(piece);
        text = &text[at + length..];
    }
    pieces.push(Piece::Text(text));
    pieces
}

/// Returns the piece at the start of `text`, which begins with a dollar, and its length.
fn piece(text: &str) -> (Piece<'_>, usize) {
    if text.starts_with("$$") {
        return (Piece::Text(&text[..1]), 2);
    }
    if !text.starts_with("${") {
        return (Piece::Text(&text[..1]), 1);
    }
    let Some(end) = text.find('}') else { return (Piece::Bad(text), text.len()) };
    let inner = &text[2..end];
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let piece = match inner.strip_prefix("file:") {
        Some(path) => Piece::File(path),
        None if is_name(name) => Piece::Variable { name, default },
        None => Piece::Bad(&text[..=end]),
    };
    (piece, end + 1)
}

fn is_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
}

impl Piece<'_> {
    /// Returns the part of the value that messages must not show. A default is visible in the file
    /// anyway.
    fn substituted(&self, value: String) -> Option<Substituted> {
        let shown = match *self {
            Piece::Variable { default, .. } if default == Some(&*value) => return None,
            Piece::Variable { name, .. } => format!("${{{name}}}"),
            Piece::File(path) => format!("${{file:{path}}}"),
            Piece::Text(_) | Piece::Bad(_) => return None,
        };
        Some(Substituted { shown, value })
    }

    /// Returns the substituted value. The error says what is wrong and what to use instead.
    fn value(&self, environment: Environment<'_>) -> Result<String, (String, String)> {
        match *self {
            Piece::Text(text) => Ok(text.into()),
            Piece::Variable { name, default } => {
                // As in a shell, `:-` also applies to a variable that is set but empty.
                let set = environment(name).filter(|value| default.is_none() || !value.is_empty());
                set.or(default.map(String::from)).ok_or_else(|| {
                    let advice =
                        format!("set it, or use ${{{name}:-default}}; a literal dollar is $$");
                    (format!("the variable `{name}` is not set"), advice)
                })
            }
            Piece::File(path) => read_value(Path::new(path)).map_err(|error| {
                let advice = "use the absolute path of a readable text file of at most 1MiB";
                (format!("cannot read `${{file:{path}}}`: {error}"), advice.into())
            }),
            Piece::Bad(text) => {
                let advice =
                    "use ${NAME}, ${NAME:-default} or ${file:/path}; a literal dollar is $$";
                Err((format!("`{text}` is not a variable"), advice.into()))
            }
        }
    }
}

/// Returns the content of a small regular file, without its last line ending.
fn read_value(path: &Path) -> io::Result<String> {
    if !path.is_absolute() {
        return Err(io::Error::other("the path is relative"));
    }
    // A pipe or a device could block or never end.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("the file is too large"));
    }
    let end = text
        .strip_suffix('\n')
        .map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line))
        .len();
    text.truncate(end);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn read(text: &str) -> (serde_json::Value, Vec<String>) {
        let mut faults = Vec::new();
        let mut root = parse(&"f.yaml".into(), text, &mut faults).unwrap().unwrap();
        let environment = |name: &str| match name {
            "PORT" => Some("7878".into()),
            "WORD" => Some("a: b".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        replace(&mut root, &environment, &mut faults);
        (root.to_json(), faults.iter().map(Fault::to_string).collect())
    }

    /// Each form is substituted. A plain scalar gets a type from the value, a quoted one stays
    /// text, and the structure never changes.
    #[test]
    fn forms() {
        let text = "a: ${PORT}\nb: '${PORT}'\nc: 1${PORT}\nd: ${WORD}\ne: ${NONE:-5}\nf: ${EMPTY:-x}\n\
                    g: $$${PORT}\nh: $x and $\ni: $${PORT}\nj: \"${EMPTY}\"\n${PORT}: k\nl: [ '${NONE:-}' ]\n";
        let (root, faults) = read(text);
        assert_eq!(faults, Vec::<String>::new());
        assert_eq!(
            root.to_string(),
            r#"{"a":7878,"b":"7878","c":17878,"d":"a: b","e":5,"f":"x","g":"$7878","h":"$x and $","#
                .to_owned() + r#""i":"${PORT}","j":"","${PORT}":"k","l":[""]}"#
        );
    }

    /// An unset name, an invalid name and an unreadable file are errors at their value; parsing
    /// continues.
    #[test]
    fn faults() {
        let (_, faults) = read(
            "a: ${NONE}${GONE}\nb: [\"x ${1}\", '${OPEN']\nc: ${file:/nonexistent/key}\nd: ${file:key}\n",
        );
        assert_eq!(
            faults,
            [
                "f.yaml:1:4: the variable `NONE` is not set; set it, or use ${NONE:-default}; a \
                 literal dollar is $$",
                "f.yaml:1:4: the variable `GONE` is not set; set it, or use ${GONE:-default}; a \
                 literal dollar is $$",
                "f.yaml:2:5: `${1}` is not a variable; use ${NAME}, ${NAME:-default} or \
                 ${file:/path}; a literal dollar is $$",
                "f.yaml:2:15: `${OPEN` is not a variable; use ${NAME}, ${NAME:-default} or \
                 ${file:/path}; a literal dollar is $$",
                "f.yaml:3:4: cannot read `${file:/nonexistent/key}`: No such file or directory (os \
                 error 2); use the absolute path of a readable text file of at most 1MiB",
                "f.yaml:4:4: cannot read `${file:key}`: the path is relative; use the absolute \
                 path of a readable text file of at most 1MiB",
            ]
        );
    }

    /// A file's text is used without its last line ending; other line endings stay.
    #[test]
    fn files() {
        let folder = tempfile::tempdir().unwrap();
        for (content, expected) in
            [("s3cret\n", "s3cret"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a")]
        {
            let path = folder.path().join("key");
            std::fs::write(&path, content).unwrap();
            let (root, faults) = read(&format!("a: '${{file:{}}}'\n", path.display()));
            assert_eq!(faults, Vec::<String>::new());
            assert_eq!(root["a"], expected);
        }
        let (_, faults) = read(&format!("a: ${{file:{}}}\n", folder.path().display()));
        assert!(faults[0].contains("not a regular file"), "{faults:?}");
    }
}
