use super::*;
use millstream_testkit_servers::certificates::{Authority, Certificate, Validity};
use std::fs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOST: &str = "logs.example";

/// Sends one byte in each direction. On failure, returns the message that a user sees.
async fn talk(tls: &Tls, acceptor: TlsAcceptor) -> Result<(), String> {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = tokio::spawn(async move {
        let mut stream = acceptor.accept(far).await?;
        let byte = stream.read_u8().await?;
        stream.write_u8(byte).await?;
        stream.shutdown().await
    });
    let connector = TlsConnector::from(tls.config().map_err(|error| error.to_string())?);
    let talked = async {
        let mut stream = connector.connect(tls.server_name(HOST).unwrap(), near).await?;
        stream.write_u8(7).await?;
        stream.flush().await?;
        stream.read_u8().await
    };
    let result = talked
        .await
        .map_err(|error| tls.explain(&error, HOST, "remove `tls`").unwrap_or(error.to_string()));
    let _ = server.await;
    result.map(|byte| assert_eq!(byte, 7))
}

struct Fixture {
    dir: TempDir,
    authority: Authority,
}

fn fixture() -> Fixture {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    authority.write(dir.path(), "ca");
    Fixture { dir, authority }
}

impl Fixture {
    fn files(&self) -> TlsFiles {
        TlsFiles { ca_file: Some(self.dir.path().join("ca.crt")), ..TlsFiles::default() }
    }
}

#[tokio::test]
async fn rejected_certificates_are_explained() {
    let (fix, other) = (fixture(), Authority::new());
    let cases = [
        (fix.authority.issue(&[HOST], Validity::Expired), "of logs.example expired on 2020-02-01"),
        (fix.authority.issue(&[HOST], Validity::NotYet), "not valid before 2400-01-01"),
        (other.issue(&[HOST], Validity::Good), "is not signed by a CA in `ca_file` "),
        (
            fix.authority.issue(&["a.example", "10.0.0.1"], Validity::Good),
            "is valid only for other names: a.example, 10.0.0.1; use",
        ),
    ];
    for (certificate, says) in &cases {
        let text = talk(&Tls::new(fix.files()), certificate.acceptor(None)).await.unwrap_err();
        assert!(text.contains(says), "{text}");
        let lax = TlsFiles { verify: false, ..fix.files() };
        assert_eq!(talk(&Tls::new(lax), certificate.acceptor(None)).await, Ok(()), "{says}");
    }
    let good = fix.authority.issue(&[HOST], Validity::Good);
    assert_eq!(talk(&Tls::new(fix.files()), good.acceptor(None)).await, Ok(()));
}

/// Writes the certificate as `ca_file`, and returns options that refer to it.
fn trusting(dir: &TempDir, certificate: &Certificate) -> TlsFiles {
    let (path, _) = certificate.write(dir.path(), "server");
    TlsFiles { ca_file: Some(path), ..TlsFiles::default() }
}

#[tokio::test]
async fn a_server_whose_certificate_is_in_the_ca_file_is_trusted() {
    let (dir, authority) = (tempfile::tempdir().unwrap(), Authority::new());
    let own = |is_ca| Certificate::self_signed(&[HOST], Validity::Good, is_ca);
    for certificate in [own(true), own(false), authority.issue(&[HOST], Validity::Good)] {
        let tls = Tls::new(trusting(&dir, &certificate));
        assert_eq!(talk(&tls, certificate.acceptor(None)).await, Ok(()));
    }
}

#[tokio::test]
async fn a_listed_certificate_is_still_checked() {
    let dir = tempfile::tempdir().unwrap();
    for is_ca in [true, false] {
        let own = |name, validity| Certificate::self_signed(&[name], validity, is_ca);
        let expired = own(HOST, Validity::Expired);
        let text = talk(&Tls::new(trusting(&dir, &expired)), expired.acceptor(None)).await;
        assert!(text.unwrap_err().contains("expired on 2020-02-01"));
        let early = own(HOST, Validity::NotYet);
        let text = talk(&Tls::new(trusting(&dir, &early)), early.acceptor(None)).await;
        assert!(text.unwrap_err().contains("not valid before 2400-01-01"));
        let renamed = own("a.example", Validity::Good);
        let files = trusting(&dir, &renamed);
        let text = talk(&Tls::new(files.clone()), renamed.acceptor(None)).await;
        assert!(text.unwrap_err().contains("is valid only for other names: a.example"));
        let any_name = TlsFiles { verify_hostname: false, ..files };
        assert_eq!(talk(&Tls::new(any_name.clone()), renamed.acceptor(None)).await, Ok(()));
        let other = own("a.example", Validity::Good);
        let text = talk(&Tls::new(any_name), other.acceptor(None)).await.unwrap_err();
        let seen = pins(&other)[0].to_string();
        assert!(text.contains(&seen) && text.contains("in `ca_file` "), "{text}");
    }
}

/// Returns the fingerprints of a certificate and the certificate's key.
fn pins(certificate: &Certificate) -> [Pin; 2] {
    let der = CertificateDer::from_pem_slice(certificate.cert.as_bytes()).unwrap();
    let key = Pin::of_key(&rustls::server::ParsedCertificate::try_from(&der).unwrap());
    [Pin::of_certificate(&der), key]
}

fn pinned(pins: &[&Pin]) -> TlsFiles {
    let texts = pins.iter().map(|pin| pin.to_string()).collect();
    TlsFiles { pin: Some(PinOption::Many(texts)), ..TlsFiles::default() }
}

#[tokio::test]
async fn a_pinned_server_needs_no_authority() {
    let own = |is_ca| Certificate::self_signed(&[HOST], Validity::Good, is_ca);
    let issued = Authority::new().issue(&[HOST], Validity::Good);
    let next = own(true);
    let [next_pin, _] = pins(&next);
    for certificate in [own(true), own(false), issued] {
        for pin in pins(&certificate) {
            // Both certificates are accepted while one replaces the other.
            let tls = Tls::new(pinned(&[&pin, &next_pin]));
            assert_eq!(talk(&tls, certificate.acceptor(None)).await, Ok(()));
            assert_eq!(talk(&tls, next.acceptor(None)).await, Ok(()));
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_pinned_is_refused_with_both_fingerprints() {
    let own = || Certificate::self_signed(&[HOST], Validity::Good, true);
    let (expected, seen) = (own(), own());
    let ([first, second], [certificate, key]) = (pins(&expected), pins(&seen));
    let tls = Tls::new(pinned(&[&first, &second]));
    let text = talk(&tls, seen.acceptor(None)).await.unwrap_err();
    for part in [&first, &second, &certificate, &key] {
        assert!(text.contains(&part.to_string()), "{text}");
    }
    let dir = tempfile::tempdir().unwrap();
    let both = TlsFiles { ca_file: trusting(&dir, &seen).ca_file, ..pinned(&[&first]) };
    let text = talk(&Tls::new(both), seen.acceptor(None)).await.unwrap_err();
    assert!(text.contains("does not match `pin`"), "`ca_file` does not replace the pin: {text}");
    let both = TlsFiles { ca_file: trusting(&dir, &expected).ca_file, ..pinned(&[&key]) };
    let text = talk(&Tls::new(both), seen.acceptor(None)).await.unwrap_err();
    assert!(text.contains("`ca_file`"), "the pin does not replace `ca_file`: {text}");
}

#[tokio::test]
async fn a_pinned_certificate_is_checked_for_its_name_and_its_end() {
    for (name, validity, says) in [
        (HOST, Validity::Expired, "expired on 2020-02-01"),
        ("a.example", Validity::Good, "is valid only for other names: a.example"),
    ] {
        let certificate = Certificate::self_signed(&[name], validity, false);
        for pin in pins(&certificate) {
            let text = talk(&Tls::new(pinned(&[&pin])), certificate.acceptor(None)).await;
            assert!(text.unwrap_err().contains(says), "{says}");
            let lax = TlsFiles { verify: false, ..pinned(&[&pin]) };
            assert_eq!(talk(&Tls::new(lax), certificate.acceptor(None)).await, Ok(()));
        }
    }
    let other = Certificate::self_signed(&[HOST], Validity::Good, false);
    let [wrong, _] = pins(&Certificate::self_signed(&[HOST], Validity::Good, false));
    let lax = TlsFiles { verify: false, ..pinned(&[&wrong]) };
    let text = talk(&Tls::new(lax), other.acceptor(None)).await.unwrap_err();
    assert!(text.contains("does not match `pin`"), "{text}");
}

#[tokio::test]
async fn a_pinned_authority_counts_only_for_what_it_signed() {
    let (authority, other) = (Authority::new(), Authority::new());
    let presenting = |certificate: Certificate| Certificate {
        cert: certificate.cert + &authority.cert,
        key: certificate.key,
    };
    let of_authority = Certificate { cert: authority.cert.clone(), key: String::new() };
    let [pin, _] = pins(&of_authority);
    let good = presenting(authority.issue(&[HOST], Validity::Good));
    let tls = Tls::new(pinned(&[&pin]));
    assert_eq!(talk(&tls, good.acceptor(None)).await, Ok(()));
    let foreign = presenting(other.issue(&[HOST], Validity::Good));
    let text = talk(&tls, foreign.acceptor(None)).await.unwrap_err();
    assert!(text.contains("is not signed by the CA that it presents"), "{text}");
    let lax = TlsFiles { verify: false, ..pinned(&[&pin]) };
    let text = talk(&Tls::new(lax), foreign.acceptor(None)).await.unwrap_err();
    assert!(text.contains("does not match `pin`"), "{text}");
    let expired = presenting(authority.issue(&[HOST], Validity::Expired));
    let text = talk(&tls, expired.acceptor(None)).await.unwrap_err();
    assert!(text.contains("expired on"), "{text}");
}

#[test]
fn fingerprints_are_those_of_openssl() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::self_signed(&[HOST], Validity::Good, true);
    let (path, _) = certificate.write(dir.path(), "server");
    let run = |script: &str| {
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", script]).env("CERT", &path).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let hash = run("openssl x509 -in $CERT -noout -fingerprint -sha256 | cut -d= -f2");
    let key = run("openssl x509 -in $CERT -noout -pubkey | openssl pkey -pubin -outform der | \
         openssl dgst -sha256 -binary | openssl base64");
    let expected = [Pin::parse(&hash).unwrap(), Pin::parse(&format!("sha256//{key}")).unwrap()];
    assert_eq!(pins(&certificate), expected);
}

#[tokio::test]
async fn hostname_verification_can_be_disabled() {
    let (fix, other) = (fixture(), Authority::new());
    let lax = || Tls::new(TlsFiles { verify_hostname: false, ..fix.files() });
    let renamed = fix.authority.issue(&["a.example"], Validity::Good);
    assert_eq!(talk(&lax(), renamed.acceptor(None)).await, Ok(()));
    let named = TlsFiles { server_name: Some("a.example".into()), ..fix.files() };
    assert_eq!(talk(&Tls::new(named), renamed.acceptor(None)).await, Ok(()));
    let strange = other.issue(&[HOST], Validity::Good);
    assert!(talk(&lax(), strange.acceptor(None)).await.unwrap_err().contains("not signed by"));
}

#[tokio::test]
async fn a_requested_client_certificate_is_sent() {
    let (fix, other) = (fixture(), Authority::new());
    let server = fix.authority.issue(&[HOST], Validity::Good).acceptor(Some(&fix.authority));
    let text = talk(&Tls::new(fix.files()), server.clone()).await.unwrap_err();
    assert!(text.contains("rejects a connection without a client certificate"), "{text}");
    for (authority, fits) in [(&fix.authority, true), (&other, false)] {
        let (cert, key) =
            authority.issue(&["agent"], Validity::Good).write(fix.dir.path(), "agent");
        let files = TlsFiles { cert_file: Some(cert), key_file: Some(key), ..fix.files() };
        let result = talk(&Tls::new(files), server.clone()).await;
        assert_eq!(result.is_ok(), fits, "{result:?}");
        assert!(
            fits || result.unwrap_err().contains("rejects the agent's certificate `cert_file`")
        );
    }
}

#[tokio::test]
async fn renewed_certificates_take_effect_on_the_next_connection() {
    let (fix, next) = (fixture(), Authority::new());
    let tls = Tls::new(fix.files());
    let servers = [&fix.authority, &next]
        .map(|authority| authority.issue(&[HOST], Validity::Good).acceptor(None));
    assert_eq!(talk(&tls, servers[0].clone()).await, Ok(()));
    assert!(talk(&tls, servers[1].clone()).await.is_err());
    fs::write(fix.dir.path().join("ca.crt"), "half a fi").unwrap();
    assert_eq!(talk(&tls, servers[0].clone()).await, Ok(()), "the old one stays in use");
    next.write(fix.dir.path(), "ca");
    assert_eq!(talk(&tls, servers[1].clone()).await, Ok(()));
}

#[test]
fn unusable_files_are_named_with_advice() {
    let fix = fixture();
    let at = |name: &str| Some(fix.dir.path().join(name));
    fix.authority.issue(&["one"], Validity::Good).write(fix.dir.path(), "one");
    fix.authority.issue(&["two"], Validity::Good).write(fix.dir.path(), "two");
    fs::write(
        at("encrypted.key").unwrap(),
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n",
    )
    .unwrap();
    let own = |cert, key| TlsFiles { cert_file: at(cert), key_file: at(key), ..fix.files() };
    let cases = [
        (TlsFiles { ca_file: at("none"), ..fix.files() }, "`ca_file` ", "none: No such file"),
        (
            TlsFiles { ca_file: at("one.key"), ..fix.files() },
            "`ca_file` ",
            "contains no certificate",
        ),
        (own("one.key", "one.key"), "`cert_file` ", "contains no certificate"),
        (own("one.crt", "one.crt"), "`key_file` ", "contains no key"),
        (own("one.crt", "two.key"), "`key_file` ", "does not match the certificate in "),
        (own("one.crt", "encrypted.key"), "`key_file` ", "is encrypted"),
    ];
    for (files, begins, says) in cases {
        let text = client_config(&files).unwrap_err().to_string();
        assert!(text.starts_with(begins) && text.contains(says), "{text}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_recognized() {
    let (near, mut far) = tokio::io::duplex(1024);
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let tls = Tls::new(fixture().files());
    let lax = Tls::new(TlsFiles { verify: false, ..TlsFiles::default() });
    let connector = TlsConnector::from(lax.config().unwrap());
    let error = connector.connect(tls.server_name(HOST).unwrap(), near).await.unwrap_err();
    let text = tls.explain(&error, HOST, "remove `tls`").unwrap();
    assert!(text.ends_with("does not speak TLS; check the port, or remove `tls`"), "{text}");
}

#[test]
fn invalid_options_are_reported_with_a_pointer() {
    let files = |value| serde_json::from_value::<TlsFiles>(value).unwrap();
    assert_eq!(files(serde_json::json!({})).check(), []);
    let faults = files(serde_json::json!({"cert_file": "a", "server_name": "a b"})).check();
    assert_eq!(
        faults.iter().map(|error| error.pointer.as_str()).collect::<Vec<_>>(),
        ["", "/server_name"]
    );
    for pin in [serde_json::json!("sha256:12"), serde_json::json!([])] {
        let faults = files(serde_json::json!({ "pin": pin })).check();
        assert_eq!(faults[0].pointer, "/pin");
    }
    assert!(serde_json::from_value::<TlsFiles>(serde_json::json!({"ca": "b"})).is_err());
}
