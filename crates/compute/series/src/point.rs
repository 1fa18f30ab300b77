//! Points, and the kinds of series.

/// Kind of a series, as reported by the client. Points with the same name and tags but different
/// kinds belong to different series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `counter` of the metric server: the sum since the agent started.
    Counter = 0,
    /// `rate_counter`: the sum of a period divided by its seconds.
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
    /// `s` of DogStatsD: the number of distinct texts.
    Set = 13,
}

/// Aggregation of the points of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Values are added.
    Sum,
    /// The last value is kept.
    Last,
    /// Values are added to a sketch.
    Sketch,
    /// Distinct members are counted.
    Set,
}

impl Kind {
    /// All kinds in numeric order.
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

    /// Returns the way in which points of this kind are aggregated.
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

    /// Returns the name of the overflow series, which gets the points beyond a limit; `None` for
    /// gauges. Series of different kinds have aggregates with the same name but another meaning, so
    /// their overflow series need different names too.
    pub fn overflow_name(self) -> Option<&'static [u8]> {
        Some(match self {
            Kind::Count => OVERFLOW_NAME,
            Kind::Counter => b"millstream.overflow.counter",
            Kind::RateCounter => b"millstream.overflow.rate_counter",
            Kind::Meter => b"millstream.overflow.meter",
            Kind::DeltaCounter => b"millstream.overflow.delta_counter",
            Kind::Timer => b"millstream.overflow.timer",
            Kind::Histogram | Kind::DogHistogram => b"millstream.overflow.histogram",
            Kind::Timing => b"millstream.overflow.timing",
            Kind::Distribution => b"millstream.overflow.distribution",
            Kind::Set => b"millstream.overflow.set",
            Kind::Store | Kind::TimedStore | Kind::Gauge => return None,
        })
    }
}

/// Name of the overflow series of counts.
pub const OVERFLOW_NAME: &[u8] = b"millstream.overflow";

/// The values of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// A number, for every kind except a set.
    Number(f64),
    /// Several numbers that the client packed into one point, for every kind except a set.
    Numbers(&'a [f64]),
    /// A change of a gauge; a gauge without a value starts from 0.
    Change(f64),
    /// A member of a set.
    Member(&'a [u8]),
}

/// A parsed point, with slices of the received message.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Kind of the point's series.
    pub kind: Kind,
    /// The metric's name.
    pub name: &'a [u8],
    /// Tags in their text of arrival, in the syntax of the shard; may be empty.
    pub tags: &'a [u8],
    /// Values of the point. Values that are invalid for the kind are rejected.
    pub values: Values<'a>,
    /// Fraction of the client's points that is sent, above 0 and at most 1. Sums and distributions
    /// are weighted with the inverse.
    pub sample_rate: f64,
    /// The client's timestamp in Unix seconds. Only sums and last values use it.
    pub timestamp: Option<i64>,
    /// Arrival on a clock shared by all shards, in any unit, at most [`ARRIVED_MAX`]. Among last
    /// values, the latest arrival wins.
    pub arrived: u64,
}

/// Maximum arrival that is distinguished. In nanoseconds since 1970, this is in the year 2116.
pub const ARRIVED_MAX: u64 = (1 << 62) - 1;
