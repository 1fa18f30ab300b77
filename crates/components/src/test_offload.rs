//! The `test_offload` transform, for tests of the engine with the real program: an offload
//! transform that can be slow, hang and panic. Only builds with the `test-components` feature
//! include it.

use crate::component::{BuildCx, Component, TransformComponent};
use millstream_model::{
    Batch, BuildError, ComponentError, Interval, Now, Offload, Outputs, Transform,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options for the `test_offload` transform.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestOffloadConfig {
    /// Duration of each call.
    pub delay: Option<Interval>,
    /// File whose existence makes calls hang.
    pub hang_while: Option<PathBuf>,
    /// Text in an event that makes the call panic.
    pub panic_on: Option<String>,
    /// Maximum time of a call.
    pub deadline: Option<Interval>,
    /// Maximum number of concurrent calls.
    #[serde(default = "one")]
    pub concurrency: usize,
    /// Number of events that each event becomes.
    #[serde(default = "one_event")]
    pub copies: u32,
    /// Whether events pass after their call exceeded the deadline; otherwise they are dropped.
    #[serde(default)]
    pub pass_expired: bool,
}

fn one() -> usize {
    1
}

fn one_event() -> u32 {
    1
}

/// Interval at which a hanging call checks whether the file still exists.
const HANG_LOOK: Duration = Duration::from_millis(10);

impl Component for TestOffloadConfig {}

impl TransformComponent for TestOffloadConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        Ok(Transform::Offload(Arc::new(TestOffload(self.clone()))))
    }
}

struct TestOffload(TestOffloadConfig);

impl TestOffload {
    fn panics_on(&self, batch: &Batch) -> bool {
        let Some(text) = &self.0.panic_on else { return false };
        let has_text = |row| memchr::memmem::find(batch.text(row), text.as_bytes()).is_some();
        (0..batch.rows()).any(|row| batch.is_selected(row) && has_text(row))
    }
}

impl Offload for TestOffload {
    fn concurrency(&self) -> usize {
        self.0.concurrency
    }

    fn deadline(&self) -> Option<Duration> {
        self.0.deadline.map(|deadline| deadline.0)
    }

    fn apply(
        &self,
        _: Now,
        batches: Vec<Batch>,
        outputs: &mut [Outputs],
    ) -> Result<(), ComponentError> {
        self.0.delay.iter().for_each(|delay| std::thread::sleep(delay.0));
        while self.0.hang_while.as_ref().is_some_and(|path| path.exists()) {
            std::thread::sleep(HANG_LOOK);
        }
        assert!(!batches.iter().any(|batch| self.panics_on(batch)), "asked for by panic_on");
        for (batch, out) in batches.into_iter().zip(outputs) {
            let copies = vec![self.0.copies; batch.rows()];
            out.send(0, if self.0.copies == 1 { batch } else { batch.repeat(&copies) });
        }
        Ok(())
    }

    fn expired(&self, batch: Batch, out: &mut Outputs) {
        match self.0.pass_expired {
            true => out.send(0, batch),
            false => out.counters.dropped("deadline", batch.events() as u64),
        }
    }
}
