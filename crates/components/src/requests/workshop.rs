//! The packer and its work, on a blocking thread.

use super::{Packer, Request, Taken};
use std::future::pending;
use std::panic::resume_unwind;
use tokio::task::{JoinHandle, spawn_blocking};

/// Something for the packer to do.
pub enum Job {
    /// To make requests.
    Pack(Vec<Taken>),
    /// To take a refused request apart.
    Split(Request),
    /// To bring a request into another form.
    Convert(Request),
}

/// What came of a [`Job`].
pub enum Made {
    /// Requests of payloads.
    Packed(Vec<Request>),
    /// Smaller requests instead of one; none if there are no smaller ones.
    Split(Option<Vec<Request>>),
    /// The request in another form, and whether there is one.
    Converted(Request, bool),
}

/// The packer, at work or at home.
pub struct Workshop<P> {
    packer: Option<P>,
    work: Option<JoinHandle<(P, Made)>>,
}

impl<P: Packer> Workshop<P> {
    /// A packer without work.
    pub fn new(packer: P) -> Workshop<P> {
        Workshop { packer: Some(packer), work: None }
    }

    /// The packer, if it has nothing to do.
    pub fn idle(&mut self) -> Option<&mut P> {
        self.packer.as_mut()
    }

    /// Begins a job. The packer has to be idle.
    pub fn begin(&mut self, job: Job) {
        let Some(mut packer) = self.packer.take() else { return };
        self.work = Some(spawn_blocking(move || {
            let made = match job {
                Job::Pack(taken) => Made::Packed(packer.pack(taken)),
                Job::Split(request) => Made::Split(packer.split(request)),
                Job::Convert(request) => match packer.convert(&request) {
                    Some(converted) => Made::Converted(converted, true),
                    None => Made::Converted(request, false),
                },
            };
            (packer, made)
        }));
    }

    /// Waits for the end of the job; without one, for ever. May be dropped and called anew. A panic of
    /// the packer goes on here.
    pub async fn wait(&mut self) -> Made {
        let Some(work) = &mut self.work else { return pending().await };
        let done = work.await;
        self.work = None;
        match done {
            Ok((packer, made)) => {
                self.packer = Some(packer);
                made
            }
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The runtime ends.
            Err(_) => pending().await,
        }
    }
}
