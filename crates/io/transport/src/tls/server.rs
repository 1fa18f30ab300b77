//! TLS for our own listeners: the certificate of the agent, and the certificates of its clients.

use super::{Reloaded, TlsError, certificates, key_error, private_key};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The `tls` options of a component that listens.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerTlsFiles {
    /// PEM file with the certificate of the agent and any intermediate certificates.
    pub cert_file: PathBuf,
    /// PEM file with the private key of the certificate.
    pub key_file: PathBuf,
    /// PEM file with CA certificates, one of which must have signed the certificate of each client.
    /// The default is that clients need no certificate.
    pub client_ca_file: Option<PathBuf>,
}

impl ServerTlsFiles {
    /// Returns the configured files, each with its JSON pointer relative to `tls`.
    pub fn files(&self) -> Vec<(String, PathBuf)> {
        let all = [
            ("/cert_file", Some(&self.cert_file)),
            ("/key_file", Some(&self.key_file)),
            ("/client_ca_file", self.client_ca_file.as_ref()),
        ];
        all.into_iter()
            .filter_map(|(pointer, path)| Some((pointer.to_owned(), path?.clone())))
            .collect()
    }
}

/// Builds a TLS configuration from these options. Reads the files.
///
/// # Errors
/// Returns an error if a file is missing or has unusable contents, or the key does not match the
/// certificate.
pub fn server_config(files: &ServerTlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError::Other(error.to_string()))?;
    let builder = match &files.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let option = "client_ca_file";
            let unusable = |error: String| {
                let what = format!("contains an unusable certificate: {error}");
                TlsError::Content { option, path: path.clone(), what }
            };
            let mut authorities = RootCertStore::empty();
            for certificate in certificates(option, path)? {
                authorities.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(authorities.into(), provider).build();
            builder
                .with_client_cert_verifier(verifier.map_err(|error| unusable(error.to_string()))?)
        }
    };
    let chain = certificates("cert_file", &files.cert_file)?;
    let key = private_key(&files.key_file)?;
    let config = builder
        .with_single_cert(chain, key)
        .map_err(|error| key_error(error, &files.cert_file, &files.key_file))?;
    Ok(Arc::new(config))
}

/// TLS for the listeners of one component. The files are reread when they change.
pub struct ServerTls {
    files: ServerTlsFiles,
    reloaded: Reloaded<ServerConfig>,
}

impl ServerTls {
    /// Creates TLS with these options without reading any file yet.
    pub fn new(files: ServerTlsFiles) -> ServerTls {
        ServerTls { files, reloaded: Reloaded::default() }
    }

    /// Returns the configuration for the next connection. Reads changed files, which may block on
    /// disk. If the files have become unusable, for example while they are being replaced, the
    /// previous configuration stays in use and a warning is logged.
    ///
    /// # Errors
    /// Returns errors from [`server_config`] until that function has succeeded once.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        self.reloaded.get(&self.files.files(), || server_config(&self.files))
    }
}
