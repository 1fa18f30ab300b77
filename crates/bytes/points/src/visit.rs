//! What a message has, and who is told.

use millstream_series::Point;

/// Who is told what a message has, in its order. `'a` is the message's: what is told are views into
/// it.
pub trait Visit<'a> {
    /// A point with one value: never `Values::Numbers`.
    fn point(&mut self, point: Point<'a>, extra: &Extra<'a>);

    /// A point with several values, `Values::Numbers`, which last for the call only. Many values
    /// come in several calls.
    fn packed(&mut self, point: &Point<'_>, extra: &Extra<'a>);

    /// An event of DogStatsD.
    fn event(&mut self, event: &Event<'a>);

    /// A service check of DogStatsD.
    fn service_check(&mut self, check: &ServiceCheck<'a>);

    /// Something that was left out: a line, one of several values, a point, an event, the rest of a
    /// message. `text` is what it was, without its line end.
    fn fault(&mut self, fault: Fault, text: &'a [u8]);

    /// Something that was taken, or means nothing, and is not as it should be. `text` is the part
    /// in question.
    fn note(&mut self, note: Note, text: &'a [u8]);
}

/// What a client of DogStatsD says of where it runs. All empty where it says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extra<'a> {
    /// `c:`, its container: `ci-ID` or `in-INODE`, or both with a comma; of older clients the bare
    /// id.
    pub container: &'a [u8],
    /// `e:`, what the orchestrator had it say: a list such as `it-false,cn-NAME,pu-UID`.
    pub external: &'a [u8],
    /// `card:`, which tags of its origin it wants: `none`, `low`, `orchestrator` or `high`.
    pub cardinality: &'a [u8],
}

impl Extra<'_> {
    /// Nothing.
    pub const NONE: &'static Extra<'static> =
        &Extra { container: b"", external: b"", cardinality: b"" };
}

/// Something that happened. Options are `None` where the client says nothing, or what is not
/// allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Never empty. `\n` in it, as two characters, is a line end: see
    /// [`crate::dogstatsd::unescaped`].
    pub title: &'a str,
    /// The same of the text, which may be empty.
    pub text: &'a str,
    /// When it happened, in Unix seconds.
    pub timestamp: Option<i64>,
    /// Where it happened.
    pub host: Option<&'a str>,
    /// What groups it with others.
    pub aggregation_key: Option<&'a str>,
    /// `normal` or `low`.
    pub priority: Option<&'a str>,
    /// What kind of program it comes from.
    pub source: Option<&'a str>,
    /// `error`, `warning`, `info` or `success`.
    pub alert: Option<&'a str>,
    /// As they arrived, `key:value,key:value`.
    pub tags: &'a str,
    /// Where the client runs.
    pub extra: Extra<'a>,
    /// As it was given for the message.
    pub arrived: u64,
}

/// How a service is. Options are `None` where the client says nothing, or what is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceCheck<'a> {
    /// Never empty.
    pub name: &'a str,
    /// 0 is well, 1 a warning, 2 critical, 3 unknown.
    pub status: u8,
    /// When that was, in Unix seconds.
    pub timestamp: Option<i64>,
    /// Where that was.
    pub host: Option<&'a str>,
    /// Why. `\n` in it is a line end and `m\:` is `m:`: see [`crate::dogstatsd::unescaped`].
    pub message: Option<&'a str>,
    /// As they arrived, `key:value,key:value`.
    pub tags: &'a str,
    /// Where the client runs.
    pub extra: Extra<'a>,
    /// As it was given for the message.
    pub arrived: u64,
}

/// An enum whose variants are reasons: with all of them in a list, and their names in metrics.
macro_rules! reasons {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Its name in metrics.
            pub fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $text,)*
                }
            }
        }
    };
}

reasons! {
    /// Why something was left out.
    Fault {
        /// No name: nothing before the first colon, or an empty text.
        NoName = "no_name",
        /// No value: no colon, or nothing behind it; of the metric server an empty text.
        NoValue = "no_value",
        /// A line without a type.
        NoType = "no_type",
        /// A type that the protocol does not have.
        UnknownType = "unknown_type",
        /// A value that is no number. Of several values the others are taken.
        BadValue = "bad_value",
        /// A sample rate that is not above 0 and at most 1.
        BadRate = "bad_rate",
        /// A timestamp that is no whole number of seconds above 0.
        BadTimestamp = "bad_timestamp",
        /// An event whose lengths do not fit it, or without a title.
        BadEvent = "bad_event",
        /// A service check without a name, or with a status that is none of 0 to 3.
        BadServiceCheck = "bad_service_check",
        /// An event or service check that is not UTF-8. Points are checked by the store.
        Utf8 = "utf8",
        /// A point of the metric server whose action is neither `emit` nor `reset`.
        UnknownAction = "unknown_action",
        /// An element of a point, or of an array of points, of a type that does not belong there.
        WrongType = "wrong_type",
        /// A point of fewer than four elements.
        TooFewElements = "too_few_elements",
        /// A point of more than six elements.
        TooManyElements = "too_many_elements",
        /// A message that ends within a point.
        Truncated = "truncated",
        /// What is neither an array nor plain text; the rest of the message is left out.
        NotArray = "not_array",
    }
}

reasons! {
    /// What was taken, or means nothing, and is not as it should be.
    Note {
        /// A field that the protocol does not have; said once for each line.
        UnknownField = "unknown_field",
        /// A field of an event or a service check with a value that is not allowed: left out.
        BadField = "bad_field",
        /// A timestamp of a kind that has none, neither count nor gauge, or of a change of a gauge:
        /// the point was taken without it.
        TimestampUnused = "timestamp_unused",
        /// A `ts_store` without a timestamp: it was taken with the second of its arrival.
        NoTimestamp = "no_timestamp",
        /// A `reset`, which does nothing: sums go on.
        ResetIgnored = "reset_ignored",
        /// A line of plain text, as clients of the metric server send when they start.
        PlainText = "plain_text",
    }
}
