//! Round-robin queue of files to read, in which all rotated files share one turn.
//!
//! A busy writer with a slow sink leaves dozens of unread rotated files. If each had a turn, the
//! other files would wait for all of them.

use crate::tail::Tail;
use millstream_model::OriginId;
use std::collections::VecDeque;

/// Queue of files to read.
#[derive(Default)]
pub(super) struct ReadQueue {
    live: VecDeque<OriginId>,
    rotated: VecDeque<OriginId>,
    /// Number of live files to read before the next rotated one.
    before_rotated: usize,
}

/// Queue class of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// A live file: has its own turn.
    Live,
    /// A rotated file: shares one turn with all others.
    Rotated,
}

impl Share {
    /// Returns the class of a file.
    pub(super) fn of(tail: &Tail) -> Share {
        if tail.is_rotated() { Share::Rotated } else { Share::Live }
    }
}

impl ReadQueue {
    /// Whether the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty() && self.rotated.is_empty()
    }

    /// Returns the number of files.
    pub(super) fn len(&self) -> usize {
        self.live.len() + self.rotated.len()
    }

    /// Frees the memory of files that were read.
    pub(super) fn shrink(&mut self) {
        self.live.shrink_to(2 * self.live.len());
        self.rotated.shrink_to(2 * self.rotated.len());
    }

    /// Appends a file to its class.
    pub(super) fn push_back(&mut self, id: OriginId, share: Share) {
        match share {
            Share::Live => self.live.push_back(id),
            Share::Rotated => self.rotated.push_back(id),
        }
    }

    /// Returns the file that was popped last to the front.
    pub(super) fn push_front(&mut self, id: OriginId, share: Share) {
        match share {
            Share::Live => {
                self.live.push_front(id);
                self.before_rotated += 1;
            }
            Share::Rotated => {
                self.rotated.push_front(id);
                self.before_rotated = 0;
            }
        }
    }

    /// Pops the next file.
    pub(super) fn pop_front(&mut self) -> Option<OriginId> {
        if self.live.is_empty() || self.before_rotated == 0 && !self.rotated.is_empty() {
            self.before_rotated = self.live.len();
            return self.rotated.pop_front();
        }
        self.before_rotated = self.before_rotated.saturating_sub(1);
        self.live.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pops `count` files, and queues each again.
    fn take(queue: &mut ReadQueue, count: usize, share: impl Fn(OriginId) -> Share) -> Vec<u64> {
        let mut popped = Vec::new();
        for _ in 0..count {
            let id = queue.pop_front().unwrap();
            queue.push_back(id, share(id));
            popped.push(id.0);
        }
        popped
    }

    fn share(id: OriginId) -> Share {
        if id.0 < 100 { Share::Live } else { Share::Rotated }
    }

    fn queue(ids: &[u64]) -> ReadQueue {
        let mut queue = ReadQueue::default();
        ids.iter().map(|id| OriginId(*id)).for_each(|id| queue.push_back(id, share(id)));
        queue
    }

    #[test]
    fn rotated_files_share_one_turn_round_robin() {
        let mut queue = queue(&[1, 100, 101, 102, 2]);
        assert_eq!(take(&mut queue, 9, share), [100, 1, 2, 101, 1, 2, 102, 1, 2]);
    }

    #[test]
    fn rotated_files_get_every_turn_while_no_live_file_is_due() {
        let mut queue = queue(&[100, 101]);
        assert_eq!(take(&mut queue, 4, share), [100, 101, 100, 101]);
        assert!(!queue.is_empty());
    }

    /// A poll under backpressure pops every file and pushes all of them back.
    #[test]
    fn files_pushed_back_keep_their_order() {
        let mut queue = queue(&[1, 2, 3, 100, 101, 102]);
        assert_eq!(take(&mut queue, 2, share), [100, 1]);
        let mut blocked = Vec::new();
        while let Some(id) = queue.pop_front() {
            blocked.push(id);
        }
        blocked.iter().rev().for_each(|id| queue.push_front(*id, share(*id)));
        assert_eq!(take(&mut queue, 8, share), [2, 3, 101, 1, 2, 3, 102, 1]);
    }
}
