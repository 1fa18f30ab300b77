//! Certificates for tests, made anew for every run: of an authority, good ones and bad ones.

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// An authority that signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate, as PEM.
    pub cert: String,
}

/// A certificate with its key, both as PEM.
pub struct Certificate {
    /// The certificate.
    pub cert: String,
    /// The key, not encrypted.
    pub key: String,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    /// Now.
    Good,
    /// It has expired on 2020-02-01.
    Expired,
    /// It begins on 2400-01-01.
    NotYet,
}

impl Authority {
    /// A new authority.
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate").pem();
        Authority { issuer: Issuer::new(params, key), cert }
    }

    /// A certificate for a server or a client with these names.
    pub fn issue(&self, names: &[&str], validity: Validity) -> Certificate {
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
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Certificate { cert, key: key.serialize_pem() }
    }

    /// Writes its certificate to `NAME.crt` in `folder`.
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

impl Certificate {
    /// A server with this certificate; its clients need one of `clients`, if that is given.
    pub fn acceptor(&self, clients: Option<&Authority>) -> TlsAcceptor {
        TlsAcceptor::from(self.server(clients))
    }

    /// How such a server is set up.
    pub fn server(&self, clients: Option<&Authority>) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().expect("versions of TLS");
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

    /// Writes it to `NAME.crt` and its key to `NAME.key` in `folder`.
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
