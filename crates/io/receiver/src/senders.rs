//! Maps process ids to containers based on their cgroups.

use crate::Sender;
use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a lookup is cached. The time is short because a process id may be reused, and a process
/// may move to another cgroup.
const TTL: Duration = Duration::from_secs(5);

/// Maximum number of cached processes, because short-lived ones would otherwise accumulate.
const PROCESSES_MAX: usize = 4096;

/// A cache of the processes that have sent messages.
#[derive(Debug, Default)]
pub struct Senders {
    known: HashMap<u32, CachedSender>,
}

#[derive(Debug)]
struct CachedSender {
    sender: Sender,
    looked_up: Instant,
}

impl Senders {
    /// Returns the sender with this process id. Reads `/proc` if the cached entry is missing or
    /// expired.
    pub fn get(&mut self, pid: u32) -> &Sender {
        let is_fresh = self.known.get(&pid).is_some_and(|known| known.looked_up.elapsed() < TTL);
        if !is_fresh {
            self.look_up(pid);
        }
        &self.known[&pid].sender
    }

    fn look_up(&mut self, pid: u32) {
        let found = fs::read_to_string(format!("/proc/{pid}/cgroup"));
        if self.known.len() >= PROCESSES_MAX && !self.known.contains_key(&pid) {
            self.evict_half();
        }
        let container = match (found, self.known.get(&pid)) {
            (Ok(cgroup), _) => container(&cgroup).map(Arc::from),
            // The process has exited, but its earlier messages are still being read.
            (Err(_), Some(known)) => known.sender.container.clone(),
            (Err(_), None) => None,
        };
        self.known.insert(
            pid,
            CachedSender { sender: Sender { pid, container }, looked_up: Instant::now() },
        );
    }

    /// Evicts the older half of the processes. Evicting half of them makes this search rare, and
    /// keeps most of the frequent senders in the cache.
    fn evict_half(&mut self) {
        let mut times: Vec<Instant> = self.known.values().map(|known| known.looked_up).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        self.known.retain(|_, known| known.looked_up > *median);
    }
}

/// Returns the id of the container in which a process runs, if its control groups contain one.
pub fn container_of(pid: u32) -> Option<String> {
    let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    container(&cgroup).map(str::to_owned)
}

/// Returns the container id in the contents of `/proc/PID/cgroup`, version 1 or 2: the innermost
/// path component that contains an id, such as `docker-ID.scope` or `cri-containerd-ID`.
fn container(cgroup: &str) -> Option<&str> {
    cgroup.lines().find_map(|line| {
        let path = line.splitn(3, ':').nth(2)?;
        path.rsplit('/').find_map(id)
    })
}

/// Returns the id within one path component: 64 hexadecimal digits, or the format of Amazon ECS or
/// Cloud Foundry.
fn id(part: &str) -> Option<&str> {
    let part = part.strip_suffix(".scope").unwrap_or(part);
    if part.split('-').any(|word| word == "conmon") {
        return None; // monitors a container, but does not run in it
    }
    let long = part.split(['-', '.', ':', '_']).find(|word| is_hex(word, 64));
    long.or_else(|| (is_ecs(part) || is_garden(part)).then_some(part))
}

/// Returns whether the text is an Amazon ECS id: 32 hexadecimal digits, a hyphen, a number.
fn is_ecs(part: &str) -> bool {
    part.split_once('-').is_some_and(|(hex, number)| {
        is_hex(hex, 32) && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Returns whether the text is a Cloud Foundry id: groups of 8, 4, 4, 4 and 4 hexadecimal digits,
/// shorter than a pod's UUID.
fn is_garden(part: &str) -> bool {
    let groups = [8, 4, 4, 4, 4];
    part.split('-').count() == groups.len()
        && part.split('-').zip(groups).all(|(word, n)| is_hex(word, n))
}

fn is_hex(word: &str, digits: usize) -> bool {
    word.len() == digits && word.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "3726184226f5d3147c25fdeab5b60097e378e8a720503a5e19ecfdf29f869860";

    #[test]
    fn recognizes_ids_of_common_runtimes() {
        for line in [
            "13:name=systemd:/docker/{}",
            "0::/system.slice/docker-{}.scope",
            "1:cpu:/kubepods/besteffort/pod3d274242-8ee0-11e9-a8a6-1e68d864ef1a/{}",
            "0::/kubepods.slice/kubepods-pod3d274242_8ee0_11e9_a8a6_1e68d864ef1a.slice/cri-containerd-{}.scope",
            "0::/kubepods.slice/kubepods-pod1.slice/crio-{}.scope/container",
            "0::/machine.slice/libpod-{}.scope/container",
            "0::/system.slice/containerd.service/kubepods-burstable-pod1.slice:cri-containerd:{}",
        ] {
            let text = format!("12:memory:/\n{}\n", line.replace("{}", ID));
            assert_eq!(container(&text), Some(ID), "{line}");
        }
        let ecs = "34dc0b5e626f2c5c4c5170e34b10e765-1234567890";
        assert_eq!(container(&format!("9:cpu:/ecs/55091c13/{ecs}")), Some(ecs));
        let garden = "6f265890-5165-7fab-6b52-18d1";
        assert_eq!(
            container(&format!("1:name=systemd:/system.slice/garden.service/garden/{garden}")),
            Some(garden)
        );
    }

    #[test]
    fn ignores_cgroups_without_a_container() {
        for text in [
            "",
            "0::/",
            "0::/user.slice/user-1000.slice/session-3.scope",
            "0::/kubepods/besteffort/pod3d274242-8ee0-11e9-a8a6-1e68d864ef1a",
            "no colon",
        ] {
            assert_eq!(container(text), None, "{text}");
        }
        assert_eq!(container(&format!("0::/machine.slice/libpod-conmon-{ID}.scope")), None);
    }

    #[test]
    fn evicts_the_oldest_entries() {
        let mut senders = Senders::default();
        for pid in 0..PROCESSES_MAX as u32 * 2 {
            assert_eq!(senders.get(u32::MAX - pid).container, None);
            assert!(senders.known.len() <= PROCESSES_MAX);
            let is_known = |before: u32| senders.known.contains_key(&(u32::MAX - pid + before));
            assert!(pid < 2000 || (0..2000).all(is_known), "the newest are kept");
        }
        assert!(!senders.known.contains_key(&u32::MAX), "the oldest are not");
    }
}
