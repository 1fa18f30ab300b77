//! The configuration of a property of `proptest`.

use crate::{Seed, TestSize};
use proptest::test_runner::{
    Config, FailurePersistence, FileFailurePersistence, PersistedSeed, RngSeed,
};
use std::any::Any;
use std::fmt::Debug;
use std::panic::Location;
use std::sync::Arc;

/// Maximum number of values that a property may reject, per case. The default limit of `proptest`
/// is meant for 256 cases, so it is too low for a long test.
const REFUSED_PER_CASE_MAX: u32 = 4;

/// Returns the configuration of a property with `cases` cases, for `#![proptest_config(…)]`.
///
/// The values of all cases derive from one seed, so a failure is replayed with that seed and the
/// same `SOAK`. Regressions that `proptest` saved next to the test are replayed first; new ones are
/// not saved, because the seed is printed.
#[track_caller]
pub fn property(cases: TestSize) -> Config {
    config(OfProperty(Arc::new(Seed::of_test_at(Location::caller()))), cases)
}

fn config(seed: OfProperty, cases: TestSize) -> Config {
    let cases = u32::try_from(cases.get()).unwrap_or(u32::MAX);
    let defaults = Config::default();
    let refused_max = cases.saturating_mul(REFUSED_PER_CASE_MAX);
    seed.0.count(cases.into());
    Config {
        cases,
        max_global_rejects: refused_max.max(defaults.max_global_rejects),
        rng_seed: RngSeed::Fixed(seed.0.value()),
        failure_persistence: Some(Box::new(seed)),
        ..defaults
    }
}

/// Keeps the seed for as long as the configuration of the test exists. It is stored as the
/// persistence of failures, because `proptest` has no other value that is dropped at the end of a
/// test.
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

#[cfg(test)]
mod tests {
    use super::{OfProperty, TestSize, property};
    use crate::Seed;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::sync::Arc;

    const CASES: TestSize = TestSize { gate: 20, long: 20 };

    /// Returns the values that a seed generates.
    fn values(seed: u64) -> Vec<u64> {
        let seed = Seed::with(seed, std::panic::Location::caller());
        let config = super::config(OfProperty(Arc::new(seed)), CASES);
        let mut runner = TestRunner::new(config);
        let mut value = || any::<u64>().new_tree(&mut runner).unwrap().current();
        (0..10).map(|_| value()).collect()
    }

    #[test]
    fn a_seed_repeats_the_values() {
        assert_eq!(values(17), values(17));
        assert_ne!(values(17), values(18));
    }

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn a_property_is_configured(number in 0..10_u32) {
            prop_assert!(number < 10);
        }
    }
}
