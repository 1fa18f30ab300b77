//! The text of a scrape, rendered in chunks on the blocking pool while the scraper reads.

use super::Series;
use crate::sinks::prometheus::now_ms;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::{Body, Frame};
use millstream_encodings::prometheus::{TextFormat, WritePosition};
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

/// Number of series per chunk. The lane waits for a chunk, which takes a fraction of a millisecond.
const PIECE_SERIES: usize = 2048;
/// Maximum number of chunks that are rendered ahead of the scraper.
const PIECES_AHEAD: usize = 2;

/// A response body that is being rendered.
pub struct Text {
    series: Arc<Series>,
    format: TextFormat,
    encoder: Option<GzEncoder<Vec<u8>>>,
    place: Option<WritePosition>,
    now_ms: i64,
}

impl Text {
    /// Starts to render all series as text.
    pub fn new(series: Arc<Series>, format: TextFormat, gzip: bool) -> Text {
        series.scrapes.fetch_add(1, Ordering::SeqCst);
        let encoder = gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
        Text { series, format, encoder, place: Some(WritePosition::default()), now_ms: now_ms() }
    }

    /// Renders the next chunk, which may be empty; returns `None` after the last one.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(place) = self.place.take() else {
            return self.encoder.take().map(GzEncoder::finish).transpose();
        };
        let mut text = Vec::new();
        let series = self.series.exposition.lock();
        self.place = series.write(place, PIECE_SERIES, self.format, self.now_ms, &mut text);
        drop(series);
        let Some(encoder) = &mut self.encoder else { return Ok(Some(text)) };
        encoder.write_all(&text)?;
        Ok(Some(std::mem::take(encoder.get_mut())))
    }

    /// Renders all chunks into a channel, as fast as they are read.
    async fn run(mut self, to: mpsc::Sender<Piece>) {
        loop {
            let Ok((text, piece)) = spawn_blocking(move || {
                let piece = self.piece();
                (self, piece)
            })
            .await
            else {
                return;
            };
            self = text;
            let (piece, is_last) = match piece {
                Ok(Some(piece)) => (Piece::Text(piece.into()), false),
                Ok(None) => (Piece::End, true),
                Err(_) => return,
            };
            if to.send(piece).await.is_err() || is_last {
                return;
            }
        }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.series.scrapes.fetch_sub(1, Ordering::SeqCst);
    }
}

enum Piece {
    Text(Bytes),
    End,
}

/// The body of a response.
pub struct TextBody {
    pieces: mpsc::Receiver<Piece>,
    done: bool,
}

impl TextBody {
    /// Starts to render a response body. Dropping the body together with its connection stops the
    /// rendering.
    pub fn new(text: Text) -> TextBody {
        let (to, pieces) = mpsc::channel(PIECES_AHEAD);
        tokio::spawn(text.run(to));
        TextBody { pieces, done: false }
    }
}

impl Body for TextBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        loop {
            if self.done {
                return Poll::Ready(None);
            }
            match ready!(self.pieces.poll_recv(cx)) {
                Some(Piece::Text(text)) if text.is_empty() => {}
                Some(Piece::Text(text)) => return Poll::Ready(Some(Ok(Frame::data(text)))),
                Some(Piece::End) => self.done = true,
                // A truncated text must not pass for a complete one.
                None => {
                    self.done = true;
                    return Poll::Ready(Some(Err(io::ErrorKind::UnexpectedEof.into())));
                }
            }
        }
    }
}
