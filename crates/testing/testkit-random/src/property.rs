//! The configuration of a property of `proptest`.

use crate::{Seed, Size};
use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, PersistedSeed, RngSeed,
};
use std::any::Any;
use std::fmt::Debug;
use std::panic::Location;
use std::sync::Arc;

/// Most values that a property may refuse, times its cases. `proptest`'s own limit is for 256.
const REFUSED_PER_CASE_MAX: u32 = 4;

/// Returns the configuration of a property with as many cases, for `#![proptest_config(…)]`.
///
/// One seed begins the values of all cases: a failure is replayed with it and the same `SOAK`.
/// Regressions that `proptest` saved beside the test are played first; new ones are not saved, as
/// the seed is printed.
#[track_caller]
pub fn property(cases: Size) -> Config {
    let seed = Seed::of_test_at(Location::caller());
    let cases = u32::try_from(cases.get()).unwrap_or(u32::MAX);
    let defaults = Config::default();
    seed.count(cases.into());
    Config {
        cases,
        max_global_rejects: cases
            .saturating_mul(REFUSED_PER_CASE_MAX)
            .max(defaults.max_global_rejects),
        rng_seed: RngSeed::Fixed(seed.value()),
        failure_persistence: Some(Box::new(OfProperty(Arc::new(seed)))),
        ..defaults
    }
}

/// Holds the seed for as long as the test has its configuration: `proptest` has no other place
/// that is dropped at the end of a test.
#[derive(Clone, Debug)]
struct OfProperty(Arc<Seed>);

impl FailurePersistence for OfProperty {
    fn load_persisted_failures2(&self, source: Option<&'static str>) -> Vec<PersistedSeed> {
        FileFailurePersistence::WithSource("proptest-regressions").load_persisted_failures2(source)
    }

    fn save_persisted_failure2(
        &mut self,
        _: Option<&'static str>,
        _: PersistedSeed,
        _: &dyn Debug,
    ) {
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other
            .as_any()
            .downcast_ref::<OfProperty>()
            .is_some_and(|other| Arc::ptr_eq(&self.0, &other.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
