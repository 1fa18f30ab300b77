//! Certificates for a broker, generated on each run so that they never expire.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// PEM files with unencrypted keys.
pub struct Certificates {
    /// The CA of the broker's and the client's certificates.
    pub ca: PathBuf,
    /// Another CA with the same name. A client that trusts only this CA must reject the broker.
    pub other_ca: PathBuf,
    /// A client certificate.
    pub client_cert: PathBuf,
    /// Key of the client certificate.
    pub client_key: PathBuf,
    /// A client certificate of the other CA, which a broker that requires client certificates must
    /// reject.
    pub other_client_cert: PathBuf,
    /// Key of the client certificate that the other CA signed.
    pub other_client_key: PathBuf,
    /// Key and certificate of the broker in one file, as Kafka requires.
    pub(super) server: PathBuf,
}

impl Certificates {
    /// Generates all files in `folder`.
    pub(super) fn make(folder: &Path) -> Certificates {
        let ca = authority(folder, "ca");
        let other_ca = authority(folder, "other-ca");
        let names = "subjectAltName=IP:127.0.0.1,DNS:localhost";
        let (cert, key) = signed(folder, "server", "/CN=localhost", "ca", names);
        let usage = "extendedKeyUsage=clientAuth";
        let (client_cert, client_key) = signed(folder, "client", "/CN=client", "ca", usage);
        let (other_client_cert, other_client_key) =
            signed(folder, "other-client", "/CN=client", "other-ca", usage);
        let server = folder.join("server.pem");
        let both = [key, cert].map(|path| fs::read_to_string(path).expect("a PEM file"));
        fs::write(&server, both.concat()).expect("the broker's PEM file");
        Certificates {
            ca,
            other_ca,
            client_cert,
            client_key,
            other_client_cert,
            other_client_key,
            server,
        }
    }
}

fn authority(folder: &Path, name: &str) -> PathBuf {
    let usage = ["-addext", "keyUsage=keyCertSign,cRLSign"];
    certificate(folder, name, "/CN=Millstream test authority", &usage);
    folder.join(format!("{name}.crt"))
}

/// Generates a certificate and its key, signed by the CA `by`.
fn signed(
    folder: &Path,
    name: &str,
    subject: &str,
    by: &str,
    extension: &str,
) -> (PathBuf, PathBuf) {
    let [ca, ca_key] = [format!("{by}.crt"), format!("{by}.key")];
    let usage = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", extension];
    certificate(folder, name, subject, &[["-CA", &ca, "-CAkey", &ca_key], usage].concat());
    (folder.join(format!("{name}.crt")), folder.join(format!("{name}.key")))
}

fn certificate(folder: &Path, name: &str, subject: &str, args: &[&str]) {
    let [cert, key] = [format!("{name}.crt"), format!("{name}.key")];
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder).args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]);
    openssl
        .args(["-noenc", "-days", "2", "-subj", subject, "-keyout", &key, "-out", &cert])
        .args(args);
    let output = openssl.output().expect("openssl runs; scripts/servers installs it");
    assert!(output.status.success(), "{openssl:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}
