//! Points and the kinds of series.

/// The kind of a series, as the client reports it. Points with the same name and tags but different
/// kinds belong to different series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, strum::VariantArray)]
#[repr(u8)]
pub enum Kind {
    /// The metric server's `counter`: the sum since the agent started.
    Counter = 0,
    /// `rate_counter`: the sum of the period, divided by its length in seconds.
    RateCounter = 1,
    /// `meter`: the sum since the agent started, and the rate of the period.
    Meter = 2,
    /// `delta_counter`: the sum and rate of the period, and the sum since the agent started.
    DeltaCounter = 3,
    /// `timer`: a distribution.
    Timer = 4,
    /// `store`: the last value.
    Store = 5,
    /// `ts_store`: the last value for each client timestamp.
    TimedStore = 6,
    /// `histogram`: a distribution.
    Histogram = 7,
    /// DogStatsD's `c`: the sum of the period.
    Count = 8,
    /// DogStatsD's `g`: the last value.
    Gauge = 9,
    /// DogStatsD's `ms`: a distribution.
    Timing = 10,
    /// DogStatsD's `h`: a distribution.
    DogHistogram = 11,
    /// DogStatsD's `d`: a distribution.
    Distribution = 12,
    /// DogStatsD's `s`: the number of distinct strings.
    Set = 13,
}

/// How the points of a series are aggregated.
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
    /// All kinds, in numeric order.
    pub const ALL: &[Kind] = <Kind as strum::VariantArray>::VARIANTS;

    /// Returns how points of this kind are aggregated.
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

    /// Returns the name of the overflow series, which receives points beyond a limit, or `None` for
    /// gauges. Aggregates of different kinds can have the same name but a different meaning, so the
    /// overflow series of each kind needs a different name.
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

/// Name of the overflow series for counts.
pub const OVERFLOW_NAME: &[u8] = b"millstream.overflow";

/// The values of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Values<'a> {
    /// A number, for any kind except a set.
    Number(f64),
    /// Several numbers that the client packed into one point, for any kind except a set.
    Numbers(&'a [f64]),
    /// A change to a gauge. A gauge without a value starts at 0.
    Change(f64),
    /// A member of a set.
    Member(&'a [u8]),
}

/// A parsed point, whose slices are in the received message.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// Kind of the series to which the point belongs.
    pub kind: Kind,
    /// The metric's name.
    pub name: &'a [u8],
    /// The text of the tags as it arrived, in the syntax of the shard. May be empty.
    pub tags: &'a [u8],
    /// The values. Values that are invalid for the kind are rejected.
    pub values: Values<'a>,
    /// Fraction of the client's points that it sends, above 0 and at most 1. Sums and distributions
    /// are weighted by its inverse.
    pub sample_rate: f64,
    /// The client's timestamp in Unix seconds. Used only for sums and last values.
    pub timestamp: Option<i64>,
    /// Arrival on a clock that all shards share, in any unit, at most [`ARRIVED_MAX`]. For last
    /// values, the latest arrival wins.
    pub arrived: u64,
}

/// Maximum arrival. Later arrivals are treated as equal. In nanoseconds since 1970, it is in the
/// year 2116.
pub const ARRIVED_MAX: u64 = (1 << 62) - 1;
