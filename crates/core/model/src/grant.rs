//! The memory grant: the allowance for all data in flight.
//!
//! A source takes the bytes of a block and the declared expansion of its chain *before* it reads;
//! without capacity, the source does not read. Backpressure works only through this rule. The bytes
//! return when the last reference to them is dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The memory allowance, shared by all of an engine's sources.
pub struct Grant {
    bytes_max: u64,
    /// The part of `bytes_max` that may be taken now.
    limit: AtomicU64,
    used: AtomicU64,
    /// The part of `used` that was set aside with [`Grant::set_aside`].
    aside: AtomicU64,
    wanted: AtomicBool,
    on_available: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Grant {
    /// Creates an allowance of `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Arc<Grant> {
        let (used, aside) = (AtomicU64::new(0), AtomicU64::new(0));
        let (wanted, on_available) = (AtomicBool::new(false), OnceLock::new());
        let limit = AtomicU64::new(bytes_max);
        Arc::new(Grant { bytes_max, limit, used, aside, wanted, on_available })
    }

    /// Registers `f`, which is called when bytes return after [`Grant::try_take`] failed. Can be
    /// set once.
    pub fn on_available(&self, f: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_available.set(Box::new(f));
    }

    /// Takes `bytes`. On failure, the [`Grant::on_available`] function is called when bytes return.
    ///
    /// A request larger than the whole allowance succeeds if no other bytes are taken; otherwise it
    /// would wait forever.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        if self.reserve(bytes) {
            return Some(Permit { grant: self.clone(), bytes });
        }
        self.wanted.store(true, Ordering::SeqCst);
        // Try again: a caller that returned bytes before the flag was set called no function.
        self.reserve(bytes).then(|| Permit { grant: self.clone(), bytes })
    }

    /// Takes `bytes` until the result is dropped, for memory that the grant does not control, such
    /// as a library's queue. The call never fails: later reads wait until the debt is repaid.
    pub fn set_aside(self: &Arc<Self>, bytes: u64) -> Aside {
        self.aside.fetch_add(bytes, Ordering::SeqCst);
        self.used.fetch_add(bytes, Ordering::SeqCst);
        Aside(Permit { grant: self.clone(), bytes })
    }

    fn reserve(&self, bytes: u64) -> bool {
        let aside = self.aside.load(Ordering::SeqCst);
        let limit = self.limit();
        let fits = |used: u64| (used <= aside || used + bytes <= limit).then_some(used + bytes);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    /// Returns the bytes that are currently taken.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Returns the size of the whole allowance in bytes.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the part of the allowance that may currently be taken.
    pub fn limit(&self) -> u64 {
        self.limit.load(Ordering::SeqCst)
    }

    /// Limits the bytes that may be taken, starting now, to `bytes` of the allowance. Bytes that
    /// were already taken are not affected.
    pub fn set_limit(&self, bytes: u64) {
        let limit = bytes.min(self.bytes_max);
        if self.limit.swap(limit, Ordering::SeqCst) < limit {
            self.wake();
        }
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        self.wake();
    }

    /// Calls the [`Grant::on_available`] function if a request was rejected, because there may now
    /// be capacity.
    fn wake(&self) {
        if self.wanted.swap(false, Ordering::SeqCst)
            && let Some(on_available) = self.on_available.get()
        {
            on_available();
        }
    }
}

/// Bytes taken from a [`Grant`]. Dropping the permit returns the bytes.
pub struct Permit {
    grant: Arc<Grant>,
    bytes: u64,
}

impl Permit {
    /// Returns the number of bytes that the permit covers.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Resizes the permit to exactly `bytes`. Growing never fails, because the memory is already in
    /// use: the declared expansion was too small, and the next read waits until the debt is repaid.
    pub fn resize(&mut self, bytes: u64) {
        if bytes >= self.bytes {
            self.grant.used.fetch_add(bytes - self.bytes, Ordering::SeqCst);
        } else {
            self.grant.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
    }

    /// Splits `bytes` off into another permit. This permit goes into debt if it covers fewer bytes.
    pub fn split(&mut self, bytes: u64) -> Permit {
        if bytes > self.bytes {
            self.resize(bytes);
        }
        self.bytes -= bytes;
        Permit { grant: self.grant.clone(), bytes }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.grant.give_back(self.bytes);
        }
    }
}

/// Bytes set aside in a [`Grant`]. Dropping this value returns the bytes.
pub struct Aside(Permit);

impl Aside {
    /// Returns the bytes set aside.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// Changes the number of bytes set aside to exactly `bytes`.
    pub fn resize(&mut self, bytes: u64) {
        let (grant, before) = (&self.0.grant, self.0.bytes);
        if bytes >= before {
            grant.aside.fetch_add(bytes - before, Ordering::SeqCst);
        } else {
            grant.aside.fetch_sub(before - bytes, Ordering::SeqCst);
        }
        self.0.resize(bytes);
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.0.grant.aside.fetch_sub(self.0.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn bytes_return_when_the_last_permit_drops() {
        let grant = Grant::new(100);
        let mut first = grant.try_take(60).unwrap();
        let part = first.split(20);
        assert!(grant.try_take(50).is_none());
        drop(first);
        assert_eq!(grant.used(), 20);
        drop(part);
        assert_eq!(grant.used(), 0);
    }

    #[test]
    fn a_waiter_is_woken_once_there_is_capacity() {
        let grant = Grant::new(10);
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        grant.on_available(move || {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        let held = grant.try_take(10).unwrap();
        assert!(grant.try_take(1).is_none());
        drop(held);
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        drop(grant.try_take(1));
        assert_eq!(calls.load(Ordering::SeqCst), 1, "no waiter after a success");
    }

    #[test]
    fn a_lower_limit_refuses_more_and_a_higher_one_wakes_the_refused() {
        let grant = Grant::new(100);
        let calls = Arc::new(AtomicUsize::new(0));
        let seen = calls.clone();
        grant.on_available(move || {
            seen.fetch_add(1, Ordering::SeqCst);
        });
        let held = grant.try_take(60).unwrap();
        grant.set_limit(50);
        assert_eq!((grant.used(), grant.limit(), grant.bytes_max()), (60, 50, 100));
        assert!(grant.try_take(1).is_none());
        grant.set_limit(1000);
        assert_eq!((grant.limit(), calls.load(Ordering::SeqCst)), (100, 1));
        drop((held, grant.try_take(40).unwrap()));
        grant.set_limit(0);
        assert!(grant.try_take(70).is_some(), "the first block is always admitted");
    }

    #[test]
    fn a_block_larger_than_the_grant_is_admitted_alone() {
        let grant = Grant::new(10);
        let big = grant.try_take(50).unwrap();
        assert!(grant.try_take(1).is_none());
        drop(big);
        assert!(grant.try_take(1).is_some());
    }

    #[test]
    fn what_is_set_aside_is_missing_but_does_not_keep_a_large_block_from_being_admitted() {
        let grant = Grant::new(10);
        let aside = grant.set_aside(6);
        assert!(grant.try_take(4).is_some());
        let small = grant.try_take(3).unwrap();
        assert!(grant.try_take(2).is_none() && grant.try_take(50).is_none());
        drop(small);
        assert!(grant.try_take(50).is_some());
        drop(aside);
        assert_eq!(grant.used(), 0);
        assert!(grant.try_take(10).is_some());
        let mut aside = grant.set_aside(0);
        aside.resize(20);
        assert!(grant.try_take(5).is_some(), "the only block is admitted");
        aside.resize(6);
        let small = grant.try_take(3).unwrap();
        assert!(grant.used() == 9 && grant.try_take(2).is_none());
        drop((small, aside));
        assert_eq!(grant.used(), 0);
    }
}
