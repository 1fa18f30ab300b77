//! Classification of failed records: refuse, or wait and retry.

use millstream_kafka::ErrorCode;
use millstream_model::DeliverError;
use std::time::Duration;

/// Delay before a retry. The library has its own backoff for reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// Returns whether a broker refused the content of the record, so that a retry cannot succeed.
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

/// Returns the reason label of a refused record.
pub fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::MessageSizeTooLarge | ErrorCode::MessageBatchTooLarge => "too_large",
        _ => "refused",
    }
}

/// Returns whether the record failed only because of another one, which has the cause.
pub fn is_consequence(code: ErrorCode) -> bool {
    use ErrorCode::{Fatal, GaplessGuarantee, OutOfOrderSequenceNumber, PurgeInflight, PurgeQueue};
    matches!(code, Fatal | GaplessGuarantee | OutOfOrderSequenceNumber | PurgeInflight | PurgeQueue)
}

/// Returns whether to look the topic up again.
pub fn is_about_topic(code: ErrorCode) -> bool {
    use ErrorCode::{InvalidTopic, UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(code, InvalidTopic | UnknownPartition | UnknownTopic | UnknownTopicOrPartition)
}

/// Builds an error for the engine that is retried until it succeeds.
pub fn error(code: ErrorCode, message: String) -> DeliverError {
    let kind = match code {
        ErrorCode::Authentication | ErrorCode::SaslAuthenticationFailed => "authentication",
        ErrorCode::TopicAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
            "authorization"
        }
        ErrorCode::SSL => "tls",
        code if is_about_topic(code) => "unknown_topic",
        ErrorCode::BrokerTransportFailure
        | ErrorCode::AllBrokersDown
        | ErrorCode::Resolve
        | ErrorCode::OperationTimedOut
        | ErrorCode::MessageTimedOut => "unreachable",
        _ => "broker",
    };
    DeliverError { retry_after: Some(RETRY), ..DeliverError::retry(kind, message) }
}
