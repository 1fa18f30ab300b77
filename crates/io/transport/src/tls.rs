//! TLS for clients and listeners: builds a rustls configuration from files and options, and
//! explains its errors.

mod explain;
mod pin;
mod server;
mod verify;

use crate::stamp::Stamp;
use millstream_model::OptionError;
use parking_lot::Mutex;
use pin::Pin;
pub use pin::PinOption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use schemars::JsonSchema;
use serde::Deserialize;
pub use server::{ServerTls, ServerTlsFiles, server_config};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use verify::{Trusted, Verifier};

/// The `tls` options.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TlsFiles {
    /// PEM file with trusted certificates: CA certificates, or self-signed server certificates. The
    /// default is the system CAs.
    pub ca_file: Option<PathBuf>,
    /// Fingerprints, one of which must match the endpoint: `sha256:HEX` for the endpoint's
    /// certificate or for a CA that the endpoint presents, or `sha256//BASE64` for its public key.
    /// Without `ca_file`, a matching fingerprint replaces the CA check.
    pub pin: Option<PinOption>,
    /// PEM file with the agent's client certificate and any intermediate certificates.
    pub cert_file: Option<PathBuf>,
    /// PEM file with the client certificate's private key.
    pub key_file: Option<PathBuf>,
    /// `false` accepts any endpoint certificate; with `pin`, it accepts a pinned certificate that
    /// has expired or belongs to another host. Use it only for tests.
    pub verify: bool,
    /// `false` accepts a certificate for another host name. Prefer `server_name` if the name in the
    /// certificate differs from the address.
    pub verify_hostname: bool,
    /// Server name to send in the TLS handshake (SNI) and to verify against the certificate. The
    /// default is the host in the address.
    pub server_name: Option<String>,
}

impl Default for TlsFiles {
    fn default() -> Self {
        TlsFiles {
            ca_file: None,
            pin: None,
            cert_file: None,
            key_file: None,
            verify: true,
            verify_hostname: true,
            server_name: None,
        }
    }
}

impl TlsFiles {
    /// Returns the invalid options, as (JSON pointer relative to `tls`, "what is wrong; what to use
    /// instead").
    pub fn check(&self) -> Vec<OptionError> {
        let mut errors = Vec::new();
        if self.cert_file.is_some() != self.key_file.is_some() {
            errors.push(OptionError::new(
                String::new(),
                "`cert_file` and `key_file` must be set together; set both",
            ));
        }
        if let Some(name) = &self.server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            let text = format!(
                "{name:?} is not a host name; use one without a port, such as logs.example.com"
            );
            errors.push(OptionError::new("/server_name", text));
        }
        if let Err(error) = self.pins() {
            errors.push(error);
        }
        errors
    }

    /// Returns the fingerprints in the `pin` option.
    fn pins(&self) -> Result<Vec<Pin>, OptionError> {
        let Some(option) = &self.pin else { return Ok(Vec::new()) };
        if option.texts().is_empty() {
            let text = "contains no fingerprint; add at least one, or remove `pin`";
            return Err(OptionError::new("/pin", text));
        }
        let parse =
            |text: &String| Pin::parse(text).map_err(|error| OptionError::new("/pin", error));
        option.texts().iter().map(parse).collect()
    }

    /// Returns the configured files, each with its JSON pointer relative to `tls`.
    pub fn files(&self) -> Vec<(String, PathBuf)> {
        let all = [
            ("/ca_file", &self.ca_file),
            ("/cert_file", &self.cert_file),
            ("/key_file", &self.key_file),
        ];
        all.into_iter()
            .filter_map(|(pointer, path)| Some((pointer.to_owned(), path.clone()?)))
            .collect()
    }
}

/// The reason why TLS cannot be used. Each message names the file and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file is unreadable.
    #[error("`{option}` {}: {error}", path.display())]
    Read {
        /// The option that names the file.
        option: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A file has unusable contents.
    #[error("`{option}` {} {what}", path.display())]
    Content {
        /// The option that names the file.
        option: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What is wrong, and what to do.
        what: String,
    },
    /// The system has no trusted CA certificates.
    #[error(
        "the system has no trusted CA certificates{0}; install ca-certificates or set `ca_file`"
    )]
    NoAuthorities(String),
    /// Any other error.
    #[error("{0}")]
    Other(String),
}

/// Builds a TLS configuration from these options. Reads the files.
///
/// # Errors
/// Returns an error if a file is missing or has unusable contents, or the key does not match the
/// certificate.
pub fn client_config(files: &TlsFiles) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Other(error.to_string()))?;
    let builder =
        builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier(files, provider)?));
    let config = match (&files.cert_file, &files.key_file) {
        (Some(cert), Some(key)) => {
            let chain = certificates("cert_file", cert)?;
            let key_der = private_key(key)?;
            builder
                .with_client_auth_cert(chain, key_der)
                .map_err(|error| key_error(error, cert, key))?
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

fn verifier(files: &TlsFiles, provider: Arc<CryptoProvider>) -> Result<Verifier, TlsError> {
    let pins = files.pins().map_err(|error| TlsError::Other(error.message()))?;
    let needs_authorities = files.verify && (pins.is_empty() || files.ca_file.is_some());
    Ok(Verifier {
        trusted: if needs_authorities { Some(trusted(files)?) } else { None },
        pins,
        checks_validity: files.verify,
        checks_name: files.verify && files.verify_hostname,
        provider,
    })
}

/// Returns the error for a certificate that cannot be used with its key.
fn key_error(error: rustls::Error, cert: &Path, key: &Path) -> TlsError {
    let what = match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("does not match the certificate in {}; use a matching pair", cert.display())
        }
        error => format!("cannot be used with {}: {error}", cert.display()),
    };
    TlsError::Content { option: "key_file", path: key.to_owned(), what }
}

/// Returns the trusted certificates: those in `ca_file`, or the system's authorities.
fn trusted(files: &TlsFiles) -> Result<Trusted, TlsError> {
    let mut authorities = RootCertStore::empty();
    let Some(path) = &files.ca_file else {
        let found = rustls_native_certs::load_native_certs();
        let (added, _) = authorities.add_parsable_certificates(found.certs);
        let why = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
        let trusted = Trusted { authorities, servers: Vec::new() };
        return if added == 0 { Err(TlsError::NoAuthorities(why)) } else { Ok(trusted) };
    };
    let servers = certificates("ca_file", path)?;
    for certificate in &servers {
        authorities.add(certificate.clone()).map_err(|error| {
            let what = format!("contains an unusable certificate: {error}");
            TlsError::Content { option: "ca_file", path: path.clone(), what }
        })?;
    }
    Ok(Trusted { authorities, servers })
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read { option, path: path.to_owned(), error })
}

/// Returns the certificates in a PEM file. There is at least one.
fn certificates(
    option: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content_error = |what: String| TlsError::Content { option, path: path.to_owned(), what };
    let bytes = read(option, path)?;
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&bytes).collect();
    let found = found.map_err(|error| content_error(format!("is corrupt: {error}; replace it")))?;
    if found.is_empty() {
        return Err(content_error(
            "contains no certificate; add a `-----BEGIN CERTIFICATE-----` block".to_owned(),
        ));
    }
    Ok(found)
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bytes = read("key_file", path)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| {
        let is_encrypted = bytes.windows(9).any(|text| text == b"ENCRYPTED");
        let what = match error {
            _ if is_encrypted => {
                "is encrypted; remove its passphrase with `openssl pkey`".to_owned()
            }
            pem::Error::NoItemsFound => {
                "contains no key; add a `-----BEGIN PRIVATE KEY-----` block".to_owned()
            }
            error => format!("is corrupt: {error}; replace it"),
        };
        TlsError::Content { option: "key_file", path: path.to_owned(), what }
    })
}

/// A configuration that is rebuilt when its files change.
struct Reloaded<C>(Mutex<State<C>>);

impl<C> Default for Reloaded<C> {
    fn default() -> Self {
        Reloaded(Mutex::new(State { config: None, stamps: None, warned: None }))
    }
}

struct State<C> {
    config: Option<Arc<C>>,
    /// The stamps of the files from which `config` was built; [`None`] if the configuration must be
    /// rebuilt.
    stamps: Option<Vec<Stamp>>,
    /// The last warning about unusable files that was logged.
    warned: Option<String>,
}

impl<C> Reloaded<C> {
    /// Returns the configuration. Calls `build` if there is none, or the files have changed. If
    /// `build` fails, returns the previous configuration, and logs a warning.
    fn get(
        &self,
        files: &[(String, PathBuf)],
        build: impl FnOnce() -> Result<Arc<C>, TlsError>,
    ) -> Result<Arc<C>, TlsError> {
        let stamps: Option<Vec<Stamp>> =
            files.iter().map(|(_, path)| Stamp::of(path).ok().flatten()).collect();
        let state = self.0.lock();
        if let Some(config) = &state.config
            && stamps.is_some()
            && stamps == state.stamps
        {
            return Ok(config.clone());
        }
        drop(state);
        let built = build();
        let mut state = self.0.lock();
        match (built, &state.config) {
            (Ok(config), _) => {
                *state = State { config: Some(config.clone()), stamps, warned: None };
                Ok(config)
            }
            (Err(error), None) => Err(error),
            (Err(error), Some(config)) => {
                let (config, text) = (config.clone(), error.to_string());
                if state.warned.as_ref() != Some(&text) {
                    log::warn!("{text}; the previous certificates stay in use");
                    state.warned = Some(text);
                }
                Ok(config)
            }
        }
    }

    /// Returns whether a configuration was built.
    fn is_built(&self) -> bool {
        self.0.lock().config.is_some()
    }
}

/// TLS for the connections of one component. The files are reread when they change.
pub struct Tls {
    files: TlsFiles,
    reloaded: Reloaded<ClientConfig>,
}

impl Tls {
    /// Creates TLS with these options without reading any file yet.
    pub fn new(files: TlsFiles) -> Tls {
        Tls { files, reloaded: Reloaded::default() }
    }

    /// Returns the configuration for the next connection. Reads changed files, which may block on
    /// disk. If the files have become unusable, for example while they are being replaced, the
    /// previous configuration stays in use and a warning is logged.
    ///
    /// # Errors
    /// Returns errors from [`client_config`] until that function has succeeded once.
    pub fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        self.reloaded.get(&self.files.files(), || {
            if !self.reloaded.is_built() {
                self.warn();
            }
            client_config(&self.files)
        })
    }

    fn warn(&self) {
        if !self.files.verify && self.files.pin.is_some() {
            log::warn!(
                "`tls.verify: false`: a pinned certificate is accepted after its expiry and for \
                 any host"
            );
        } else if !self.files.verify {
            log::warn!(
                "`tls.verify: false`: any certificate is accepted; an attacker on the network path \
                 can read and change the data"
            );
        } else if !self.files.verify_hostname {
            log::warn!(
                "`tls.verify_hostname: false`: a trusted certificate for any host is accepted"
            );
        }
    }

    /// Returns the server name for connections to `host`: the configured name, or otherwise `host`.
    ///
    /// # Errors
    /// Returns an error if the name is neither a host name nor an IP address.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, TlsError> {
        let name = self.files.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.trim_matches(['[', ']']).to_owned()).map_err(|_| {
            TlsError::Other(format!("{name:?} is not a host name; set `tls.server_name`"))
        })
    }

    /// Explains why a connection to `host` failed; `None` if TLS is not the cause. `without_tls`
    /// says how to connect without TLS.
    pub fn explain(&self, error: &io::Error, host: &str, without_tls: &str) -> Option<String> {
        let error = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(explain::explain(
            error,
            self.files.server_name.as_deref().unwrap_or(host),
            &self.files,
            without_tls,
        ))
    }
}

#[cfg(test)]
mod tests;
