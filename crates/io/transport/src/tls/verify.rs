//! The verifier for server certificates, which checks authorities, identity and fingerprints.

use super::pin::{Pin, PinMismatch};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};
use std::sync::Arc;

/// The checks for a server's certificate. Checks without a value are skipped.
#[derive(Debug)]
pub struct Verifier {
    /// The trusted certificates.
    pub trusted: Option<Trusted>,
    /// The pinned fingerprints. If there are any, the certificate must match one of them.
    pub pins: Vec<Pin>,
    /// `false` accepts an expired certificate if it is pinned. In this case, only the server's own
    /// certificate is compared with the fingerprints, not the certificates of its issuers.
    pub checks_validity: bool,
    /// Whether the certificate must match the requested name.
    pub checks_name: bool,
    /// The signature algorithms.
    pub provider: Arc<CryptoProvider>,
}

/// The certificates that are trusted.
#[derive(Debug)]
pub struct Trusted {
    /// The authorities that may have signed a server's certificate.
    pub authorities: RootCertStore,
    /// Server certificates that are trusted directly: the certificates in `ca_file`, as with
    /// OpenSSL.
    pub servers: Vec<CertificateDer<'static>>,
}

/// The certificates that a server presents.
struct Presented<'c> {
    certificate: ParsedCertificate<'c>,
    end_entity: &'c CertificateDer<'c>,
    intermediates: &'c [CertificateDer<'c>],
    now: UnixTime,
}

/// The error if neither the server's certificate nor its issuer is trusted.
#[derive(Debug, thiserror::Error)]
#[error("it is not trusted")]
pub struct Untrusted {
    /// The fingerprint of the server's certificate.
    pub certificate: Pin,
    /// Whether the certificate is marked as an authority, as most self-signed certificates are.
    pub is_authority: bool,
}

/// Returns whether the error means that a server presents an authority's certificate as its own.
fn is_authority_as_server(error: &CertificateError) -> bool {
    // rustls does not export webpki's error type.
    matches!(error, CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity"))
}

impl Verifier {
    fn check_chain(
        &self,
        seen: &Presented<'_>,
        intermediates: &[CertificateDer<'_>],
        authorities: &RootCertStore,
    ) -> Result<(), Error> {
        verify_server_cert_signed_by_trust_anchor(
            &seen.certificate,
            authorities,
            intermediates,
            seen.now,
            self.provider.signature_verification_algorithms.all,
        )
    }

    /// Checks that the server's certificate is valid now. Does not check the signature.
    fn check_validity(&self, seen: &Presented<'_>) -> Result<(), Error> {
        // With no trusted authority, the check always fails because of the missing issuer, but only
        // after it has checked the validity period.
        match self.check_chain(seen, &[], &RootCertStore::empty()) {
            Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)) => Ok(()),
            Err(Error::InvalidCertificate(error)) if is_authority_as_server(&error) => Ok(()),
            result => result,
        }
    }

    fn check_trusted(&self, seen: &Presented<'_>, trusted: &Trusted) -> Result<(), Error> {
        if trusted.servers.iter().any(|server| server == seen.end_entity) {
            return self.check_validity(seen);
        }
        let checked = self.check_chain(seen, seen.intermediates, &trusted.authorities);
        checked.map_err(|error| name_untrusted(error, seen.end_entity))
    }

    /// Checks that one of these is pinned: the server's certificate, its key, or a presented
    /// authority that signed it.
    fn check_pins(&self, seen: &Presented<'_>) -> Result<(), Error> {
        let certificate = Pin::of_certificate(seen.end_entity);
        let key = Pin::of_key(&seen.certificate);
        if self.pins.contains(&certificate) || self.pins.contains(&key) {
            return if self.checks_validity { self.check_validity(seen) } else { Ok(()) };
        }
        let mut authorities = RootCertStore::empty();
        let is_pinned = |other: &&CertificateDer<'_>| {
            self.checks_validity && self.pins.contains(&Pin::of_certificate(other))
        };
        for authority in seen.intermediates.iter().filter(is_pinned) {
            authorities.add(authority.clone().into_owned())?;
        }
        if !authorities.is_empty() {
            return self.check_chain(seen, seen.intermediates, &authorities);
        }
        let mismatch = PinMismatch { certificate, key, expected: self.pins.clone() };
        Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into())
    }
}

/// Adds the certificate's fingerprint to the error if its issuer is not trusted.
fn name_untrusted(error: Error, end_entity: &CertificateDer<'_>) -> Error {
    use CertificateError::{BadSignature, UnknownIssuer};
    let is_authority = match &error {
        Error::InvalidCertificate(UnknownIssuer | BadSignature) => false,
        Error::InvalidCertificate(other) if is_authority_as_server(other) => true,
        _ => return error,
    };
    let untrusted = Untrusted { certificate: Pin::of_certificate(end_entity), is_authority };
    CertificateError::Other(OtherError(Arc::new(untrusted))).into()
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.trusted.is_none() && self.pins.is_empty() && !self.checks_name {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        let seen = Presented { certificate, end_entity, intermediates, now };
        if let Some(trusted) = &self.trusted {
            self.check_trusted(&seen, trusted)?;
        }
        if !self.pins.is_empty() {
            self.check_pins(&seen)?;
        }
        if self.checks_name {
            verify_server_name(&seen.certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    // Even if the endpoint's certificate is not checked, the endpoint must prove that it has the
    // key.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
