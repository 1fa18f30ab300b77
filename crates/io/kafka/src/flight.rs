//! A shipment on its way: referred to by every record that has no report yet.

use crate::ErrorCode;
use crate::shipment::{RecordId, Shipment};
use parking_lot::Mutex;
use std::sync::Arc;

/// What became of a shipment: every record that is not named arrived.
#[derive(Debug)]
pub struct Receipt {
    /// The number that was given to [`crate::Producer::send`].
    pub tag: u64,
    /// The records that failed, in their order.
    pub failures: Vec<Failure>,
}

/// A record that failed.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Which one.
    pub record: RecordId,
    /// Why.
    pub code: ErrorCode,
    /// Whether the library refused it at once: it was never on its way.
    pub at_once: bool,
}

/// Takes receipts, on whatever thread the last report comes.
pub(crate) type TakeReceipt = Arc<dyn Fn(Receipt) + Send + Sync>;

pub(crate) struct Flight {
    pub shipment: Arc<Shipment>,
    pub tag: u64,
    pub failures: Mutex<Vec<Failure>>,
    pub take: TakeReceipt,
}

impl Flight {
    /// Takes note of a failed record.
    pub fn fail(&self, failure: Failure) {
        self.failures.lock().push(failure);
    }

    /// Takes note of the failure of the record whose bytes begin at `address`.
    pub fn fail_at(&self, address: usize, code: ErrorCode) {
        match self.shipment.find(address) {
            Some(record) => self.fail(Failure { record, code, at_once: false }),
            None => log::error!("a delivery report matches no record of its batch: {code}"),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut failures = std::mem::take(self.failures.get_mut());
        failures.sort_by_key(|failure| failure.record);
        // First the memory, then the word of it.
        drop(std::mem::take(&mut self.shipment));
        (self.take)(Receipt { tag: self.tag, failures });
    }
}
