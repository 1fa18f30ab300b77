//! The addresses of host names, the same for a while.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// What a name server said of late.
#[derive(Debug)]
pub struct Names {
    /// For so long an answer is used again. Time in which a name server is asked does not count:
    /// whoever needs several names, one after the other, may wait longer for one of them. (What
    /// several threads wait for at the same time is added up: an answer then lives a little
    /// longer.)
    same: Duration,
    /// Locked only to find the entry of a name.
    entries: Mutex<BTreeMap<String, Arc<Entry>>>,
    /// Nanoseconds for which name servers were waited for so far.
    waited_ns: AtomicU64,
}

/// Locked while a name server is asked: whoever wants the same name waits for its answer.
type Entry = Mutex<Option<Answer>>;

#[derive(Debug)]
struct Answer {
    address: SocketAddr,
    at: Instant,
    /// What `Names::waited_ns` was then.
    waited_ns: u64,
}

impl Names {
    /// No names yet; their addresses are kept for so long.
    pub const fn new(same: Duration) -> Names {
        Names { same, entries: Mutex::new(BTreeMap::new()), waited_ns: AtomicU64::new(0) }
    }

    /// The address of a host and port, of version 4 if it has one; the one of a moment ago if there
    /// was one.
    ///
    /// # Errors
    /// That of `look_up`, which is kept for nobody.
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

    /// The entry of a name. Those that are too old go, unless somebody is about to use them.
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
        answer.at.elapsed().saturating_sub(waited) < self.same
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

    fn unasked(_: &str) -> io::Result<Vec<SocketAddr>> {
        panic!("it is asked again")
    }

    /// Else a source might claim one address and listen at another.
    #[test]
    fn a_name_is_looked_up_once() {
        let names = Names::new(LONG);
        let answers = || Ok(vec![at("[::1]:9"), at("127.0.0.7:9")]);
        assert_eq!(names.resolve("once.test:9", |_| answers()).unwrap(), Some(at("127.0.0.7:9")));
        assert_eq!(names.resolve("once.test:9", unasked).unwrap(), Some(at("127.0.0.7:9")));
        assert_eq!(names.resolve("[::1]:9", unasked).unwrap(), Some(at("[::1]:9")));
        // What was not found may be there the next time.
        assert!(names.resolve("never.test:9", |_| Err(io::Error::other("no"))).is_err());
        assert_eq!(names.resolve("never.test:9", |_| Ok(Vec::new())).unwrap(), None);
        assert_eq!(names.resolve("never.test:9", |_| answers()).unwrap(), Some(at("127.0.0.7:9")));
    }

    #[test]
    fn an_old_answer_goes() {
        let names = Names::new(Duration::ZERO);
        assert_eq!(
            names.resolve("a.test:9", |_| Ok(vec![at("127.0.0.1:9")])).unwrap(),
            Some(at("127.0.0.1:9"))
        );
        assert_eq!(
            names.resolve("a.test:9", |_| Ok(vec![at("127.0.0.2:9")])).unwrap(),
            Some(at("127.0.0.2:9"))
        );
        names.resolve("b.test:9", |_| Ok(vec![at("127.0.0.3:9")])).unwrap();
        assert_eq!(names.entries.lock().len(), 1);
    }

    #[test]
    fn a_name_can_be_used_while_another_is_looked_up() {
        let names = Names::new(LONG);
        let answer = || Ok(vec![at("127.0.0.1:9")]);
        names.resolve("fast.test:9", |_| answer()).unwrap();
        let slow = |_: &str| {
            assert_eq!(names.resolve("fast.test:9", unasked).unwrap(), Some(at("127.0.0.1:9")));
            std::thread::sleep(Duration::from_millis(20));
            answer()
        };
        names.resolve("slow.test:9", slow).unwrap();
        assert!(names.waited_ns.load(SeqCst) >= 20_000_000);
    }

    #[test]
    fn an_answer_outlives_the_look_up_of_another_name() {
        let names = Names::new(LONG);
        names.resolve("fast.test:9", |_| Ok(vec![at("127.0.0.1:9")])).unwrap();
        names.entry("fast.test:9").lock().as_mut().unwrap().at -= LONG;
        names.waited_ns.fetch_add(LONG.as_nanos() as u64, SeqCst);
        assert_eq!(names.resolve("fast.test:9", unasked).unwrap(), Some(at("127.0.0.1:9")));
        names.waited_ns.fetch_sub(LONG.as_nanos() as u64, SeqCst);
        assert_eq!(
            names.resolve("fast.test:9", |_| Ok(vec![at("127.0.0.2:9")])).unwrap(),
            Some(at("127.0.0.2:9"))
        );
    }

    #[test]
    fn whoever_wants_the_same_name_waits_for_its_answer() {
        let names = Names::new(LONG);
        let (asking, is_asked) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let slow = |_: &str| {
                    asking.send(()).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                    Ok(vec![at("127.0.0.1:9")])
                };
                names.resolve("a.test:9", slow).unwrap();
            });
            is_asked.recv().unwrap();
            assert_eq!(names.resolve("a.test:9", unasked).unwrap(), Some(at("127.0.0.1:9")));
        });
    }
}
