use super::*;
use millstream_testkit_servers::certificates::{Authority, Validity};
use std::fs;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOST: &str = "logs.example";

/// Sends one byte each way. Returns the user-facing message on failure.
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
    let result =
        talked.await.map_err(|error| tls.explain(&error, HOST).unwrap_or(error.to_string()));
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
        (
            fix.authority.issue(&[HOST], Validity::Expired),
            "of logs.example has expired on 2020-02-01",
        ),
        (fix.authority.issue(&[HOST], Validity::NotYet), "valid only from 2400-01-01"),
        (other.issue(&[HOST], Validity::Good), "is not signed by a CA in `ca_file` "),
        (
            fix.authority.issue(&["a.example", "10.0.0.1"], Validity::Good),
            "is for other names: a.example, 10.0.0.1; write",
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
    let servers =
        [&fix.authority, &next].map(|of| of.issue(&[HOST], Validity::Good).acceptor(None));
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
    let text = tls.explain(&error, HOST).unwrap();
    assert!(text.contains("does not speak TLS"), "{text}");
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
    assert!(serde_json::from_value::<TlsFiles>(serde_json::json!({"ca": "b"})).is_err());
}
