//! Valid and invalid certificates for tests, generated on each run.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The CA certificate as PEM.
    pub cert: String,
}

/// A certificate and its key as PEM.
pub struct Certificate {
    /// The certificate.
    pub cert: String,
    /// The unencrypted key.
    pub key: String,
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Currently valid.
    Good,
    /// Expired on 2020-02-01.
    Expired,
    /// Valid from 2400-01-01.
    NotYet,
}

impl Authority {
    /// Generates an authority.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate for a self-signed one if its issuer has the same name.
        params.distinguished_name.push(DnType::CommonName, "authority of the tests");
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), cert }
    }

    /// Issues a server and client certificate for these names.
    pub fn issue(&self, names: &[&str], validity: Validity) -> Certificate {
        let key = KeyPair::generate().expect("a key");
        let params = params(names, validity);
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certificate { cert, key: key.serialize_pem() }
    }

    /// Writes the CA certificate to `NAME.crt` in `folder`. Returns its path.
    pub fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(format!("{name}.crt"));
        fs::write(&path, &self.cert).expect("the certificate is written");
        path
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}

fn params(names: &[&str], validity: Validity) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    match validity {
        Validity::Good => {}
        Validity::Expired => {
            (params.not_before, params.not_after) =
                (date_time_ymd(2020, 1, 1), date_time_ymd(2020, 2, 1));
        }
        Validity::NotYet => params.not_before = date_time_ymd(2400, 1, 1),
    }
    params
}

impl Certificate {
    /// Generates a self-signed server certificate for these names, marked as a CA's (`CA:TRUE`, the
    /// default of `openssl req -x509`) or not.
    pub fn self_signed(names: &[&str], validity: Validity, is_ca: bool) -> Certificate {
        let mut params = params(names, validity);
        params.is_ca = match is_ca {
            true => IsCa::Ca(BasicConstraints::Unconstrained),
            false => IsCa::ExplicitNoCa,
        };
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate").pem();
        Certificate { cert, key: key.serialize_pem() }
    }

    /// Returns an acceptor with this certificate. With `clients`, clients need a certificate signed
    /// by that authority.
    pub fn acceptor(&self, clients: Option<&Authority>) -> TlsAcceptor {
        TlsAcceptor::from(self.server(clients))
    }

    /// Returns a server configuration with this certificate, like [`Certificate::acceptor`].
    pub fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().expect("TLS versions");
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(chain(&authority.cert).remove(0)).expect("an authority");
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
        };
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("a key");
        Arc::new(
            builder.with_single_cert(chain(&self.cert), key).expect("a certificate with its key"),
        )
    }

    /// Returns the SHA-256 fingerprint of the certificate, in the format of the `tls.pin` option.
    pub fn fingerprint(&self) -> String {
        let hash = Sha256::digest(&chain(&self.cert)[0]);
        hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Writes the certificate to `NAME.crt` and the key to `NAME.key` in `folder`. Returns the
    /// paths.
    pub fn write(&self, folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (cert, key) = (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")));
        fs::write(&cert, &self.cert).expect("the certificate is written");
        fs::write(&key, &self.key).expect("the key is written");
        (cert, key)
    }
}

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().expect("certificates")
}
