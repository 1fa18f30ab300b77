use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const LONG: Duration = Duration::from_secs(10);

async fn listen() -> (TcpListener, Address) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, Address { host: "127.0.0.1".into(), port })
}

#[test]
fn displayed_addresses_parse_back() {
    for text in ["a.example:1", "10.0.0.1:65535", "[::1]:443"] {
        assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
    }
    for text in
        ["", "a", "a:", ":1", "a:0", "a:65536", "::1:443", "[a]:1", "u@h:1", "tcp://a:1", "a b:1"]
    {
        assert!(text.parse::<Address>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn the_meter_counts_acknowledged_bytes() {
    let (listener, address) = listen().await;
    let mut near = connect(&address, None, LONG, LONG).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    near.stream.write_all(b"0123456789").await.unwrap();
    assert_eq!(near.meter.written(), 10);
    far.read_exact(&mut [0; 10]).await.unwrap();
    while near.meter.acknowledged().unwrap() < 10 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Otherwise, bytes that a reset has lost would count as acknowledged.
#[tokio::test]
async fn unacknowledged_bytes_stay_so_after_a_reset() {
    let (listener, address) = listen().await;
    let mut near = connect(&address, None, LONG, LONG).await.unwrap();
    let (far, _) = listener.accept().await.unwrap();
    let chunk = vec![7; 64 * 1024];
    while timeout(Duration::from_millis(200), near.stream.write_all(&chunk)).await.is_ok() {}
    let (written, before) = (near.meter.written(), near.meter.acknowledged().unwrap());
    assert!(before < written, "{before} of {written}");
    drop(far);
    let error = timeout(LONG, near.stream.read(&mut [0; 1])).await.unwrap();
    assert!(error.is_err(), "a peer that closes with unread data resets");
    assert_eq!(near.meter.acknowledged().unwrap(), before);
}

/// The kernel takes the timeout as a signed 32-bit integer of milliseconds and rejects negative
/// values.
#[tokio::test]
async fn the_user_timeout_is_capped() {
    let (_listener, address) = listen().await;
    for days in [13, 26, 50, 36_500] {
        let silence = Duration::from_secs(days * 24 * 3600);
        let near = connect(&address, None, LONG, silence).await.unwrap();
        let expected = silence.as_millis().min(i32::MAX as u128);
        assert_eq!(
            u128::from(sockopt::tcp_user_timeout(&near.meter.socket).unwrap()),
            expected,
            "{days}"
        );
    }
}

#[tokio::test]
async fn failed_connects_report_the_reason() {
    let (listener, address) = listen().await;
    drop(listener);
    let refused = connect(&address, None, LONG, LONG).await.err().unwrap();
    assert!(
        refused.to_string().contains("refused") && refused.kind() == "unreachable",
        "{refused}"
    );
    let nowhere = Address { host: "no-such-host.invalid".into(), port: 1 };
    let unknown = connect(&nowhere, None, LONG, LONG).await.err().unwrap();
    assert_eq!(unknown.kind(), "resolve", "{unknown}");
}
