//! The causes in a diagnosis.

use serde::Serialize;

/// Delivery status of a source's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "snake_case")]
pub enum Status {
    /// All events are delivered in time.
    Healthy,
    /// Nothing is written to the source.
    Idle,
    /// The agent or the source has not run long enough for a diagnosis.
    Starting,
    /// Events are delivered, but some are lost, wrong or at risk.
    Degraded,
    /// Events are not read or not delivered in time.
    Late,
}

impl Status {
    /// Returns the name of the status in APIs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Why the events of a source are late, lost or wrong. Causes are reported in this order, so that a
/// cause comes before causes that often follow from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The endpoint does not accept the credentials, or a certificate is not valid.
    LoginOrCertificate,
    /// The topic or index does not exist.
    TopicOrIndexMissing,
    /// The sink cannot connect to the endpoint.
    EndpointUnreachable,
    /// The sink cannot listen on its configured address.
    CannotListen,
    /// The endpoint delays requests to enforce a quota.
    BrokerThrottles,
    /// The endpoint rejects requests or events.
    EndpointRefuses,
    /// A sink cannot write to its files.
    CannotWrite,
    /// Calls of an operator do not return.
    OperatorStuck,
    /// The process may not read a file or folder.
    NoPermission,
    /// A path does not exist.
    PathMissing,
    /// A file or folder cannot be read for any other reason.
    Unreadable,
    /// A pattern matches no file.
    PatternMatchesNothing,
    /// Memory is short.
    MemoryLimit,
    /// The workers wait because of `limits.cpu`.
    CpuLimit,
    /// A configured rate limit delays the source.
    RateLimit,
    /// A transform takes most of the workers' time.
    TransformSlow,
    /// The workers have no time left to read and encode more.
    WorkersBusy,
    /// The endpoint accepts less data than the source reads.
    EndpointSlow,
    /// The writer stopped in the middle of a line.
    UnfinishedLine,
    /// The consumer group reassigns partitions repeatedly.
    RebalanceLoop,
    /// The kernel dropped messages because the receive buffer was full.
    KernelDrops,
    /// The disk buffer of a sink fills up.
    DiskBufferFilling,
    /// The size of deleted files with undelivered data is near the limit.
    HeldFilesNearLimit,
    /// Checkpoints cannot be saved.
    CheckpointStore,
    /// The clock or the time zone of the writer is wrong.
    ClockOff,
    /// The application writes events long after their timestamps.
    ApplicationWritesLate,
    /// A `parse` transform cannot parse the lines.
    ParseFailures,
    /// An operator fails for most events.
    OperatorFails,
    /// A condition has no result for any event.
    ConditionHasNoResult,
    /// Events begin with lines that cannot be the beginning of an event.
    MultilineMismatch,
    /// The bytes are not valid in the encoding of the source.
    WrongEncoding,
    /// Lines are longer than `max_line`.
    LinesTooLong,
    /// The timestamps in a file jump back.
    TimesOutOfOrder,
    /// The application has written nothing for a while.
    NothingWritten,
}

/// Properties of a cause.
struct Row {
    cause: Cause,
    id: &'static str,
    /// Time that the condition must hold before the cause is reported, in seconds. It is long
    /// enough for effects of a start, a rotation or a short outage to pass. For example, a lane
    /// whose request was rejected waits a few seconds before the next attempt.
    hold_seconds: f64,
    /// Advice for the operator; `{}` is the component with the cause.
    advice: &'static str,
}

const fn row(cause: Cause, id: &'static str, hold_seconds: f64, advice: &'static str) -> Row {
    Row { cause, id, hold_seconds, advice }
}

/// All causes, in the order of the report.
#[rustfmt::skip]
const ROWS: [Row; 34] = [
    row(Cause::LoginOrCertificate, "login_or_certificate", 14.0, "check `auth`, `sasl` and `tls` of {}, and the account's permissions"),
    row(Cause::TopicOrIndexMissing, "topic_or_index_missing", 14.0, "create the topic or index that {} writes to or reads, or correct its name"),
    row(Cause::EndpointUnreachable, "endpoint_unreachable", 14.0, "check that the endpoint of {} is running, that its address is right, and that no firewall blocks it"),
    row(Cause::CannotListen, "cannot_listen", 14.0, "free the port in `listen` of {} (`ss -ltnp` shows the process that uses it), or configure another port"),
    row(Cause::BrokerThrottles, "broker_throttles", 14.0, "raise the quota at the endpoint of {}, or send less data"),
    row(Cause::EndpointRefuses, "endpoint_refuses", 14.0, "read the endpoint's response in the agent's log; correct the events or the settings of {}"),
    row(Cause::CannotWrite, "cannot_write", 8.0, "free space where {} writes, or correct the path or its permissions"),
    row(Cause::OperatorStuck, "operator_stuck", 3.0, "find the blocked call of {} with `millstream profile -e wall`; set or shorten its `timeout`"),
    row(Cause::NoPermission, "no_permission", 3.0, "give the agent's user read access to the files that {} includes, for example through a group or an ACL"),
    row(Cause::PathMissing, "path_missing", 12.0, "correct the path in `include` of {}, or start the application that writes it"),
    row(Cause::Unreadable, "unreadable", 3.0, "read the reason; let `include` of {} match only files, or exclude the path"),
    row(Cause::PatternMatchesNothing, "pattern_matches_nothing", 12.0, "correct the pattern in `include` of {}; compare it with `ls`"),
    row(Cause::MemoryLimit, "memory_limit", 8.0, "raise `limits.memory`, or find what uses the memory: `millstream top`, view memory ({})"),
    row(Cause::CpuLimit, "cpu_limit", 8.0, "raise `limits.cpu`, or make the work cheaper: `millstream profile` ({})"),
    row(Cause::RateLimit, "rate_limit", 8.0, "raise `rate_limit` of {}"),
    row(Cause::TransformSlow, "transform_slow", 8.0, "find the expensive part of {} with `millstream profile`, or raise `limits.threads`"),
    row(Cause::WorkersBusy, "workers_busy", 8.0, "find the expensive part of {} with `millstream profile`; while cores are idle raise `limits.threads`, or divide the files among several sources, because one thread reads each source"),
    row(Cause::EndpointSlow, "endpoint_slow", 8.0, "scale the endpoint of {}, or raise its batch size and concurrency"),
    row(Cause::UnfinishedLine, "unfinished_line", 8.0, "let the application write a line ending after its last line in {}; the agent reads the line after that"),
    row(Cause::RebalanceLoop, "rebalance_loop", 0.0, "raise `max.poll.interval.ms`, set `group.instance.id`, or look for members of the consumer group of {} that restart"),
    row(Cause::KernelDrops, "kernel_drops", 0.0, "raise the receive buffer or the number of receivers of {}, and `net.core.rmem_max`"),
    row(Cause::DiskBufferFilling, "disk_buffer_filling", 8.0, "repair the endpoint of {}, or raise `max` of its disk buffer"),
    row(Cause::HeldFilesNearLimit, "held_files_near_limit", 0.0, "repair the sinks downstream of {}, or raise `held.max`; beyond this limit the oldest files are lost"),
    row(Cause::CheckpointStore, "checkpoint_store", 3.0, "free space in `data_dir`, or make it writable ({})"),
    row(Cause::ClockOff, "clock_off", 3.0, "correct the clock of the host that writes the logs, or the time zone in the format of {}"),
    row(Cause::ApplicationWritesLate, "application_writes_late", 3.0, "look for buffering in the logger of the application that writes {}"),
    row(Cause::ParseFailures, "parse_failures", 3.0, "compare the format of {} with the lines: with `on_error: reject`, `millstream tap {}.rejected --format text` shows them; otherwise `millstream tap {} --format text` shows them among all lines"),
    row(Cause::OperatorFails, "operator_fails", 8.0, "correct the script of {}, or its `where`; the agent's log contains the exceptions"),
    row(Cause::ConditionHasNoResult, "condition_has_no_result", 12.0, "compare the condition of {} with the events that it receives; test for a field with `has(event.NAME)`"),
    row(Cause::MultilineMismatch, "multiline_mismatch", 3.0, "correct `multiline` of {}: many events begin with a line that cannot begin an event"),
    row(Cause::WrongEncoding, "wrong_encoding", 3.0, "set `encoding` of {} to the encoding of the writer"),
    row(Cause::LinesTooLong, "lines_too_long", 3.0, "raise `max_line` of {}, or shorten the lines"),
    row(Cause::TimesOutOfOrder, "times_out_of_order", 3.0, "let one process write each file of {}, or sort at the endpoint"),
    row(Cause::NothingWritten, "nothing_written", 8.0, "nothing to do, unless the application that {} reads should be writing"),
];

impl Cause {
    fn row(self) -> &'static Row {
        let row = &ROWS[self as usize];
        debug_assert_eq!(row.cause, self, "the rows are in the order of the variants");
        row
    }

    /// Returns the id of the cause, such as `endpoint_slow`.
    pub fn id(self) -> &'static str {
        self.row().id
    }

    /// Returns the time that the condition must hold before the cause is reported, in seconds.
    pub fn hold_seconds(self) -> f64 {
        self.row().hold_seconds
    }

    /// Returns whether the cause is about the contents of the lines.
    pub fn is_about_content(self) -> bool {
        matches!(
            self,
            Cause::ParseFailures
                | Cause::OperatorFails
                | Cause::ConditionHasNoResult
                | Cause::MultilineMismatch
                | Cause::WrongEncoding
                | Cause::LinesTooLong
                | Cause::TimesOutOfOrder
        )
    }

    /// Returns the advice for the operator. `component` is the id of the component with the cause.
    pub fn advice(self, component: &str) -> String {
        self.row().advice.replace("{}", component)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_its_row() {
        for (index, row) in ROWS.iter().enumerate() {
            assert_eq!(row.cause as usize, index);
            assert_eq!(serde_json::to_value(row.cause).unwrap(), row.id);
            assert!(row.cause.advice("web").contains("web"), "{}", row.id);
        }
    }
}
