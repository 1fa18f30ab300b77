//! A short-lived cache of resolved host names.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Caches resolved host names.
#[derive(Debug)]
pub struct DnsCache {
    /// How long a result is reused. Time spent waiting for DNS does not count, because a caller
    /// that resolves several names one after another must not see the first result expire while it
    /// waits for the second. The times of concurrent lookups are added up, so a result may live
    /// slightly longer.
    ttl: Duration,
    /// Locked only to find a name's entry.
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    /// Total nanoseconds spent waiting for DNS.
    waited_ns: AtomicU64,
}

/// The result for a name; `None` until there is one. The entry is locked during the lookup, so that
/// concurrent callers for the same name wait for the result.
type Entry = Mutex<Option<Answer>>;

#[derive(Debug)]
struct Answer {
    address: SocketAddr,
    at: Instant,
    /// The total waiting time ([`DnsCache::waited_ns`]) when the result arrived.
    waited_ns: u64,
}

impl DnsCache {
    /// Creates an empty cache whose results live for `ttl`.
    pub const fn new(ttl: Duration) -> DnsCache {
        DnsCache { ttl, entries: Mutex::new(BTreeMap::new()), waited_ns: AtomicU64::new(0) }
    }

    /// Resolves a host and a port, from the cache if possible. Prefers IPv4 addresses. Returns
    /// `None` if the name has no address.
    ///
    /// # Errors
    /// Returns errors from `look_up`, which are not cached.
    pub fn resolve(
        &self,
        host_and_port: &str,
        look_up: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>>,
    ) -> io::Result<Option<SocketAddr>> {
        if let Ok(address) = host_and_port.parse() {
            return Ok(Some(address));
        }
        let entry = self.entry(host_and_port);
        let mut known = entry.lock();
        if let Some(answer) = known.as_ref().filter(|answer| self.is_fresh(answer)) {
            return Ok(Some(answer.address));
        }
        let begin = Instant::now();
        let found = look_up(host_and_port);
        let waited = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let waited_ns = self.waited_ns.fetch_add(waited, SeqCst) + waited;
        let found = found?;
        let best = found.iter().find(|address| address.is_ipv4()).or(found.first()).copied();
        *known = best.map(|address| Answer { address, at: Instant::now(), waited_ns });
        Ok(best)
    }

    /// Returns a name's entry. Evicts expired entries that are not in use.
    fn entry(&self, name: &str) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        entries.retain(|_, entry| match Arc::get_mut(entry) {
            Some(entry) => {
                let answer = entry.get_mut();
                answer.as_ref().is_some_and(|answer| self.is_fresh(answer))
            }
            None => true,
        });
        entries.entry(name.to_owned()).or_default().clone()
    }

    fn is_fresh(&self, answer: &Answer) -> bool {
        let waited =
            Duration::from_nanos(self.waited_ns.load(SeqCst).wrapping_sub(answer.waited_ns));
        answer.at.elapsed().saturating_sub(waited) < self.ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(3600);

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn no_lookup(_: &str) -> io::Result<Vec<SocketAddr>> {
        panic!("unexpected lookup")
    }

    /// Without the cache, a source might claim one address and listen on another.
    #[test]
    fn answers_are_cached() {
        let cache = DnsCache::new(LONG);
        let answers = || Ok(vec![at("[::1]:9"), at("127.0.0.7:9")]);
        assert_eq!(cache.resolve("once.test:9", |_| answers()).unwrap(), Some(at("127.0.0.7:9")));
        assert_eq!(cache.resolve("once.test:9", no_lookup).unwrap(), Some(at("127.0.0.7:9")));
        assert_eq!(cache.resolve("[::1]:9", no_lookup).unwrap(), Some(at("[::1]:9")));
        // A failed lookup may succeed the next time.
        assert!(cache.resolve("never.test:9", |_| Err(io::Error::other("no"))).is_err());
        assert_eq!(cache.resolve("never.test:9", |_| Ok(Vec::new())).unwrap(), None);
        assert_eq!(cache.resolve("never.test:9", |_| answers()).unwrap(), Some(at("127.0.0.7:9")));
    }

    #[test]
    fn expired_answers_are_evicted() {
        let cache = DnsCache::new(Duration::ZERO);
        assert_eq!(
            cache.resolve("a.test:9", |_| Ok(vec![at("127.0.0.1:9")])).unwrap(),
            Some(at("127.0.0.1:9"))
        );
        assert_eq!(
            cache.resolve("a.test:9", |_| Ok(vec![at("127.0.0.2:9")])).unwrap(),
            Some(at("127.0.0.2:9"))
        );
        cache.resolve("b.test:9", |_| Ok(vec![at("127.0.0.3:9")])).unwrap();
        assert_eq!(cache.entries.lock().len(), 1);
    }

    #[test]
    fn a_slow_lookup_does_not_block_cached_names() {
        let cache = DnsCache::new(LONG);
        let answer = || Ok(vec![at("127.0.0.1:9")]);
        cache.resolve("fast.test:9", |_| answer()).unwrap();
        let slow = |_: &str| {
            assert_eq!(cache.resolve("fast.test:9", no_lookup).unwrap(), Some(at("127.0.0.1:9")));
            std::thread::sleep(Duration::from_millis(20));
            answer()
        };
        cache.resolve("slow.test:9", slow).unwrap();
        assert!(cache.waited_ns.load(SeqCst) >= 20_000_000);
    }

    #[test]
    fn lookup_time_does_not_age_other_answers() {
        let cache = DnsCache::new(LONG);
        cache.resolve("fast.test:9", |_| Ok(vec![at("127.0.0.1:9")])).unwrap();
        cache.entry("fast.test:9").lock().as_mut().unwrap().at -= LONG;
        cache.waited_ns.fetch_add(LONG.as_nanos() as u64, SeqCst);
        assert_eq!(cache.resolve("fast.test:9", no_lookup).unwrap(), Some(at("127.0.0.1:9")));
        cache.waited_ns.fetch_sub(LONG.as_nanos() as u64, SeqCst);
        assert_eq!(
            cache.resolve("fast.test:9", |_| Ok(vec![at("127.0.0.2:9")])).unwrap(),
            Some(at("127.0.0.2:9"))
        );
    }

    #[test]
    fn concurrent_lookups_of_one_name_share_the_answer() {
        let cache = DnsCache::new(LONG);
        let (asking, is_asked) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slow = |_: &str| {
                    asking.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                    Ok(vec![at("127.0.0.1:9")])
                };
                cache.resolve("a.test:9", slow).unwrap();
            });
            is_asked.recv().unwrap();
            assert_eq!(cache.resolve("a.test:9", no_lookup).unwrap(), Some(at("127.0.0.1:9")));
        });
    }
}
