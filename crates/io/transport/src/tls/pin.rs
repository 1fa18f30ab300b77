//! Fingerprints of certificates and public keys in the `tls.pin` option.

use crate::auth::base64;
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::fmt;

/// One fingerprint or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PinOption {
    /// One fingerprint.
    One(String),
    /// Several fingerprints, for example before and after a renewal.
    Many(Vec<String>),
}

impl PinOption {
    /// Returns the fingerprints as written in the options.
    pub fn texts(&self) -> &[String] {
        match self {
            PinOption::One(text) => std::slice::from_ref(text),
            PinOption::Many(texts) => texts,
        }
    }
}

/// A fingerprint: the SHA-256 hash of a certificate or of its public key. The displayed form is the
/// form that the options use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// Hash of a DER certificate, as lowercase hex, as printed by `openssl x509 -fingerprint
    /// -sha256` and Elasticsearch.
    Certificate(String),
    /// Hash of a DER public key (SPKI), as Base64, as accepted by `curl --pinnedpubkey`.
    PublicKey(String),
}

/// Advice about the syntax of a fingerprint, for errors.
const FORMS: &str = "use sha256: and 64 hex digits for a certificate, as printed by `openssl x509 \
                     -noout -fingerprint -sha256`, or sha256// and 44 Base64 characters for a \
                     public key, as in `curl --pinnedpubkey`";

impl Pin {
    /// Parses a fingerprint. A certificate fingerprint may contain colons, and may begin with
    /// `sha256:` or with the prefix that `openssl` prints.
    ///
    /// # Errors
    /// Returns an error if the text has none of these forms; the message says what to use.
    pub fn parse(text: &str) -> Result<Pin, String> {
        let text = text.trim();
        if let Some(hash) = text.strip_prefix("sha256//") {
            return match is_base64_hash(hash) {
                true => Ok(Pin::PublicKey(hash.to_owned())),
                false => Err(format!("{text:?} is not a Base64-encoded SHA-256 hash; {FORMS}")),
            };
        }
        let hash = without_prefix(text).replace(':', "");
        let is_hex = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        match is_hex {
            true => Ok(Pin::Certificate(hash.to_ascii_lowercase())),
            false => Err(format!("{text:?} is not a SHA-256 fingerprint; {FORMS}")),
        }
    }

    /// Returns the fingerprint of a certificate.
    pub fn of_certificate(certificate: &CertificateDer<'_>) -> Pin {
        let hash = Sha256::digest(certificate);
        Pin::Certificate(hash.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the fingerprint of a certificate's public key.
    pub fn of_key(certificate: &ParsedCertificate<'_>) -> Pin {
        Pin::PublicKey(base64(&Sha256::digest(certificate.subject_public_key_info())))
    }
}

/// Returns a certificate hash without the prefix `sha256:`, or without the prefix
/// `sha256 Fingerprint=` that openssl prints. The case of that prefix depends on the openssl
/// release.
fn without_prefix(text: &str) -> &str {
    match text.split_once('=') {
        Some((name, hash)) if name.trim().eq_ignore_ascii_case("sha256 fingerprint") => hash.trim(),
        _ => text.strip_prefix("sha256:").unwrap_or(text),
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pin::Certificate(hash) => write!(f, "sha256:{hash}"),
            Pin::PublicKey(hash) => write!(f, "sha256//{hash}"),
        }
    }
}

/// Returns whether `text` is 32 bytes in Base64. The last digit has two unused bits, which must be
/// 0.
fn is_base64_hash(text: &str) -> bool {
    let Some(digits) = text.strip_suffix('=') else { return false };
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    digits.len() == 43
        && digits.bytes().all(is_digit)
        && digits.ends_with(|last| "AEIMQUYcgkosw048".contains(last))
}

/// The error if no fingerprint matches any of the server's certificates.
#[derive(Debug, thiserror::Error)]
#[error(
    "its fingerprint is {certificate}, and the fingerprint of its public key is {key}, but `pin` \
     expects {}",
    expected.iter().map(Pin::to_string).collect::<Vec<_>>().join(" or ")
)]
pub struct PinMismatch {
    /// Fingerprint of the server's certificate.
    pub certificate: Pin,
    /// Fingerprint of the server's public key.
    pub key: Pin,
    /// Fingerprints from the options.
    pub expected: Vec<Pin>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const BASE64: &str = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=";

    #[test]
    fn fingerprints_are_read_as_other_programs_write_them() {
        let pairs: Vec<&str> = (0..HEX.len()).step_by(2).map(|at| &HEX[at..at + 2]).collect();
        let colons = pairs.join(":").to_uppercase();
        let of_openssl = ["sha256", "SHA256"].map(|name| format!("{name} Fingerprint={colons}"));
        let texts = [HEX, &format!("sha256:{HEX}"), &colons, &format!(" sha256:{colons} ")];
        for text in texts.into_iter().chain(of_openssl.iter().map(String::as_str)) {
            assert_eq!(Pin::parse(text), Ok(Pin::Certificate(HEX.to_owned())), "{text}");
        }
        let key = format!("sha256//{BASE64}");
        assert_eq!(Pin::parse(&key).unwrap().to_string(), key);
    }

    #[test]
    fn what_is_no_fingerprint_is_refused_with_advice() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let cut = format!("sha256//{}", &BASE64[1..]);
        let never = format!("sha256//{}V=", &BASE64[..42]);
        for text in [
            "",
            md5,
            BASE64,
            &HEX[1..],
            &cut,
            &never,
            &format!("sha1:{HEX}"),
            &format!("sha1 Fingerprint={HEX}"),
        ] {
            assert!(Pin::parse(text).unwrap_err().contains("sha256//"), "{text}");
        }
    }
}
