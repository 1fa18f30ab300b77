//! A connection driven by a task: writes frames, reads responses, and tracks delivered bytes.

mod state;

use super::frame::{Frame, FrameEncoder};
use super::protocol::{Hello, ResponseParser};
use bytes::Bytes;
use millstream_transport::tcp::{self, Address, Meter, Stream};
use millstream_transport::tls::Tls;
use state::Shared;
pub use state::Status;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Buffer size for reading responses.
const READ_BYTES: usize = 4096;

/// Shortest and longest interval between polls for delivered bytes after a write. The interval
/// doubles each time. A kernel acknowledges within 40 ms, usually immediately.
const POLL_MIN: Duration = Duration::from_millis(1);
const POLL_MAX: Duration = Duration::from_millis(50);

/// Minimum age of a connection before delivered bytes are treated as settled without
/// acknowledgements. A proxy whose backend is down, and a TLS 1.3 server that rejects the agent's
/// certificate, accept bytes and then close the connection in an orderly way. These bytes are lost,
/// however often this repeats.
const PROBATION: Duration = Duration::from_millis(500);

/// How long to keep reading responses after a write error.
const READ_GRACE: Duration = Duration::from_millis(100);

/// Timeout for an orderly shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Options for a connection.
pub struct ConnectionOptions {
    /// The endpoint.
    pub address: Address,
    /// Earliest time to connect.
    pub when: Instant,
    /// TLS settings.
    pub tls: Option<Arc<Tls>>,
    /// Timeout for the whole connection setup.
    pub connect_timeout: Duration,
    /// Maximum time without progress.
    pub timeout: Duration,
    /// The handshake of a connection with acknowledgements.
    pub hello: Option<Hello>,
    /// Number of the last frame that any connection in the session may have sent.
    pub last: u64,
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// Value of the `error_type` label.
    pub kind: &'static str,
    /// Error message.
    pub text: String,
}

/// A connection and its task, which is aborted on drop.
pub struct Connection {
    shared: Arc<Shared>,
    /// `None` after the task was left to shut down on its own.
    task: Option<AbortHandle>,
}

impl Connection {
    /// Connects, then sends `frames` in order.
    pub fn open(
        plan: ConnectionOptions,
        encoder: Arc<FrameEncoder>,
        frames: Vec<Arc<Frame>>,
    ) -> Connection {
        let shared = Arc::new(Shared::new(frames, plan.last));
        let driver = Driver { plan, encoder, shared: shared.clone() };
        let task = tokio::spawn(driver.run()).abort_handle();
        Connection { shared, task: Some(task) }
    }

    /// Queues another frame.
    pub fn send(&self, frame: Arc<Frame>) {
        self.shared.send(frame);
    }

    /// Returns the status, with the frames that were rejected since the last call. Never waits.
    pub fn take_status(&self) -> Status {
        self.shared.take_status()
    }

    /// Marks all frames up to this number as settled, including rejected frames.
    pub fn settle(&self, number: u64) {
        self.shared.settle(number);
    }

    /// Waits until the status may have changed.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Shuts the connection down in an orderly way, in the background.
    pub fn finish(mut self) {
        self.task = None;
        self.shared.finish();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// The state of the connection's task.
struct Driver {
    plan: ConnectionOptions,
    encoder: Arc<FrameEncoder>,
    shared: Arc<Shared>,
}

impl Driver {
    async fn run(self) {
        let error = match self.begin().await {
            Ok((stream, meter, responses)) => self.drive(stream, &meter, responses).await,
            Err(error) => error,
        };
        self.shared.fail(error);
    }

    /// Connects, and performs the handshake.
    async fn begin(&self) -> Result<(Box<dyn Stream>, Meter, ResponseParser), ConnectionError> {
        let plan = &self.plan;
        sleep_until(plan.when).await;
        let connected =
            tcp::connect(&plan.address, plan.tls.as_ref(), plan.connect_timeout, plan.timeout);
        let connected =
            connected.await.map_err(|error| self.error(error.kind(), &error.to_string()));
        let tcp::Connection { mut stream, meter } = connected?;
        let mut responses = ResponseParser::default();
        if let Some(hello) = &plan.hello {
            let handshake =
                timeout(plan.connect_timeout, self.handshake(&mut stream, hello, &mut responses))
                    .await;
            handshake.unwrap_or_else(|_| {
                Err(self.error(
                    "timeout",
                    "no response to the handshake; check that the server supports acknowledgements",
                ))
            })?;
        }
        self.shared.connect();
        Ok((stream, meter, responses))
    }

    /// Sends the handshake, and waits for the endpoint's response, which acknowledges the frames
    /// that the endpoint already has.
    async fn handshake(
        &self,
        stream: &mut Box<dyn Stream>,
        hello: &Hello,
        responses: &mut ResponseParser,
    ) -> Result<(), ConnectionError> {
        let sent = async {
            stream.write_all(&hello.bytes()).await?;
            stream.flush().await
        };
        sent.await.map_err(|error| self.io_error(&error))?;
        let mut bytes = [0; READ_BYTES];
        while !self.take(responses)? {
            match stream.read(&mut bytes).await {
                Ok(0) => return Err(self.closed()),
                Ok(count) => responses.put(&bytes[..count]),
                Err(error) => return Err(self.io_error(&error)),
            }
        }
        Ok(())
    }

    /// Processes all complete responses. Returns whether there were any.
    fn take(&self, responses: &mut ResponseParser) -> Result<bool, ConnectionError> {
        let mut any = false;
        let wrong = |what: String| {
            self.error("protocol", &format!("the endpoint violates the protocol: {what}"))
        };
        while let Some(response) = responses.next().map_err(wrong)? {
            self.shared.response(response).map_err(wrong)?;
            any = true;
        }
        Ok(any)
    }

    /// Writes frames, reads responses, and tracks delivered bytes, until the connection ends.
    /// Returns the error that ended it.
    async fn drive(
        &self,
        stream: Box<dyn Stream>,
        meter: &Meter,
        responses: ResponseParser,
    ) -> ConnectionError {
        let begun = Instant::now();
        let (reader, writer) = tokio::io::split(stream);
        let mut read = pin!(self.read(reader, responses));
        let (mut error, is_read) = tokio::select! {
            error = &mut read => (error, true),
            error = self.write(writer, meter) => (error, false),
            error = self.watch(meter, begun) => (error, false),
        };
        if !is_read && let Ok(last) = timeout(READ_GRACE, read).await {
            // The reader's error is more specific, and its last responses may settle frames.
            error = last;
        }
        if let Ok(arrived) = meter.acknowledged() {
            self.record_delivered(arrived, begun);
        }
        if error.kind == "closed" && meter.written() > 0 && self.is_on_probation(begun) {
            error.text += &format!(
                " within {PROBATION:?} of connecting, so the data sent over it is not treated as \
                 delivered"
            );
        }
        error
    }

    async fn write(
        &self,
        mut writer: WriteHalf<Box<dyn Stream>>,
        meter: &Meter,
    ) -> ConnectionError {
        while let Some(frame) = self.shared.next().await {
            let sent = async {
                let wire = self.encoder.wire(&frame).await?;
                self.shared.write_started(frame.number);
                write_all(&mut writer, &wire).await
            };
            if let Err(error) = sent.await {
                return self.io_error(&error);
            }
            self.shared.write_finished(frame.number, meter.written());
        }
        let _ = timeout(SHUTDOWN_TIMEOUT, writer.shutdown()).await;
        self.closed()
    }

    async fn read(
        &self,
        mut reader: ReadHalf<Box<dyn Stream>>,
        mut responses: ResponseParser,
    ) -> ConnectionError {
        let mut bytes = [0; READ_BYTES];
        loop {
            match reader.read(&mut bytes).await {
                Ok(0) => return self.closed(),
                // Without acknowledgements, discard whatever the server sends.
                Ok(_) if self.plan.hello.is_none() => {}
                Ok(count) => {
                    responses.put(&bytes[..count]);
                    if let Err(error) = self.take(&mut responses) {
                        return error;
                    }
                }
                Err(error) => return self.io_error(&error),
            }
        }
    }

    /// Tracks delivered bytes. Returns an error if there is no progress.
    async fn watch(&self, meter: &Meter, begun: Instant) -> ConnectionError {
        let (mut pause, mut moved, mut seen) = (POLL_MIN, Instant::now(), (0, 0));
        loop {
            if !self.shared.is_busy() {
                self.shared.work_to_watch.notified().await;
                (pause, moved) = (POLL_MIN, Instant::now());
                continue;
            }
            let arrived = match meter.acknowledged() {
                Ok(arrived) => arrived,
                Err(error) => return self.io_error(&error),
            };
            self.record_delivered(arrived, begun);
            let now = (arrived, self.shared.responses());
            // An endpoint that received everything and sends no responses is not stalled.
            let is_caught_up = self.plan.hello.is_none() && arrived == meter.written();
            if now != seen {
                (pause, seen, moved) = (POLL_MIN, now, Instant::now());
            } else if is_caught_up {
                moved = Instant::now();
            } else if moved.elapsed() >= self.plan.timeout {
                return self.stalled();
            }
            let woken = timeout(pause, self.shared.work_to_watch.notified()).await.is_ok();
            pause = if woken { POLL_MIN } else { (pause * 2).min(POLL_MAX) };
        }
    }

    /// Without acknowledgements, settles the frames whose bytes the endpoint's kernel has
    /// acknowledged, unless the connection is on probation.
    fn record_delivered(&self, arrived: u64, begun: Instant) {
        if self.plan.hello.is_none() && !self.is_on_probation(begun) {
            self.shared.delivered(arrived);
        }
    }

    /// Returns whether accepted data may still be lost, which is the case while a connection
    /// without acknowledgements is new.
    fn is_on_probation(&self, begun: Instant) -> bool {
        self.plan.hello.is_none() && begun.elapsed() < PROBATION
    }

    fn error(&self, kind: &'static str, what: &str) -> ConnectionError {
        ConnectionError { kind, text: format!("{}: {what}", self.plan.address) }
    }

    fn closed(&self) -> ConnectionError {
        self.error("closed", "the endpoint closed the connection")
    }

    fn stalled(&self) -> ConnectionError {
        let what =
            if self.plan.hello.is_some() { "acknowledged nothing" } else { "accepted no data" };
        self.error("timeout", &format!("the endpoint {what} for {:?}", self.plan.timeout))
    }

    fn io_error(&self, error: &io::Error) -> ConnectionError {
        let host = &self.plan.address.host;
        let explain = |tls: &Arc<Tls>| tls.explain(error, host, tcp::WITHOUT_TLS);
        match self.plan.tls.as_ref().and_then(explain) {
            Some(text) => self.error("tls", &text),
            None => self.error("closed", &format!("the connection failed: {error}")),
        }
    }
}

/// Writes all parts, without joining them.
async fn write_all(writer: &mut WriteHalf<Box<dyn Stream>>, parts: &[Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = &mut slices[..];
    while !left.is_empty() {
        match writer.write_vectored(left).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => IoSlice::advance_slices(&mut left, count),
        }
    }
    writer.flush().await
}
