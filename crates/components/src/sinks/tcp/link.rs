//! One connection, driven by a task: it writes units, takes answers, and follows what has arrived.

mod state;

use super::frames::{Answers, Hello};
use super::unit::{Packer, Unit};
use bytes::Bytes;
use millstream_transport::tcp::{self, Address, Connection, Meter, Stream};
use millstream_transport::tls::Tls;
use state::Shared;
pub use state::Told;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until, timeout};

/// Bytes of answers read at once.
const READ_BYTES: usize = 4096;

/// How soon after a write it is looked at what has arrived; then after twice as long each time, up
/// to the longest: a kernel acknowledges within 40 ms, mostly at once.
const LOOK_MIN: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(50);

/// How long a connection has to last before anything counts as arrived without acknowledgements. A
/// proxy whose server is away, and TLS 1.3 where our certificate is refused, take bytes and end it
/// just then, in good order and each time: what they took is lost, so no number of such ends counts
/// as arrived either.
const PROBATION: Duration = Duration::from_millis(500);

/// How long the endpoint is listened to when nothing can be sent to it any more.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long the end of a connection may take.
const FAREWELL: Duration = Duration::from_secs(1);

/// How the connection is made, and what is said first.
pub struct Plan {
    /// Where to.
    pub address: Address,
    /// When, at the earliest.
    pub when: Instant,
    /// Encrypts.
    pub tls: Option<Arc<Tls>>,
    /// For all of connecting.
    pub connect_timeout: Duration,
    /// How long nothing may arrive.
    pub timeout: Duration,
    /// Begins a connection with acknowledgements.
    pub hello: Option<Hello>,
    /// Number of the last unit that any connection of the session may have sent.
    pub last: u64,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkError {
    /// Short name for the `error_type` label.
    pub kind: &'static str,
    /// What happened, for a person.
    pub text: String,
}

/// A connection and its task, which ends with it.
pub struct Link {
    shared: Arc<Shared>,
    /// Gone once the task is to end by itself.
    task: Option<AbortHandle>,
}

impl Link {
    /// Connects, then sends `units` in order.
    pub fn open(plan: Plan, packer: Arc<Packer>, units: Vec<Arc<Unit>>) -> Link {
        let shared = Arc::new(Shared::new(units, plan.last));
        let driver = Driver { plan, packer, shared: shared.clone() };
        let task = tokio::spawn(driver.run()).abort_handle();
        Link { shared, task: Some(task) }
    }

    /// Sends one more unit, behind the others.
    pub fn send(&self, unit: Arc<Unit>) {
        self.shared.send(unit);
    }

    /// What has happened since the last call. Never waits.
    pub fn told(&self) -> Told {
        self.shared.take()
    }

    /// All units up to this number are settled: those that were refused, too.
    pub fn settle(&self, number: u64) {
        self.shared.settle(number);
    }

    /// Waits until there may be something new to be told.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// Ends the connection in good order, without waiting for that.
    pub fn finish(mut self) {
        self.task = None;
        self.shared.finish();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What the task works with.
struct Driver {
    plan: Plan,
    packer: Arc<Packer>,
    shared: Arc<Shared>,
}

impl Driver {
    async fn run(self) {
        let error = match self.begin().await {
            Ok((stream, meter, answers)) => self.drive(stream, &meter, answers).await,
            Err(error) => error,
        };
        self.shared.fail(error);
    }

    /// Connects and greets.
    async fn begin(&self) -> Result<(Box<dyn Stream>, Meter, Answers), LinkError> {
        let plan = &self.plan;
        sleep_until(plan.when).await;
        let connected =
            tcp::connect(&plan.address, plan.tls.as_ref(), plan.connect_timeout, plan.timeout);
        let connected =
            connected.await.map_err(|error| self.error(error.kind(), &error.to_string()));
        let Connection { mut stream, meter } = connected?;
        let mut answers = Answers::default();
        if let Some(hello) = &plan.hello {
            let greeted =
                timeout(plan.connect_timeout, self.greet(&mut stream, hello, &mut answers)).await;
            greeted.unwrap_or_else(|_| {
                Err(self.error(
                    "timeout",
                    "no answer to the greeting; is it a server with acknowledgements?",
                ))
            })?;
        }
        self.shared.connect();
        Ok((stream, meter, answers))
    }

    /// Says which session this is; the endpoint says what it has of that.
    async fn greet(
        &self,
        stream: &mut Box<dyn Stream>,
        hello: &Hello,
        answers: &mut Answers,
    ) -> Result<(), LinkError> {
        let sent = async {
            stream.write_all(&hello.bytes()).await?;
            stream.flush().await
        };
        sent.await.map_err(|error| self.broken(&error))?;
        let mut bytes = [0; READ_BYTES];
        while !self.take(answers)? {
            match stream.read(&mut bytes).await {
                Ok(0) => return Err(self.closed()),
                Ok(count) => answers.put(&bytes[..count]),
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(())
    }

    /// Takes in the answers that are complete; whether there were any.
    fn take(&self, answers: &mut Answers) -> Result<bool, LinkError> {
        let mut any = false;
        let wrong = |what: String| {
            self.error("protocol", &format!("the endpoint does not keep to the protocol: {what}"))
        };
        while let Some(answer) = answers.next().map_err(wrong)? {
            self.shared.answer(answer).map_err(wrong)?;
            any = true;
        }
        Ok(any)
    }

    /// Sends until something fails.
    async fn drive(&self, stream: Box<dyn Stream>, meter: &Meter, answers: Answers) -> LinkError {
        let begun = Instant::now();
        let (reader, writer) = tokio::io::split(stream);
        let mut read = pin!(self.read(reader, answers));
        let (mut error, is_read) = tokio::select! {
            error = &mut read => (error, true),
            error = self.write(writer, meter) => (error, false),
            error = self.watch(meter, begun) => (error, false),
        };
        if !is_read && let Ok(last) = timeout(LAST_WORDS, read).await {
            // It knows better: why the endpoint reads no more, and what it has settled.
            error = last;
        }
        if let Ok(arrived) = meter.acknowledged() {
            self.note(arrived, begun);
        }
        if error.kind == "closed" && meter.written() > 0 && self.is_on_probation(begun) {
            error.text += &format!(
                ", less than {PROBATION:?} after it began: nothing of it counts as arrived"
            );
        }
        error
    }

    async fn write(&self, mut writer: WriteHalf<Box<dyn Stream>>, meter: &Meter) -> LinkError {
        while let Some(unit) = self.shared.next().await {
            let sent = async {
                let wire = self.packer.wire(&unit).await?;
                self.shared.begun(unit.number);
                write_all(&mut writer, &wire).await
            };
            if let Err(error) = sent.await {
                return self.broken(&error);
            }
            self.shared.wrote(unit.number, meter.written());
        }
        let _ = timeout(FAREWELL, writer.shutdown()).await;
        self.closed()
    }

    async fn read(&self, mut reader: ReadHalf<Box<dyn Stream>>, mut answers: Answers) -> LinkError {
        let mut bytes = [0; READ_BYTES];
        loop {
            match reader.read(&mut bytes).await {
                Ok(0) => return self.closed(),
                // Without acknowledgements nobody is asked: what a server says all the same is not
                // kept.
                Ok(_) if self.plan.hello.is_none() => {}
                Ok(count) => {
                    answers.put(&bytes[..count]);
                    if let Err(error) = self.take(&mut answers) {
                        return error;
                    }
                }
                Err(error) => return self.broken(&error),
            }
        }
    }

    /// Follows what arrives; an error says that nothing does.
    async fn watch(&self, meter: &Meter, begun: Instant) -> LinkError {
        let (mut pause, mut moved, mut seen) = (LOOK_MIN, Instant::now(), (0, 0));
        loop {
            if !self.shared.is_busy() {
                self.shared.work_to_watch.notified().await;
                (pause, moved) = (LOOK_MIN, Instant::now());
                continue;
            }
            let arrived = match meter.acknowledged() {
                Ok(arrived) => arrived,
                Err(error) => return self.broken(&error),
            };
            self.note(arrived, begun);
            let now = (arrived, self.shared.answers());
            // Without answers, an endpoint that has everything owes nothing.
            let is_even = self.plan.hello.is_none() && arrived == meter.written();
            if now != seen {
                (pause, seen, moved) = (LOOK_MIN, now, Instant::now());
            } else if is_even {
                moved = Instant::now();
            } else if moved.elapsed() >= self.plan.timeout {
                return self.stuck();
            }
            let woken = timeout(pause, self.shared.work_to_watch.notified()).await.is_ok();
            pause = if woken { LOOK_MIN } else { (pause * 2).min(LOOK_MAX) };
        }
    }

    /// The kernel of the endpoint has so many bytes: that settles them where there are no answers.
    fn note(&self, arrived: u64, begun: Instant) {
        if self.plan.hello.is_none() && !self.is_on_probation(begun) {
            self.shared.arrived(arrived);
        }
    }

    /// Whether what it took may be lost: it began a moment ago, and there are no answers.
    fn is_on_probation(&self, begun: Instant) -> bool {
        self.plan.hello.is_none() && begun.elapsed() < PROBATION
    }

    fn error(&self, kind: &'static str, what: &str) -> LinkError {
        LinkError { kind, text: format!("{}: {what}", self.plan.address) }
    }

    fn closed(&self) -> LinkError {
        self.error("closed", "the endpoint has ended the connection")
    }

    fn stuck(&self) -> LinkError {
        let what = if self.plan.hello.is_some() { "acknowledged" } else { "taken" };
        self.error(
            "timeout",
            &format!("the endpoint has {what} nothing for {:?}", self.plan.timeout),
        )
    }

    fn broken(&self, error: &io::Error) -> LinkError {
        match self.plan.tls.as_ref().and_then(|tls| tls.explain(error, &self.plan.address.host)) {
            Some(text) => self.error("tls", &text),
            None => self.error("closed", &format!("the connection broke: {error}")),
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
