//! The result of a delivery.

/// The result of delivering a byte range to one sink. Variants are ordered by severity: if a range
/// has several outcomes, the worst one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable at the endpoint, or dropped on purpose by the configuration.
    Delivered = 0,
    /// Rejected permanently, and counted with a reason.
    Rejected = 1,
    /// Returned undelivered for a reason unrelated to the range. The source rereads the range.
    Returned = 2,
    /// Lost without a response, possibly because of its content. The source rereads the range. If
    /// the range is lost repeatedly, the source bisects it to find the line that causes the loss.
    Abandoned = 3,
}
