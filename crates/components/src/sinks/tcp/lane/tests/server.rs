//! A test endpoint that reads frames and responds to them.

use millstream_transport::tcp::Stream;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A server whose connections the test accepts.
pub struct TestServer {
    listener: TcpListener,
    /// Address on which the server listens.
    pub address: String,
}

impl TestServer {
    pub async fn start() -> TestServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        TestServer { listener, address }
    }

    pub async fn accept(&self) -> Peer {
        Peer(Box::new(self.listener.accept().await.unwrap().0))
    }

    /// Accepts a connection with TLS. Fails if the TLS handshake fails.
    pub async fn encrypted(&self, acceptor: TlsAcceptor) -> io::Result<Peer> {
        let (stream, _) = self.listener.accept().await?;
        Ok(Peer(Box::new(acceptor.accept(stream).await?)))
    }

    /// Accepts a connection, reads the handshake, and acknowledges the frames up to `has`.
    pub async fn accept_frames(&self, has: u64) -> Frames {
        let mut frames = Frames { peer: self.accept().await, session: [0; 16], gzip: false };
        let hello = frames.frame().await.expect("a handshake");
        assert_eq!((hello.len(), &hello[..2]), (28, &b"H\x01"[..]));
        frames.session.copy_from_slice(&hello[4..20]);
        frames.gzip = hello[2] == 1;
        frames.acknowledge(has).await;
        frames
    }
}

/// A connection.
pub struct Peer(Box<dyn Stream>);

impl Peer {
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = self.0.write_all(bytes).await;
    }

    /// Reads exactly `count` bytes.
    pub async fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).await.unwrap();
        bytes
    }

    /// Reads to the end of the stream.
    pub async fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.read_to_end(&mut bytes).await.unwrap();
        bytes
    }

    pub async fn lines(&mut self) -> Vec<String> {
        let text = String::from_utf8(self.rest().await).unwrap();
        assert!(text.is_empty() || text.ends_with('\n'), "whole lines");
        text.lines().map(str::to_owned).collect()
    }

    /// Reads lines up to and including `last`.
    pub async fn lines_up_to(&mut self, last: String) -> Vec<String> {
        let (mut text, mut bytes) = (Vec::new(), vec![0; 64 * 1024]);
        let end = format!("{last}\n").into_bytes();
        loop {
            let count = self.0.read(&mut bytes).await.unwrap();
            assert!(count > 0, "the connection ended before the line {last:?}");
            // The line may be split between two reads.
            let from = text.len().saturating_sub(end.len());
            text.extend_from_slice(&bytes[..count]);
            if text[from..].windows(end.len()).any(|found| found == end) {
                break;
            }
        }
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }
}

/// A connection with acknowledgements.
pub struct Frames {
    peer: Peer,
    /// Session id from the handshake.
    pub session: [u8; 16],
    gzip: bool,
}

impl Frames {
    /// Reads the next frame, without its length.
    async fn frame(&mut self) -> Option<Vec<u8>> {
        let length = self.peer.0.read_u32().await.ok()?;
        let mut frame = vec![0; length as usize];
        self.peer.0.read_exact(&mut frame).await.ok()?;
        Some(frame)
    }

    /// Reads the number and text of the next data frame; `None` at the end of the connection.
    pub async fn next(&mut self) -> Option<(u64, String)> {
        let frame = self.frame().await?;
        assert_eq!(frame[0], b'D');
        let number = u64::from_be_bytes(frame[1..9].try_into().unwrap());
        let events = u32::from_be_bytes(frame[9..13].try_into().unwrap());
        let text = match self.gzip {
            true => std::io::read_to_string(flate2::read::GzDecoder::new(&frame[13..])).unwrap(),
            false => String::from_utf8(frame[13..].to_vec()).unwrap(),
        };
        assert_eq!(text.lines().count(), events as usize);
        Some((number, text))
    }

    pub async fn acknowledge(&mut self, number: u64) {
        self.peer.write(&[&[0, 0, 0, 9, b'A'][..], &number.to_be_bytes()].concat()).await;
    }

    pub async fn refuse(&mut self, number: u64, reason: &str) {
        let length = (9 + reason.len()) as u32;
        let head = [&length.to_be_bytes()[..], b"R", &number.to_be_bytes()].concat();
        self.peer.write(&[&head, reason.as_bytes()].concat()).await;
    }
}
