//! The contents of a message, and the trait that receives them.

use millstream_series::Point;

/// Receives the contents of a message, in order. All contents are views into the message, whose
/// lifetime is `'a`.
pub trait Visit<'a> {
    /// Receives a point with one value, never `Values::Numbers`.
    fn point(&mut self, point: Point<'a>, extra: &Extra<'a>);

    /// Receives a point with several values, `Values::Numbers`, which are valid only during the
    /// call. A long list of values is split into several calls.
    fn packed(&mut self, point: &Point<'_>, extra: &Extra<'a>);

    /// Receives a DogStatsD event.
    fn event(&mut self, event: &Event<'a>);

    /// Receives a DogStatsD service check.
    fn service_check(&mut self, check: &ServiceCheck<'a>);

    /// Receives a log event of a metric server's client. Ignores it by default.
    fn log(&mut self, _log: &Log<'a>) {}

    /// Reports a part that was rejected: a line, one of several values, a point, an event, or the
    /// rest of a message. `text` is the rejected part, without its line end.
    fn fault(&mut self, fault: Fault, text: &'a [u8]);

    /// Reports an unusual part that was accepted or ignored. `text` is that part.
    fn note(&mut self, note: Note, text: &'a [u8]);
}

/// Fields of DogStatsD's origin detection, which describe where the client runs. Empty if missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    /// `c:`, the container: `ci-ID` or `in-INODE`, or both separated by a comma. Older clients send
    /// the bare id.
    pub container: &'a [u8],
    /// `e:`, data from the orchestrator: a list such as `it-false,cn-NAME,pu-UID`.
    pub external: &'a [u8],
    /// `card:`, the cardinality of the origin's tags: `none`, `low`, `orchestrator` or `high`.
    pub cardinality: &'a [u8],
}

impl Extra<'_> {
    /// No fields.
    pub const NONE: &'static Extra<'static> =
        &Extra { container: b"", external: b"", cardinality: b"" };
}

/// A DogStatsD event. Optional fields are `None` if they are missing or their value is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Title; never empty. The two characters `\n` are a line end, see
    /// [`crate::dogstatsd::unescaped`].
    pub title: &'a str,
    /// Text; may be empty. Escaped like the title.
    pub text: &'a str,
    /// Time of the event in Unix seconds.
    pub timestamp: Option<i64>,
    /// Host of the event.
    pub host: Option<&'a str>,
    /// Key by which events are grouped.
    pub aggregation_key: Option<&'a str>,
    /// `normal` or `low`.
    pub priority: Option<&'a str>,
    /// Type of program that sent the event.
    pub source: Option<&'a str>,
    /// `error`, `warning`, `info` or `success`.
    pub alert: Option<&'a str>,
    /// Tags as received: `key:value,key:value`.
    pub tags: &'a str,
    /// Origin of the event.
    pub extra: Extra<'a>,
    /// Time of arrival, copied from the argument of `parse`.
    pub arrived: u64,
}

/// The status of a service. Optional fields are `None` if they are missing or their value is not
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCheck<'a> {
    /// Name of the service; never empty.
    pub name: &'a str,
    /// 0 is OK, 1 warning, 2 critical, 3 unknown.
    pub status: u8,
    /// Time of the check in Unix seconds.
    pub timestamp: Option<i64>,
    /// Host of the service.
    pub host: Option<&'a str>,
    /// Explanation. The two characters `\n` are a line end and `m\:` is `m:`, see
    /// [`crate::dogstatsd::unescaped`].
    pub message: Option<&'a str>,
    /// Tags as received: `key:value,key:value`.
    pub tags: &'a str,
    /// Origin of the check.
    pub extra: Extra<'a>,
    /// Time of arrival, copied from the argument of `parse`.
    pub arrived: u64,
}

/// A log event of a metric server's client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// Level, such as `warn`; may be empty.
    pub level: &'a str,
    /// Name; never empty.
    pub name: &'a str,
    /// Message; may be empty.
    pub message: &'a str,
    /// Tags as received: `key=value|key=value`.
    pub tags: &'a str,
    /// Time in milliseconds since 1970, never negative.
    pub unix_ms: Option<i64>,
    /// Fields; keys are never empty.
    pub fields: Vec<(&'a str, &'a str)>,
    /// Time of arrival, copied from the argument of `parse`.
    pub arrived: u64,
}

/// Defines an enum of reasons with a list of all variants and their names in metrics.
macro_rules! reasons {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All variants, in numeric order.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// Reason why a part of a message was rejected.
    Fault {
        /// The name is missing: nothing before the first colon, or an empty string.
        NoName = "no_name",
        /// The value is missing: no colon, or nothing after it. For the metric server, an empty
        /// string.
        NoValue = "no_value",
        /// The line has no type.
        NoType = "no_type",
        /// The protocol has no such type.
        UnknownType = "unknown_type",
        /// A value is not a number. All values of the line are rejected.
        BadValue = "bad_value",
        /// The sample rate is not above 0 and at most 1.
        BadRate = "bad_rate",
        /// The timestamp is not a positive integer of seconds.
        BadTimestamp = "bad_timestamp",
        /// The lengths of an event do not match, or it has no title.
        BadEvent = "bad_event",
        /// The service check has no name, or a status other than 0 to 3.
        BadServiceCheck = "bad_service_check",
        /// The event or service check is not UTF-8. The store checks points.
        Utf8 = "utf8",
        /// The action of a metric server point is not `emit`, `reset` or `log`.
        UnknownAction = "unknown_action",
        /// An element of a point, or of an array of points, has the wrong type.
        WrongType = "wrong_type",
        /// The point has fewer than four elements.
        TooFewElements = "too_few_elements",
        /// The point has more than six elements, or the log event more than 32 fields.
        TooManyElements = "too_many_elements",
        /// The message ends within a point.
        Truncated = "truncated",
        /// The item is neither an array nor plain text. The rest of the message is skipped.
        NotArray = "not_array",
    }
}

reasons! {
    /// Kind of an unusual part that was accepted or ignored.
    Note {
        /// The protocol does not have this field. Reported once per line.
        UnknownField = "unknown_field",
        /// A field of an event or service check has a value that is not allowed. The field is
        /// ignored.
        BadField = "bad_field",
        /// A kind without timestamps (neither count nor gauge), or a change of a gauge, has a
        /// timestamp. The point is accepted without the timestamp.
        TimestampUnused = "timestamp_unused",
        /// A `ts_store` has no timestamp. It is accepted with the second of its arrival.
        NoTimestamp = "no_timestamp",
        /// A `reset` was ignored: sums continue.
        ResetIgnored = "reset_ignored",
        /// A line of plain text, which clients of the metric server send when they start.
        PlainText = "plain_text",
    }
}
