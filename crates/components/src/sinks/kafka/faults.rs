//! What a failed record means: refuse it, or wait and send it again.

use millstream_kafka::ErrorCode;
use millstream_model::DeliverError;
use std::time::Duration;

/// How soon it is tried again. The library backs off by itself where it reconnects.
const RETRY: Duration = Duration::from_secs(1);

/// Whether a broker refuses what is in the record: sending it again changes nothing.
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

/// Why a record was refused, for the counter.
pub fn reason(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::MessageSizeTooLarge | ErrorCode::MessageBatchTooLarge => "too_large",
        _ => "refused",
    }
}

/// Whether the record only fell with another one: that one tells the cause.
pub fn is_consequence(code: ErrorCode) -> bool {
    use ErrorCode::{Fatal, GaplessGuarantee, OutOfOrderSequenceNumber, PurgeInflight, PurgeQueue};
    matches!(code, Fatal | GaplessGuarantee | OutOfOrderSequenceNumber | PurgeInflight | PurgeQueue)
}

/// Whether the topic is to be looked for anew.
pub fn is_about_topic(code: ErrorCode) -> bool {
    use ErrorCode::{InvalidTopic, UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(code, InvalidTopic | UnknownPartition | UnknownTopic | UnknownTopicOrPartition)
}

/// The error for the engine: tried again, for as long as it takes.
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
