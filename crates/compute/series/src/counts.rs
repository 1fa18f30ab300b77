//! Counts of accepted values, and counts of rejected or changed values by reason.

/// Reason why a value is rejected or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[repr(u8)]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// Rejected: NaN or infinite.
    NotFinite = 0,
    /// Rejected: the sample rate is not above 0 and at most 1.
    SampleRate = 1,
    /// Rejected: the point has no value, or a value that is invalid for its kind.
    Value = 2,
    /// Rejected: the point has no name.
    NoName = 3,
    /// Rejected: the name or the tags are not UTF-8.
    Utf8 = 4,
    /// Moved to the overflow series: there are too many series.
    Series = 5,
    /// Moved to the overflow series: the point has too many tags.
    Tags = 6,
    /// Moved to the overflow series: the name is too long.
    NameBytes = 7,
    /// Moved to the overflow series: the tags are too long.
    TagsBytes = 8,
    /// Accepted without the timestamp: too many values have a timestamp.
    Timed = 9,
    /// Rejected: the set has too many members.
    Members = 10,
    /// Tags without a key, which are dropped from new series. This counts tags, not values.
    KeylessTags = 11,
    /// Rejected: a gauge beyond a limit. An overflow series is not possible, because the last
    /// values of different gauges cannot be combined.
    OverflowGauge = 12,
}

impl Reason {
    /// All reasons, in numeric order.
    pub const ALL: &[Reason] = <Reason as strum::VariantArray>::VARIANTS;

    /// Returns the reason's name in metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns whether the values were rejected, as opposed to moved or changed.
    pub fn is_rejection(self) -> bool {
        (self as u8) <= Reason::Utf8 as u8
            || matches!(self, Reason::Members | Reason::OverflowGauge)
    }
}

/// Number of accepted values, and number of rejected or changed values by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of accepted values, including values in overflow series.
    pub taken: u64,
    reasons: [u64; Reason::ALL.len()],
}

impl Counts {
    /// Returns the count for a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.reasons[reason as usize]
    }

    pub(crate) fn add(&mut self, reason: Reason, values: u64) {
        self.reasons[reason as usize] += values;
    }

    pub(crate) fn merge(&mut self, other: &Counts) {
        self.taken += other.taken;
        self.reasons.iter_mut().zip(other.reasons).for_each(|(to, from)| *to += from);
    }
}
