//! What was taken, and why something was not.

/// Why a value was not taken as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// Rejected: not a number, or infinite.
    NotFinite = 0,
    /// Rejected: a sample rate that is not above 0 and at most 1.
    SampleRate = 1,
    /// Rejected: a value that its kind does not take, or none.
    Value = 2,
    /// Rejected: no name.
    NoName = 3,
    /// Rejected: name or tags are not UTF-8.
    Utf8 = 4,
    /// In the overflow series: as many series as there may be.
    Series = 5,
    /// In the overflow series: too many tags.
    Tags = 6,
    /// In the overflow series: name too long.
    NameBytes = 7,
    /// In the overflow series: tags too long.
    TagsBytes = 8,
    /// Taken without its timestamp: too many with one.
    Timed = 9,
    /// Not in its set, which has all the members it may have.
    Members = 10,
    /// Not values but tags that had no key, of series when they were new.
    KeylessTags = 11,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 12] = [
        Reason::NotFinite,
        Reason::SampleRate,
        Reason::Value,
        Reason::NoName,
        Reason::Utf8,
        Reason::Series,
        Reason::Tags,
        Reason::NameBytes,
        Reason::TagsBytes,
        Reason::Timed,
        Reason::Members,
        Reason::KeylessTags,
    ];

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Reason::NotFinite => "not_finite",
            Reason::SampleRate => "sample_rate",
            Reason::Value => "value",
            Reason::NoName => "no_name",
            Reason::Utf8 => "utf8",
            Reason::Series => "series",
            Reason::Tags => "tags",
            Reason::NameBytes => "name_bytes",
            Reason::TagsBytes => "tags_bytes",
            Reason::Timed => "timed",
            Reason::Members => "members",
            Reason::KeylessTags => "keyless_tags",
        }
    }

    /// Whether what it counts was left out, and not only put elsewhere.
    pub fn is_rejection(self) -> bool {
        (self as u8) <= Reason::Utf8 as u8 || self == Reason::Members
    }
}

/// Numbers of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those taken, wherever they went.
    pub taken: u64,
    reasons: [u64; Reason::ALL.len()],
}

impl Counts {
    /// Those for which a reason held.
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
