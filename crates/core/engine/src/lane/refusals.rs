//! Events that an endpoint rejected, which go to the sink's feed.

use super::LaneDriver;
use millstream_model::{FeedEvent, Refused};
use std::time::Duration;
use tokio::time::Instant;

/// How often a lane that waits for its feed checks it.
const FEED_LOOK: Duration = Duration::from_millis(10);

impl LaneDriver {
    /// Passes a rejected event on. The segment stays unsettled until every reader has settled the
    /// event. A payload that was encoded before the feed had a reader is reread.
    pub(super) fn pass_on(&self, refused: Refused) {
        let mut state = self.queue.lock();
        let index = refused.payload.wrapping_sub(state.first_sent) as usize;
        let Some(sent) = state.sent.get_mut(index) else { return };
        let Some(source) = sent.payload.sources.get(refused.event as usize) else {
            sent.returns = true;
            return;
        };
        let Refused { record, is_json, reason, .. } = &refused;
        let mut event = FeedEvent::refused(source, record, *is_json, reason);
        event.hold = sent.payload.hold_of(&source.id.origin, source.id.offset);
        drop(state);
        self.feed.push(event);
    }

    /// Returns when to check the feed for room again; `None` if it has room now.
    pub(super) fn feed_look(&self) -> Option<Instant> {
        self.feed.is_full().then(|| Instant::now() + FEED_LOOK)
    }
}
