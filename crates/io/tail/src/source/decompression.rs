//! Limits decompression to one file at a time, which bounds the memory use.

use millstream_model::OriginId;
use std::collections::VecDeque;

/// The file that is being decompressed, and the files that are waiting for their turn.
#[derive(Default)]
pub(super) struct Decompression {
    current: Option<OriginId>,
    waiting: VecDeque<OriginId>,
}

impl Decompression {
    /// Returns whether the file may be read now. If another file is being decompressed, this file
    /// has to wait.
    pub(super) fn admit(&mut self, id: OriginId) -> bool {
        let is_current = *self.current.get_or_insert(id) == id;
        if !is_current {
            self.waiting.push_back(id);
        }
        is_current
    }

    /// Passes the turn of a file that is waiting for sinks to the first waiting file that
    /// `is_readable`; returns that file. The file that lost its turn joins the end of the queue.
    /// Returns `None` if the turn is not passed on.
    pub(super) fn pass_on(
        &mut self,
        id: OriginId,
        mut is_readable: impl FnMut(OriginId) -> bool,
    ) -> Option<OriginId> {
        let current = self.current.filter(|current| *current == id)?;
        let index = self.waiting.iter().position(|waiting| is_readable(*waiting))?;
        let next = self.waiting.remove(index)?;
        self.waiting.push_back(current);
        self.current = Some(next);
        Some(next)
    }

    /// Records that a file was read to its end, or was closed; returns the waiting file to read
    /// next, if the file had its turn.
    pub(super) fn finish(&mut self, id: OriginId) -> Option<OriginId> {
        self.current.take_if(|current| *current == id)?;
        self.waiting.pop_front()
    }

    /// Removes a closed file from the list of waiting files.
    pub(super) fn remove(&mut self, id: OriginId) {
        self.waiting.retain(|waiting| *waiting != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_is_decompressed_at_a_time() {
        let mut decompression = Decompression::default();
        assert!(decompression.admit(OriginId(1)));
        assert!(!decompression.admit(OriginId(2)));
        assert!(!decompression.admit(OriginId(3)));
        assert!(decompression.admit(OriginId(1)), "the current file is read in several polls");
        assert_eq!(decompression.finish(OriginId(2)), None, "a waiting file ends no decompression");
        assert_eq!(decompression.finish(OriginId(1)), Some(OriginId(2)));
        assert!(decompression.admit(OriginId(2)));
    }

    #[test]
    fn a_file_that_waits_for_sinks_passes_its_turn_on() {
        let mut decompression = Decompression::default();
        for id in [1, 2, 3] {
            decompression.admit(OriginId(id));
        }
        assert_eq!(decompression.pass_on(OriginId(2), |_| true), None, "it has no turn");
        assert_eq!(decompression.pass_on(OriginId(1), |_| false), None);
        assert_eq!(decompression.pass_on(OriginId(1), |id| id.0 == 3), Some(OriginId(3)));
        assert!(decompression.admit(OriginId(3)));
        assert_eq!(decompression.finish(OriginId(3)), Some(OriginId(2)));
        assert!(decompression.admit(OriginId(2)));
        assert_eq!(decompression.finish(OriginId(2)), Some(OriginId(1)));
    }

    #[test]
    fn a_closed_file_is_not_read_next() {
        let mut decompression = Decompression::default();
        for id in [1, 2, 3] {
            decompression.admit(OriginId(id));
        }
        decompression.remove(OriginId(2));
        assert_eq!(decompression.finish(OriginId(1)), Some(OriginId(3)));
        assert_eq!(decompression.finish(OriginId(3)), None, "the file is not admitted yet");
    }
}
