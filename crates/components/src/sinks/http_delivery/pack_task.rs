//! Runs the packer on a blocking thread.

use super::{EncodedPayload, Packer, Record, Refusal, RefusedEvent, Request};
use std::future::pending;
use std::panic::resume_unwind;
use tokio::task::{JoinHandle, spawn_blocking};

/// A job for the packer.
pub enum Job {
    /// Packs payloads into requests.
    Pack(Vec<EncodedPayload>),
    /// Splits a rejected request. If the flag is true and the request has a single event, the
    /// result also contains the event's record.
    Split(Request, Refusal, bool),
    /// Converts a request to another format.
    Convert(Request),
}

/// The result of a [`Job`].
pub enum JobResult {
    /// The requests, and the events that the packer rejected.
    Packed(Vec<Request>, Vec<RefusedEvent>),
    /// The smaller requests, and the events that the packer rejected.
    Split(Vec<Request>, Vec<RefusedEvent>),
    /// The request cannot be split. The record of its event is empty unless it was requested.
    Single(Record),
    /// The request, and whether it was converted; `false` if there is no other format.
    Converted(Request, bool),
}

/// A packer that is idle or runs one job.
pub struct PackTask<P, R> {
    packer: Option<P>,
    work: Option<JoinHandle<(P, R)>>,
}

impl<P: Packer, R: Send + 'static> PackTask<P, R> {
    /// Wraps an idle packer.
    pub fn new(packer: P) -> PackTask<P, R> {
        PackTask { packer: Some(packer), work: None }
    }

    /// Returns the packer, if it is idle.
    pub fn idle(&mut self) -> Option<&mut P> {
        self.packer.as_mut()
    }

    /// Starts a job. Does nothing unless the packer is idle.
    pub fn begin(&mut self, job: impl FnOnce(&mut P) -> R + Send + 'static) {
        let Some(mut packer) = self.packer.take() else { return };
        self.work = Some(spawn_blocking(move || {
            let result = job(&mut packer);
            (packer, result)
        }));
    }

    /// Waits for the job's result, or forever if no job is running. Cancel safe. Resumes a panic of
    /// the packer.
    pub async fn wait(&mut self) -> R {
        let Some(work) = &mut self.work else { return pending().await };
        let done = work.await;
        self.work = None;
        match done {
            Ok((packer, result)) => {
                self.packer = Some(packer);
                result
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime shuts down.
            Err(_) => pending().await,
        }
    }
}

/// Runs a job on the packer.
pub fn run(packer: &mut impl Packer, job: Job) -> JobResult {
    match job {
        Job::Pack(payloads) => {
            let requests = packer.pack(payloads);
            JobResult::Packed(requests, packer.take_refused())
        }
        Job::Split(request, refusal, wants_record) => {
            if !packer.on_refusal(&request, &refusal) {
                return JobResult::Split(Vec::new(), packer.take_refused());
            }
            let is_wanted = wants_record && request.events.len() == 1;
            let record = if is_wanted { packer.record(&request) } else { Record::default() };
            match packer.split(request) {
                Some(smaller) => JobResult::Split(smaller, packer.take_refused()),
                None => JobResult::Single(record),
            }
        }
        Job::Convert(request) => match packer.convert(&request) {
            Some(converted) => JobResult::Converted(converted, true),
            None => JobResult::Converted(request, false),
        },
    }
}
