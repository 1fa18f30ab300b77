//! Results of a merge transform, from the end of their window until every sink has settled them.

use crate::feed::{Feed, FeedEvent};
use crate::sink::LaneCx;
use std::collections::VecDeque;
use std::sync::Arc;

/// The results that at least one sink has not settled. Every snapshot of the transform contains
/// them. A result is passed to the feed once a snapshot that contains it is committed. A crash
/// before that commit would undo the end of the window, and the window could then end with another
/// result.
pub struct Results<T> {
    feed: Arc<Feed>,
    is_committed: Arc<dyn Fn() -> bool + Send + Sync>,
    list: VecDeque<T>,
    /// Number of the first result in the list.
    first: u64,
    /// Number of the first result that is not in the feed.
    passed: u64,
    /// Number of the first result that is in no snapshot.
    saved: u64,
}

impl<T> Results<T> {
    /// Restores the results in a committed snapshot, where `first` is the number of the first
    /// result, and starts the feed. If there is no snapshot, `list` is empty.
    pub fn open(cx: &LaneCx, list: VecDeque<T>, first: u64) -> Results<T> {
        let number_min = cx.feed.number_min();
        // If the snapshot is outdated or missing, these numbers were already used for other
        // results.
        let is_outdated = first + (list.len() as u64) < number_min;
        let first = if is_outdated { number_min } else { first };
        cx.feed.start(first);
        Results {
            passed: cx.feed.next_number(),
            saved: first + list.len() as u64,
            feed: cx.feed.clone(),
            is_committed: cx.is_committed.clone(),
            list,
            first,
        }
    }

    /// Adds a result.
    pub fn push(&mut self, result: T) {
        self.list.push_back(result);
    }

    /// Returns the results that the next snapshot needs, with the number of the first one. Removes
    /// the results that every sink has settled.
    pub fn unsettled(&mut self) -> (u64, &VecDeque<T>) {
        let settled = self.feed.first().unwrap_or_default().saturating_sub(self.first);
        let settled = settled.min(self.list.len() as u64);
        self.list.drain(..settled as usize);
        self.first += settled;
        (self.first, &self.list)
    }

    /// Returns the number of the first result that at least one sink has not settled.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Returns the number of the next result.
    pub fn next(&self) -> u64 {
        self.first + self.list.len() as u64
    }

    /// Returns the number of the first result that is not in the feed yet.
    pub fn passed(&self) -> u64 {
        self.passed
    }

    /// Returns the results that are in no snapshot yet.
    pub fn unsaved(&self) -> impl Iterator<Item = &T> {
        self.list.iter().skip(self.saved.saturating_sub(self.first) as usize)
    }

    /// Records that all results so far are in a snapshot, which will be committed soon.
    pub fn saved(&mut self) {
        self.saved = self.next();
    }

    /// Returns whether any results are in no snapshot yet.
    pub fn are_unsaved(&self) -> bool {
        self.saved < self.next()
    }

    /// Passes the results in committed snapshots to the feed; returns whether the feed then
    /// contains all results.
    pub fn pass_on(&mut self, event: impl Fn(u64, &T) -> FeedEvent) -> bool {
        if self.passed < self.saved && (self.is_committed)() {
            for number in self.passed.max(self.first)..self.saved {
                let result = &self.list[(number - self.first) as usize];
                self.feed.push(event(number, result));
            }
            self.passed = self.saved;
        }
        self.passed == self.next()
    }
}
