//! A shipment in flight, to which every record without a delivery report holds a reference.

use crate::ErrorCode;
use crate::shipment::{RecordId, Shipment};
use parking_lot::Mutex;
use std::sync::Arc;

/// The result of a shipment. Every record that is not among the failures was delivered.
#[derive(Debug)]
pub struct Receipt {
    /// The tag passed to [`crate::Producer::send`].
    pub tag: u64,
    /// The failed records, in the order of the shipment.
    pub failures: Vec<Failure>,
}

/// A failed record.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Id of the record.
    pub record: RecordId,
    /// The error code.
    pub code: ErrorCode,
    /// Whether librdkafka rejected the record before sending it.
    pub rejected_by_client: bool,
}

/// A function that receives receipts. Called on the thread that handles the last report.
pub(crate) type OnReceipt = Arc<dyn Fn(Receipt) + Send + Sync>;

pub(crate) struct InFlight {
    pub shipment: Arc<Shipment>,
    pub tag: u64,
    pub failures: Mutex<Vec<Failure>>,
    pub on_receipt: OnReceipt,
}

impl InFlight {
    /// Records a failure.
    pub fn fail(&self, failure: Failure) {
        self.failures.lock().push(failure);
    }

    /// Records the failure of the record whose payload begins at `address`.
    pub fn fail_at(&self, address: usize, code: ErrorCode) {
        match self.shipment.find(address) {
            Some(record) => self.fail(Failure { record, code, rejected_by_client: false }),
            None => log::error!("a delivery report matches no record of its batch: {code}"),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut failures = std::mem::take(self.failures.get_mut());
        failures.sort_by_key(|failure| failure.record);
        // Release the memory before the receipt announces that it is free.
        drop(std::mem::take(&mut self.shipment));
        (self.on_receipt)(Receipt { tag: self.tag, failures });
    }
}
