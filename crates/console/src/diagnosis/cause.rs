//! The causes that a diagnosis names.

use serde::Serialize;

/// How the events of a source get through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All is delivered in time.
    Healthy,
    /// Nothing is written to the source.
    Idle,
    /// Events are delivered, but some are lost, wrong or at risk.
    Degraded,
    /// Events are not read or not delivered in time.
    Late,
}

impl Status {
    /// Returns the name in APIs.
    pub fn name(self) -> &'static str {
        match self {
            Status::Healthy => "healthy",
            Status::Idle => "idle",
            Status::Degraded => "degraded",
            Status::Late => "late",
        }
    }
}

/// Why the events of a source are late, lost or wrong. The order is that of the report: a cause
/// comes before those that often follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The endpoint does not accept the credentials, or a certificate is not valid.
    LoginOrCertificate,
    /// The topic or index does not exist.
    TopicOrIndexMissing,
    /// No connection to the endpoint.
    EndpointUnreachable,
    /// The endpoint delays requests to keep a quota.
    BrokerThrottles,
    /// The endpoint refuses requests or events.
    EndpointRefuses,
    /// Calls of an operator do not return.
    OperatorStuck,
    /// The process may not read a file or folder.
    NoPermission,
    /// A path does not exist.
    PathMissing,
    /// A pattern matches no file.
    PatternMatchesNothing,
    /// Memory is short.
    MemoryLimit,
    /// `limits.cpu` holds the workers back.
    CpuLimit,
    /// A rate limit of the configuration holds the source back.
    RateLimit,
    /// A transform takes most of the time of the workers.
    TransformSlow,
    /// The endpoint accepts less than the source reads.
    EndpointSlow,
    /// The writer stopped in the middle of a line.
    UnfinishedLine,
    /// The consumer group assigns partitions again and again.
    RebalanceLoop,
    /// The kernel dropped messages because the receive buffer was full.
    KernelDrops,
    /// The disk buffer of a sink fills up.
    DiskBufferFilling,
    /// Deleted files that are not delivered come near the limit of their size.
    HeldFilesNearLimit,
    /// Checkpoints cannot be saved.
    CheckpointStore,
    /// The clock or the time zone of the writer is wrong.
    ClockOff,
    /// The application writes events long after their time.
    ApplicationWritesLate,
    /// A `parse` transform does not understand the lines.
    ParseFailures,
    /// Events begin with lines that cannot begin one.
    MultilineMismatch,
    /// The bytes are not valid in the encoding of the source.
    WrongEncoding,
    /// Lines are longer than `max_line`.
    LinesTooLong,
    /// The times of a file jump back.
    TimesOutOfOrder,
    /// Nothing was written for some time.
    NothingWritten,
}

impl Cause {
    /// All causes, in the order of the report.
    pub const ALL: [Cause; 28] = [
        Cause::LoginOrCertificate,
        Cause::TopicOrIndexMissing,
        Cause::EndpointUnreachable,
        Cause::BrokerThrottles,
        Cause::EndpointRefuses,
        Cause::OperatorStuck,
        Cause::NoPermission,
        Cause::PathMissing,
        Cause::PatternMatchesNothing,
        Cause::MemoryLimit,
        Cause::CpuLimit,
        Cause::RateLimit,
        Cause::TransformSlow,
        Cause::EndpointSlow,
        Cause::UnfinishedLine,
        Cause::RebalanceLoop,
        Cause::KernelDrops,
        Cause::DiskBufferFilling,
        Cause::HeldFilesNearLimit,
        Cause::CheckpointStore,
        Cause::ClockOff,
        Cause::ApplicationWritesLate,
        Cause::ParseFailures,
        Cause::MultilineMismatch,
        Cause::WrongEncoding,
        Cause::LinesTooLong,
        Cause::TimesOutOfOrder,
        Cause::NothingWritten,
    ];

    /// Returns the id, such as `endpoint_slow`.
    pub fn id(self) -> &'static str {
        match self {
            Cause::LoginOrCertificate => "login_or_certificate",
            Cause::TopicOrIndexMissing => "topic_or_index_missing",
            Cause::EndpointUnreachable => "endpoint_unreachable",
            Cause::BrokerThrottles => "broker_throttles",
            Cause::EndpointRefuses => "endpoint_refuses",
            Cause::OperatorStuck => "operator_stuck",
            Cause::NoPermission => "no_permission",
            Cause::PathMissing => "path_missing",
            Cause::PatternMatchesNothing => "pattern_matches_nothing",
            Cause::MemoryLimit => "memory_limit",
            Cause::CpuLimit => "cpu_limit",
            Cause::RateLimit => "rate_limit",
            Cause::TransformSlow => "transform_slow",
            Cause::EndpointSlow => "endpoint_slow",
            Cause::UnfinishedLine => "unfinished_line",
            Cause::RebalanceLoop => "rebalance_loop",
            Cause::KernelDrops => "kernel_drops",
            Cause::DiskBufferFilling => "disk_buffer_filling",
            Cause::HeldFilesNearLimit => "held_files_near_limit",
            Cause::CheckpointStore => "checkpoint_store",
            Cause::ClockOff => "clock_off",
            Cause::ApplicationWritesLate => "application_writes_late",
            Cause::ParseFailures => "parse_failures",
            Cause::MultilineMismatch => "multiline_mismatch",
            Cause::WrongEncoding => "wrong_encoding",
            Cause::LinesTooLong => "lines_too_long",
            Cause::TimesOutOfOrder => "times_out_of_order",
            Cause::NothingWritten => "nothing_written",
        }
    }

    /// Returns for how many seconds the condition must hold before the cause is named: what a start,
    /// a rotation or a short outage looks like must be over by then.
    pub fn hold_seconds(self) -> f64 {
        match self {
            Cause::NoPermission | Cause::CheckpointStore | Cause::OperatorStuck => 3.0,
            Cause::PathMissing | Cause::PatternMatchesNothing => 12.0,
            Cause::KernelDrops | Cause::HeldFilesNearLimit | Cause::RebalanceLoop => 0.0,
            Cause::ParseFailures
            | Cause::MultilineMismatch
            | Cause::WrongEncoding
            | Cause::LinesTooLong
            | Cause::TimesOutOfOrder
            | Cause::ClockOff
            | Cause::ApplicationWritesLate => 3.0,
            // A lane that was refused for a moment waits some seconds until it tries again.
            Cause::LoginOrCertificate
            | Cause::TopicOrIndexMissing
            | Cause::EndpointUnreachable
            | Cause::BrokerThrottles
            | Cause::EndpointRefuses => 14.0,
            Cause::MemoryLimit
            | Cause::CpuLimit
            | Cause::RateLimit
            | Cause::TransformSlow
            | Cause::EndpointSlow
            | Cause::UnfinishedLine
            | Cause::DiskBufferFilling
            | Cause::NothingWritten => 8.0,
        }
    }

    /// Whether it is about what the lines look like.
    pub fn is_about_content(self) -> bool {
        matches!(
            self,
            Cause::ParseFailures
                | Cause::MultilineMismatch
                | Cause::WrongEncoding
                | Cause::LinesTooLong
                | Cause::TimesOutOfOrder
        )
    }

    /// Returns what to do about it. `component` is the one that it concerns.
    pub fn advice(self, component: &str) -> String {
        let text = match self {
            Cause::LoginOrCertificate => {
                "check `auth`, `sasl` and `tls` of {}, and the account's permissions"
            }
            Cause::TopicOrIndexMissing => {
                "create the topic or index that {} writes to or reads, or correct its name"
            }
            Cause::EndpointUnreachable => {
                "check that the endpoint of {} runs, its address, and firewalls"
            }
            Cause::BrokerThrottles => "raise the quota at the endpoint of {}, or send it less",
            Cause::EndpointRefuses => {
                "read the endpoint's answer in the log; mend the events or the settings of {}"
            }
            Cause::OperatorStuck => {
                "look at the stack of {} with `millstream profile -e wall`; set or shorten its `timeout`"
            }
            Cause::NoPermission => {
                "let the user of the agent read what {} includes, such as by group or ACL"
            }
            Cause::PathMissing => {
                "correct the path in `include` of {}, or start the application that writes it"
            }
            Cause::PatternMatchesNothing => {
                "correct the pattern in `include` of {}; compare it with `ls`"
            }
            Cause::MemoryLimit => {
                "raise `limits.memory`, or find what takes it: `millstream top`, view memory ({})"
            }
            Cause::CpuLimit => {
                "raise `limits.cpu`, or make the work cheaper: `millstream profile` ({})"
            }
            Cause::RateLimit => "raise the rate limit of {}",
            Cause::TransformSlow => {
                "find the expensive part of {} with `millstream profile`, or raise `limits.threads`"
            }
            Cause::EndpointSlow => {
                "scale the endpoint of {}, or raise its batch size and concurrency"
            }
            Cause::UnfinishedLine => {
                "let the application end its last line in {}; it is read once it does"
            }
            Cause::RebalanceLoop => {
                "raise `max.poll.interval.ms`, set `group.instance.id`, look for restarting members of the group of {}"
            }
            Cause::KernelDrops => {
                "raise the receive buffer or the receivers of {}, and `net.core.rmem_max`"
            }
            Cause::DiskBufferFilling => {
                "mend the endpoint of {}, or raise `max_size` of its disk buffer"
            }
            Cause::HeldFilesNearLimit => {
                "mend the sinks behind {}, or raise `held.max`; beyond it the oldest files are lost"
            }
            Cause::CheckpointStore => "free space in `data_dir`, or make it writable ({})",
            Cause::ClockOff => {
                "set the clock of the writing host, or the time zone in the format of {}"
            }
            Cause::ApplicationWritesLate => {
                "look for buffering in the logger of the application that writes {}"
            }
            Cause::ParseFailures => {
                "compare the format of {} with the lines: `millstream tap {} --where …`"
            }
            Cause::MultilineMismatch => {
                "correct `multiline` of {}: many events begin with a line that cannot begin one"
            }
            Cause::WrongEncoding => "set `encoding` of {} to that of the writer",
            Cause::LinesTooLong => "raise `max_line` of {}, or shorten the lines",
            Cause::TimesOutOfOrder => {
                "let one process write each file of {}, or sort at the endpoint"
            }
            Cause::NothingWritten => "nothing, unless the application of {} should write",
        };
        text.replace("{}", component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_listed_once_in_their_order() {
        assert!(Cause::ALL.windows(2).all(|pair| pair[0] < pair[1]));
        for cause in Cause::ALL {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.id());
            assert!(cause.advice("web").contains("web"), "{}", cause.id());
        }
    }
}
