//! Types of Kafka errors, for counters.

use millstream_kafka::ErrorCode;

/// Returns whether the error is about a topic or one of its partitions.
pub fn is_about_topic(code: ErrorCode) -> bool {
    use ErrorCode::{InvalidTopic, UnknownPartition, UnknownTopic, UnknownTopicOrPartition};
    matches!(code, InvalidTopic | UnknownPartition | UnknownTopic | UnknownTopicOrPartition)
}

/// Returns whether the error is about a topic, or about the permission to access it.
pub fn concerns_topic(code: ErrorCode) -> bool {
    is_about_topic(code) || code == ErrorCode::TopicAuthorizationFailed
}

/// Returns whether the error ends as soon as a broker responds.
pub fn concerns_connection(code: ErrorCode) -> bool {
    matches!(of(code), "unreachable" | "authentication" | "tls")
}

/// Returns the type of an error, for counters.
pub fn of(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Authentication | ErrorCode::SaslAuthenticationFailed => "authentication",
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed => "authorization",
        ErrorCode::SSL => "tls",
        code if is_about_topic(code) => "unknown_topic",
        ErrorCode::BrokerTransportFailure
        | ErrorCode::AllBrokersDown
        | ErrorCode::Resolve
        | ErrorCode::OperationTimedOut
        | ErrorCode::MessageTimedOut => "unreachable",
        _ => "broker",
    }
}
