//! Costs of work that runs in steps.

/// Cost of adding, looking up or removing an entry, in units of the cost of one known series.
pub const LOOKUP_WORK: usize = 8;
