//! What comes in: points, and what they are.

/// What a series is, as its client said. Series of the same name and tags but of another kind are
/// others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `counter` of the metric server: the sum since the agent started.
    Counter = 0,
    /// `rate_counter`: the sum of a period by its seconds.
    RateCounter = 1,
    /// `meter`: sum since the start, and rate of the period.
    Meter = 2,
    /// `delta_counter`: sum and rate of the period, sum since the start.
    DeltaCounter = 3,
    /// `timer`: a distribution.
    Timer = 4,
    /// `store`: the last value.
    Store = 5,
    /// `ts_store`: the last value for each timestamp of the client.
    TimedStore = 6,
    /// `histogram`: a distribution.
    Histogram = 7,
    /// `c` of DogStatsD: the sum of the period.
    Count = 8,
    /// `g` of DogStatsD: the last value.
    Gauge = 9,
    /// `ms` of DogStatsD: a distribution.
    Timing = 10,
    /// `h` of DogStatsD: a distribution.
    DogHistogram = 11,
    /// `d` of DogStatsD: a distribution.
    Distribution = 12,
    /// `s` of DogStatsD: how many different texts there were.
    Set = 13,
}

/// How the points of a series become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// They are added.
    Sum,
    /// The last one stands.
    Last,
    /// They go into a sketch.
    Sketch,
    /// Different ones are counted.
    Set,
}

impl Kind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Kind; 14] = [
        Kind::Counter,
        Kind::RateCounter,
        Kind::Meter,
        Kind::DeltaCounter,
        Kind::Timer,
        Kind::Store,
        Kind::TimedStore,
        Kind::Histogram,
        Kind::Count,
        Kind::Gauge,
        Kind::Timing,
        Kind::DogHistogram,
        Kind::Distribution,
        Kind::Set,
    ];

    /// How its points become one value.
    #[inline]
    pub fn class(self) -> Class {
        match self {
            Kind::Counter | Kind::RateCounter | Kind::Meter | Kind::DeltaCounter | Kind::Count => {
                Class::Sum
            }
            Kind::Store | Kind::TimedStore | Kind::Gauge => Class::Last,
            Kind::Timer
            | Kind::Histogram
            | Kind::Timing
            | Kind::DogHistogram
            | Kind::Distribution => Class::Sketch,
            Kind::Set => Class::Set,
        }
    }
}

/// The values of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// Of every kind but a set.
    Number(f64),
    /// Several that the client packed into one point, of every kind but a set.
    Numbers(&'a [f64]),
    /// What is added to a gauge that has a value already, 0 if it has none.
    Change(f64),
    /// A member of a set.
    Member(&'a [u8]),
}

/// One point, as a parser found it: views into what was received.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// What kind of series it belongs to.
    pub kind: Kind,
    /// The metric's name.
    pub name: &'a [u8],
    /// Its tags as they arrived, in the syntax of the shard; may be empty.
    pub tags: &'a [u8],
    /// Its values. Those that do not fit the kind are rejected.
    pub values: Values<'a>,
    /// Which part of the client's points arrives, above 0 and at most 1: sums and distributions are
    /// weighed with its inverse.
    pub sample_rate: f64,
    /// The client's timestamp in Unix seconds. Only sums and last values heed it.
    pub timestamp: Option<i64>,
    /// When it arrived, in any unit that grows from point to point of all shards, at most
    /// [`ARRIVED_MAX`]: of several last values the latest stands.
    pub arrived: u64,
}

/// Largest arrival that is told apart: in nanoseconds since 1970 it lasts until the year 2116.
pub const ARRIVED_MAX: u64 = (1 << 62) - 1;
