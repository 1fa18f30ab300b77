//! Live recording: writes new events once a second.

use super::Failure;
use super::events::EventWriter;
use super::missing::Missing;
use super::output::Target;
use super::story::Head;
use super::summarize;
use super::ticks::end_of;
use crate::client::{Client, ClientError};
use crate::interrupts::{Signals, end_at_second_signal};
use crate::run_files::End;
use hyper::Method;
use hyper::body::Bytes;
use millstream_model::Interval;
use millstream_recorder::snapshot::{Reader, SlotCounts, Snapshot};
use std::io;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Interval at which new events are fetched. The agent must not overwrite new events in between.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

const PATH: &str = "/api/recorder/rings";

/// Returns the chunks of the recording that are not in `known`, as bytes of a snapshot.
pub async fn copy(client: &Client, known: Vec<u8>) -> Result<Bytes, ClientError> {
    client.download(Method::POST, PATH, known).await
}

/// Returns the list of known chunks as a request body.
fn body(known: &SlotCounts) -> Vec<u8> {
    known
        .iter()
        .flat_map(|(sequence, slots)| [*sequence, *slots])
        .flat_map(u32::to_le_bytes)
        .collect()
}

/// Records for this time, or until a signal or the exit of the agent.
pub async fn record(client: &Client, duration: Interval, target: &Target) -> Result<(), Failure> {
    let receive = || Signals::receive().map_err(|error| Failure::failed(error.to_string()));
    let mut signals = receive()?;
    tokio::spawn(end_at_second_signal(receive()?));
    let output = target.open()?;
    let first = parse(&copy(client, Vec::new()).await?)?;
    let mut live = Live::begin(first, |snapshot, ticks| {
        EventWriter::new(target.format, output, snapshot, ticks)
    });
    let end = Instant::now() + duration.0;
    let (mut next, mut is_last) = (Instant::now(), false);
    let gone = loop {
        next += POLL_INTERVAL;
        tokio::select! {
            () = sleep_until(next.min(end)) => {}
            () = signals.stop() => is_last = true,
        }
        is_last |= Instant::now() >= end;
        match live.poll(client).await {
            Ok(()) if is_last => break None,
            Ok(()) => {}
            Err(Poll::Gone(why)) => break Some(why),
            Err(Poll::Output(error)) => {
                return Err(Failure::failed(format!("{}: {error}", target.name().display())));
            }
        }
    };
    live.finish(target)?;
    gone.map_or(Ok(()), |why| Err(ended(client, &why)))
}

/// Returns the failure for an agent that can no longer be reached.
fn ended(client: &Client, why: &str) -> Failure {
    let advice = client.data_dir().map_or(String::new(), |data_dir| {
        let data_dir = data_dir.display();
        format!("; to read the agent's last second, run millstream record --from-crash {data_dir}")
    });
    Failure::failed(format!(
        "the recording ends early because the agent can no longer be reached: {why}{advice}"
    ))
}

fn parse(bytes: &[u8]) -> Result<Snapshot, Failure> {
    let failed = |error| {
        Failure::failed(format!("{error}; use the same release for the agent and this command"))
    };
    Snapshot::parse(bytes).map_err(failed)
}

/// The reason why there are no new events.
enum Poll {
    /// The agent can no longer be reached, or another agent has replaced it.
    Gone(String),
    Output(io::Error),
}

/// A live recording.
struct Live {
    first: Snapshot,
    latest: Snapshot,
    reader: Reader,
    writer: EventWriter,
    start_ticks: u64,
    end_ticks: u64,
}

impl Live {
    /// Begins after the last event of a snapshot.
    fn begin(first: Snapshot, writer: impl FnOnce(&Snapshot, u64) -> EventWriter) -> Live {
        let mut start_ticks = first.latest_ticks();
        Reader::default().read(&first, |event, _| start_ticks = start_ticks.max(end_of(event)));
        let mut reader = Reader::default();
        reader.skip(&first);
        let writer = writer(&first, start_ticks);
        let (latest, end_ticks) = (first.clone(), start_ticks);
        Live { first, latest, reader, writer, start_ticks, end_ticks }
    }

    /// Fetches and writes new events.
    async fn poll(&mut self, client: &Client) -> Result<(), Poll> {
        let gone = |why: String| Poll::Gone(why);
        let bytes = copy(client, body(self.reader.known())).await;
        let bytes = bytes.map_err(|error| gone(error.to_string()))?;
        let snapshot = Snapshot::parse(&bytes).map_err(|error| gone(error.to_string()))?;
        if !self.is_same_run(&snapshot) {
            return Err(gone("another agent is running in its place".to_owned()));
        }
        let (writer, end_ticks) = (&mut self.writer, &mut self.end_ticks);
        let mut written = Ok(());
        self.reader.read(&snapshot, |event, reader| {
            *end_ticks = (*end_ticks).max(end_of(event));
            if written.is_ok() {
                written = writer.push(event, reader);
            }
        });
        // All events that ended before the previous snapshot have now been read.
        let before = self.latest.latest_ticks();
        written.and_then(|()| writer.advance(before, &self.reader)).map_err(Poll::Output)?;
        self.end_ticks = self.end_ticks.max(snapshot.latest_ticks());
        self.latest = snapshot;
        Ok(())
    }

    fn is_same_run(&self, snapshot: &Snapshot) -> bool {
        let identity = |snapshot: &Snapshot| (snapshot.pid(), snapshot.clock().start_ticks);
        identity(snapshot) == identity(&self.first)
    }

    fn finish(self, target: &Target) -> Result<(), Failure> {
        let missing = Missing::since(&self.latest, &self.first, &self.reader);
        let head = Head::of(&self.latest, End::Running, missing.clone());
        let (events, ticks) = (self.writer.events, self.end_ticks - self.start_ticks);
        let seconds = self.latest.clock().ns(ticks) as f64 / 1e9;
        let bytes = self.writer.finish(&head, self.end_ticks, &self.reader);
        let bytes = bytes
            .map_err(|error| Failure::failed(format!("{}: {error}", target.name().display())))?;
        summarize(target.name(), events, seconds, bytes, &missing);
        Ok(())
    }
}
