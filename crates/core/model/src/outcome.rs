//! The result of a delivery.

/// The result of delivering a byte range to one sink. Variants are ordered by severity: a range
/// with several outcomes ends with the worst outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Durable at the endpoint, or dropped on purpose by the configuration.
    Delivered = 0,
    /// Rejected permanently, and counted with a reason.
    Rejected = 1,
    /// Returned undelivered for a reason unrelated to the range; the source reads the range again.
    Returned = 2,
    /// Lost without an answer, possibly because of its content. The source reads the range again.
    /// If the range is lost repeatedly, the source bisects it down to the line that causes the
    /// loss.
    Abandoned = 3,
}
