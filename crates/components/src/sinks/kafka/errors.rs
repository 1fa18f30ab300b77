//! Classification of failed records: rejected, or retried later.

use crate::util::kafka::error_type;
pub use crate::util::kafka::error_type::is_about_topic;
use millstream_kafka::ErrorCode;
use millstream_model::DeliverError;
use std::time::Duration;

/// Delay before a retry. The library has a separate backoff for reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// Returns whether a broker rejected the content of the record, so that a retry cannot succeed.
pub fn is_about_record(code: ErrorCode) -> bool {
    use ErrorCode::{
        InvalidRecord, InvalidTimestamp, MessageBatchTooLarge, MessageSizeTooLarge, PolicyViolation,
    };
    matches!(
        code,
        MessageSizeTooLarge
            | MessageBatchTooLarge
            | InvalidRecord
            | InvalidTimestamp
            | PolicyViolation
    )
}

/// Returns the reason label of a rejected record.
pub fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::MessageSizeTooLarge | ErrorCode::MessageBatchTooLarge => "too_large",
        _ => "refused",
    }
}

/// Returns whether the record failed only because another record failed.
pub fn is_consequence(code: ErrorCode) -> bool {
    use ErrorCode::{Fatal, GaplessGuarantee, OutOfOrderSequenceNumber, PurgeInflight, PurgeQueue};
    matches!(code, Fatal | GaplessGuarantee | OutOfOrderSequenceNumber | PurgeInflight | PurgeQueue)
}

/// Builds an error for the engine that is retried until it succeeds.
pub fn error(code: ErrorCode, message: String) -> DeliverError {
    let kind = error_type::of(code);
    DeliverError { retry_after: Some(RETRY), ..DeliverError::retry(kind, message) }
}
