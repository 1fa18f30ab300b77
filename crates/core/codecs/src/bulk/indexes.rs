//! Limits the number of indexes to which events are written.

use parking_lot::Mutex;
use std::collections::HashMap;

/// Time in nanoseconds without events after which an index no longer counts toward the maximum.
const FORGET_AFTER_NS: i64 = 3_600_000_000_000;

/// The indexes that recently received events, shared by all of a sink's encoders.
pub struct Indexes {
    max: usize,
    /// Time of the last event written to each index, in nanoseconds since 1970.
    used_ns: Mutex<HashMap<Vec<u8>, i64>>,
}

impl Indexes {
    /// Creates an empty set of at most `max` indexes.
    pub fn new(max: usize) -> Indexes {
        Indexes { max, used_ns: Mutex::default() }
    }

    /// Returns whether an event may be written to the index now, and if so, records the index as
    /// used.
    pub fn allow(&self, name: &[u8], now_ns: i64) -> bool {
        let mut used_ns = self.used_ns.lock();
        if let Some(used_ns) = used_ns.get_mut(name) {
            *used_ns = (*used_ns).max(now_ns);
            return true;
        }
        if used_ns.len() >= self.max {
            used_ns.retain(|_, used_ns| *used_ns > now_ns.saturating_sub(FORGET_AFTER_NS));
        }
        let is_allowed = used_ns.len() < self.max;
        if is_allowed {
            used_ns.insert(name.to_vec(), now_ns);
        }
        is_allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_bounded_and_unused_ones_are_forgotten() {
        let indexes = Indexes::new(2);
        let allow =
            |name: &str, hours: i64| indexes.allow(name.as_bytes(), hours * FORGET_AFTER_NS);
        assert_eq!([allow("a", 1), allow("b", 1), allow("c", 1)], [true, true, false]);
        assert_eq!([allow("a", 2), allow("c", 2), allow("b", 2)], [true, true, false]);
    }
}
