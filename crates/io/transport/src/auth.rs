//! HTTP client authentication: basic, bearer, API key, or a custom header. Secrets come from
//! options or files. They never appear in messages, because the process masks them.

use crate::stamp::Stamp;
use millstream_model::OptionError;
use millstream_model::secrets::{self, Origin};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum size of a secret file in bytes. Reading a longer file is an error.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Authentication method, with its credentials.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum AuthOptions {
    /// User and password.
    Basic {
        /// User name for basic authentication.
        user: String,
        /// Password. Prefer `password_file`.
        #[serde(default)]
        password: Option<String>,
        /// File with the password, which is reread when it changes.
        #[serde(default)]
        password_file: Option<PathBuf>,
    },
    /// A bearer token.
    Bearer {
        /// Token. Prefer `token_file`.
        #[serde(default)]
        token: Option<String>,
        /// File with the token, which is reread when it changes.
        #[serde(default)]
        token_file: Option<PathBuf>,
    },
    /// An Elasticsearch API key.
    ApiKey {
        /// Secret API key, in the encoded form that Elasticsearch returns. Prefer `key_file`.
        #[serde(default)]
        key: Option<String>,
        /// File with the key, which is reread when it changes.
        #[serde(default)]
        key_file: Option<PathBuf>,
    },
    /// A custom header.
    Header {
        /// Name of the header.
        name: String,
        /// Secret header value. Prefer `value_file`.
        #[serde(default)]
        value: Option<String>,
        /// File with the value, which is reread when it changes.
        #[serde(default)]
        value_file: Option<PathBuf>,
    },
}

impl fmt::Debug for AuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthOptions::Basic { .. } => "Basic(…)",
            AuthOptions::Bearer { .. } => "Bearer(…)",
            AuthOptions::ApiKey { .. } => "ApiKey(…)",
            AuthOptions::Header { .. } => "Header(…)",
        })
    }
}

impl AuthOptions {
    /// Returns an error for each invalid option. The JSON pointers are relative to `auth`, and each
    /// message says what is wrong and what to use instead.
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        let (key, text, file) = match self {
            AuthOptions::Basic { password, password_file, .. } => {
                ("password", password, password_file)
            }
            AuthOptions::Bearer { token, token_file } => ("token", token, token_file),
            AuthOptions::ApiKey { key, key_file } => ("key", key, key_file),
            AuthOptions::Header { value, value_file, .. } => ("value", value, value_file),
        };
        match (text, file) {
            (None, None) => errors.push(OptionError::new(
                "",
                format!("needs `{key}_file` or `{key}`; set one of them"),
            )),
            (Some(_), Some(_)) => {
                errors.push(OptionError::new(
                    format!("/{key}"),
                    format!("conflicts with `{key}_file`; keep one of them"),
                ));
            }
            (Some(text), None) if !is_header_value(text) => errors.push(OptionError::new(
                format!("/{key}"),
                "contains bytes that are invalid in a header; use one line of visible characters",
            )),
            _ => {}
        }
        match self {
            AuthOptions::Basic { user, .. } if user.contains(':') || !is_header_value(user) => {
                errors.push(OptionError::new(
                    "/user",
                    "contains a colon or a control character; remove it",
                ));
            }
            AuthOptions::Header { name, .. } => {
                errors.extend(name_error(name).map(|text| OptionError::new("/name", text)));
            }
            _ => {}
        }
        errors
    }

    /// Returns the file that contains the secret, if there is one, with its JSON pointer relative
    /// to `auth`.
    pub fn files(&self) -> Vec<(String, PathBuf)> {
        let (pointer, file) = match self {
            AuthOptions::Basic { password_file, .. } => ("/password_file", password_file),
            AuthOptions::Bearer { token_file, .. } => ("/token_file", token_file),
            AuthOptions::ApiKey { key_file, .. } => ("/key_file", key_file),
            AuthOptions::Header { value_file, .. } => ("/value_file", value_file),
        };
        file.iter().map(|path| (pointer.to_owned(), path.clone())).collect()
    }

    /// Builds the authentication method. Does not read any file yet.
    pub fn build(self) -> Auth {
        match self {
            AuthOptions::Basic { user, password, password_file } => {
                Auth::Basic { user, password: Secret::of(password, password_file) }
            }
            AuthOptions::Bearer { token, token_file } => {
                Auth::Bearer { token: Secret::of(token, token_file) }
            }
            AuthOptions::ApiKey { key, key_file } => {
                Auth::ApiKey { key: Secret::of(key, key_file) }
            }
            AuthOptions::Header { name, value, value_file } => {
                Auth::Header { name, value: Secret::of(value, value_file) }
            }
        }
    }
}

/// Returns the reason why a header with this name cannot carry a secret; `None` if it can.
fn name_error(name: &str) -> Option<String> {
    if !is_header_name(name) {
        return Some(format!("{name:?} is not a header name; use, for example, X-Api-Key"));
    }
    let text = || format!("{name} is set by the agent; use another name, such as X-Api-Key");
    is_reserved_header(name).then(text)
}

/// Returns whether this is a header that requests set themselves. Names are compared
/// case-insensitively.
pub fn is_reserved_header(name: &str) -> bool {
    const RESERVED: [&str; 6] = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "content-encoding",
        "idempotency-key",
    ];
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// A client's authentication method.
#[derive(Clone, Debug)]
pub enum Auth {
    /// User name and password.
    Basic {
        /// The user name.
        user: String,
        /// The password.
        password: Secret,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        token: Secret,
    },
    /// An Elasticsearch API key.
    ApiKey {
        /// The key in Elasticsearch's encoded form.
        key: Secret,
    },
    /// A custom header.
    Header {
        /// Name of the header.
        name: String,
        /// Value of the header.
        value: Secret,
    },
}

impl Auth {
    /// Returns the password, token or value.
    ///
    /// # Errors
    /// Returns an error if the secret's file is unusable.
    pub fn secret(&self) -> Result<Arc<str>, SecretError> {
        match self {
            Auth::Basic { password: secret, .. }
            | Auth::Bearer { token: secret }
            | Auth::ApiKey { key: secret }
            | Auth::Header { value: secret, .. } => secret.text(),
        }
    }

    /// Returns the header name and secret value for the next request. The call may read a file.
    ///
    /// # Errors
    /// Returns an error if the secret's file is unusable; the message names the file and says what
    /// to do.
    pub fn header(&self) -> Result<(&str, String), SecretError> {
        Ok(match self {
            Auth::Basic { user, password } => {
                let pair = base64(format!("{user}:{}", password.text()?).as_bytes());
                secrets::remember(Origin::Current, [&pair]);
                ("authorization", format!("Basic {pair}"))
            }
            Auth::Bearer { token } => ("authorization", format!("Bearer {}", token.text()?)),
            Auth::ApiKey { key } => ("authorization", format!("ApiKey {}", key.text()?)),
            Auth::Header { name, value } => (name, value.text()?.to_string()),
        })
    }
}

/// The error for an unusable secret file.
#[derive(Debug, thiserror::Error)]
#[error("the secret in {}: {what}", path.display())]
pub struct SecretError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

/// A string that is never displayed. The string is either a literal, or the content of a file that
/// is reread when it changes.
#[derive(Clone)]
pub struct Secret(Arc<SecretSource>);

enum SecretSource {
    Literal(Arc<str>),
    File(PathBuf, Mutex<Option<(Stamp, Arc<str>)>>),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Secret {
    /// Creates a literal secret.
    pub fn literal(text: &str) -> Secret {
        secrets::remember(Origin::Configuration, [text]);
        Secret(Arc::new(SecretSource::Literal(text.into())))
    }

    /// Creates a secret that is read from the file at `path`. A trailing newline is ignored.
    pub fn file(path: PathBuf) -> Secret {
        Secret(Arc::new(SecretSource::File(path, Mutex::default())))
    }

    fn of(text: Option<String>, file: Option<PathBuf>) -> Secret {
        match file {
            Some(path) => Secret::file(path),
            None => Secret::literal(&text.unwrap_or_default()),
        }
    }

    /// Returns the current secret.
    ///
    /// # Errors
    /// Returns an error if the file is unreadable, empty, longer than 64 KiB, or not a single line
    /// of visible characters.
    pub fn text(&self) -> Result<Arc<str>, SecretError> {
        let (path, read) = match &*self.0 {
            SecretSource::Literal(text) => return Ok(text.clone()),
            SecretSource::File(path, read) => (path, read),
        };
        let secret_error = |what: String| SecretError { path: path.clone(), what };
        let mut read = read.lock();
        let stamp = Stamp::of(path).map_err(|error| secret_error(error.to_string()))?;
        if let (Some(stamp), Some((before, text))) = (&stamp, &*read)
            && stamp == before
        {
            return Ok(text.clone());
        }
        let text: Arc<str> =
            read_secret(path).map_err(|error| secret_error(error.to_string()))?.into();
        secrets::remember(Origin::Current, [&text]);
        *read = stamp.map(|stamp| (stamp, text.clone()));
        Ok(text)
    }
}

fn read_secret(path: &Path) -> io::Result<String> {
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidData, what);
    // Reading a pipe or a device could block forever.
    if !path.metadata()?.is_file() {
        return Err(invalid("is not a regular file; put the secret in a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(SECRET_BYTES_MAX as u64 + 1).read_to_string(&mut text)?;
    if text.len() > SECRET_BYTES_MAX {
        return Err(invalid("is longer than 64 KiB; use a file that contains only the secret"));
    }
    let text = text.trim_end_matches(['\r', '\n']);
    match text {
        "" => Err(invalid("is empty; put the secret in the file")),
        text if !is_header_value(text) => {
            Err(invalid("is not one line of visible characters; check the file"))
        }
        text => Ok(text.to_owned()),
    }
}

/// Returns whether a header may have this text as its value.
fn is_header_value(text: &str) -> bool {
    text.bytes().all(|byte| byte >= b' ' && byte != 0x7f)
}

fn is_header_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_token)
}

/// Returns the bytes in Base64, with padding.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            (0..3).fold(0u32, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { digit as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests;
