//! How a lane ends before the agent does: a reload takes its sink out.

use super::LaneQueue;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How far a lane is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    Runs,
    /// It tries no longer, and gives back what it has.
    LetGo,
    /// It has nothing left, and its sink may be opened elsewhere.
    Ended,
}

impl LaneQueue {
    /// Ends the lane without delivering what it has: that is returned. A call to the sink that is under
    /// way is waited for, because what it writes late would come between the writes of a successor.
    pub fn let_go(&self) {
        self.phase.send_if_modified(|phase| {
            let runs = *phase == Phase::Runs;
            *phase = if runs { Phase::LetGo } else { *phase };
            runs
        });
        self.close();
    }

    pub(super) fn is_let_go(&self) -> bool {
        *self.phase.borrow() >= Phase::LetGo
    }

    pub(super) async fn letting_go(&self) {
        // Fails only without a sender, which is here.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::LetGo).await;
    }

    /// Whether the lane has ended.
    pub fn has_ended(&self) -> bool {
        *self.phase.borrow() == Phase::Ended
    }

    /// Waits until the lane has ended.
    pub async fn ended(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Ended).await;
    }

    /// Whether the lane delivers, as far as is known.
    pub fn gets_on(&self) -> bool {
        self.started.load(Ordering::Relaxed) && self.lock().trouble.is_none()
    }

    /// Notes that the lane has nothing left.
    pub(super) fn end(&self) {
        self.phase.send_replace(Phase::Ended);
    }

    /// Waits until the lanes `before` have ended, or this one is to end itself.
    pub(super) async fn wait_for(&self, before: &[Arc<LaneQueue>]) {
        for lane in before {
            tokio::select! {
                () = lane.ended() => {}
                () = self.letting_go() => {}
            }
        }
    }
}
