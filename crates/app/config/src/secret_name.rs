//! Names of secrets.

/// Parts of secret names, whether or not an option has such a name.
const SECRET_PARTS: &[&str] = &[
    "apikey",
    "api_key",
    "access_key",
    "credential",
    "jaas",
    "passphrase",
    "passwd",
    "password",
    "private",
    "secret",
    "token",
];

/// Returns whether an option or a variable with this name is secret. A file name is never secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_file = name.ends_with("_file") || name.ends_with(".location");
    !is_file && SECRET_PARTS.iter().any(|part| name.contains(part))
}
