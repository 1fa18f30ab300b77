//! The contents of a message, and the trait that receives them.

use millstream_series::Point;

/// Receives the contents of a message in order. All contents borrow from the message, whose
/// lifetime is `'a`.
pub trait Visit<'a> {
    /// Receives a point with one value. The values are never `Values::Numbers`.
    fn point(&mut self, point: Point<'a>, extra: &Extra<'a>);

    /// Receives a point with several values, `Values::Numbers`, which are valid only during the
    /// call. A long list of values is split over several calls.
    fn packed(&mut self, point: &Point<'_>, extra: &Extra<'a>);

    /// Receives a DogStatsD event.
    fn event(&mut self, event: &Event<'a>);

    /// Receives a DogStatsD service check.
    fn service_check(&mut self, check: &ServiceCheck<'a>);

    /// Receives a log event from a metric server client. The default implementation ignores it.
    fn log(&mut self, _log: &Log<'a>) {}

    /// Reports a part that was rejected: a line, one of several values, a point, an event, or the
    /// rest of a message. `text` is the rejected part without its line ending.
    fn fault(&mut self, fault: Fault, text: &'a [u8]);

    /// Reports an unusual part that was accepted or ignored. `text` is the part.
    fn note(&mut self, note: Note, text: &'a [u8]);
}

/// DogStatsD origin detection fields, which describe where the client runs. Empty if missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    /// The `c:` field: the container as `ci-ID` or `in-INODE`, or both separated by a comma. Older
    /// clients send only the id.
    pub container: &'a [u8],
    /// The `e:` field: data from the orchestrator, as a list such as `it-false,cn-NAME,pu-UID`.
    pub external: &'a [u8],
    /// The `card:` field: the cardinality of the origin's tags, which is `none`, `low`,
    /// `orchestrator` or `high`.
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
    /// The title, which is never empty. The two characters `\n` represent a newline (see
    /// [`crate::dogstatsd::unescaped`]).
    pub title: &'a str,
    /// The text, which can be empty. It is escaped like the title.
    pub text: &'a str,
    /// Time of the event in Unix seconds.
    pub timestamp: Option<i64>,
    /// The host to which the event belongs.
    pub host: Option<&'a str>,
    /// The key by which events are grouped.
    pub aggregation_key: Option<&'a str>,
    /// `normal` or `low`.
    pub priority: Option<&'a str>,
    /// The type of program that sent the event.
    pub source: Option<&'a str>,
    /// `error`, `warning`, `info` or `success`.
    pub alert: Option<&'a str>,
    /// Tags as received: `key:value,key:value`.
    pub tags: &'a str,
    /// Origin of the event.
    pub extra: Extra<'a>,
    /// Arrival time, copied from the argument of `parse`.
    pub arrived: u64,
}

/// The status of a service. Optional fields are `None` if they are missing or their value is not
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCheck<'a> {
    /// Name of the service check, which is never empty.
    pub name: &'a str,
    /// 0 is OK, 1 is warning, 2 is critical, and 3 is unknown.
    pub status: u8,
    /// Time of the check in Unix seconds.
    pub timestamp: Option<i64>,
    /// The host to which the check belongs.
    pub host: Option<&'a str>,
    /// Explanation of the status. The two characters `\n` represent a newline, and `m\:` represents
    /// `m:` (see [`crate::dogstatsd::unescaped`]).
    pub message: Option<&'a str>,
    /// Tags as received: `key:value,key:value`.
    pub tags: &'a str,
    /// Origin of the check.
    pub extra: Extra<'a>,
    /// Arrival time, copied from the argument of `parse`.
    pub arrived: u64,
}

/// A log event from a metric server client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log<'a> {
    /// The level, such as `warn`. May be empty.
    pub level: &'a str,
    /// The name, which is never empty.
    pub name: &'a str,
    /// The message, which can be empty.
    pub message: &'a str,
    /// Tags as received: `key=value|key=value`.
    pub tags: &'a str,
    /// Time in milliseconds since 1970. Never negative.
    pub unix_ms: Option<i64>,
    /// The fields as pairs of key and value. Keys are never empty.
    pub fields: Vec<(&'a str, &'a str)>,
    /// Arrival time, copied from the argument of `parse`.
    pub arrived: u64,
}

/// Defines an enum of reasons, with a list of all variants and their names in metrics.
macro_rules! reasons {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All variants, in numeric order.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Returns the reason's name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// The reason why a part of a message was rejected.
    Fault {
        /// The name is missing: there is nothing before the first colon, or the string is empty.
        NoName = "no_name",
        /// The value is missing: there is no colon, or nothing after it. In the metric server's
        /// protocol, the string is empty.
        NoValue = "no_value",
        /// The line has no type.
        NoType = "no_type",
        /// The protocol does not define this type.
        UnknownType = "unknown_type",
        /// A value is not a number. All values of the line are rejected.
        BadValue = "bad_value",
        /// The sample rate is not above 0, or it is above 1.
        BadRate = "bad_rate",
        /// The timestamp is not a positive integer in seconds.
        BadTimestamp = "bad_timestamp",
        /// The lengths in an event do not match, or the event has no title.
        BadEvent = "bad_event",
        /// The service check has no name, or a status other than 0 to 3.
        BadServiceCheck = "bad_service_check",
        /// The event or service check is not UTF-8. Points are checked by the store.
        Utf8 = "utf8",
        /// The action of a metric server point is not `emit`, `reset` or `log`.
        UnknownAction = "unknown_action",
        /// An element of a point, or of a point array, has the wrong type.
        WrongType = "wrong_type",
        /// The point has fewer than four elements.
        TooFewElements = "too_few_elements",
        /// The point has more than six elements, or the log event more than 32 fields.
        TooManyElements = "too_many_elements",
        /// The message ends inside a point.
        Truncated = "truncated",
        /// The item is neither an array nor plain text. The rest of the message is skipped.
        NotArray = "not_array",
    }
}

reasons! {
    /// The kind of an unusual part that was accepted or ignored.
    Note {
        /// The protocol does not define this field. Reported once per line.
        UnknownField = "unknown_field",
        /// A field of an event or service check has a value that is not allowed. The field is
        /// ignored.
        BadField = "bad_field",
        /// There is a timestamp, but the kind is neither count nor gauge, or the point is a change
        /// of a gauge. The point is accepted without the timestamp.
        TimestampUnused = "timestamp_unused",
        /// A `ts_store` has no timestamp. The point is accepted with the second of its arrival.
        NoTimestamp = "no_timestamp",
        /// A `reset` was ignored. Sums continue.
        ResetIgnored = "reset_ignored",
        /// A line of plain text, which metric server clients send when they start.
        PlainText = "plain_text",
    }
}
