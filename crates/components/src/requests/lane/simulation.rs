//! Many hosts whose endpoint was away: when they ask for it, and when they send what they kept.
//! Played with what a lane uses for that, on a clock of its own.

use fastrand::Rng;
use millstream_transport::{Endpoints, Pause, Rate};
use std::time::Duration;
use tokio::time::Instant;

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(100);

/// How long the endpoint is away, for all hosts from the same moment on.
const AWAY: Duration = Duration::from_secs(300);

/// When what a host does at first has worn off.
const STEADY: Duration = Duration::from_secs(60);

/// Requests that each host has kept.
const KEPT: usize = 12;

/// When one host asked in vain, and when it sent what it had kept.
fn host(random: &mut Rng, begun: Instant, rate_max: f64) -> (Vec<Duration>, Vec<Duration>) {
    let (mut endpoint, mut rate) = (Endpoints::new(1, 0), Rate::new(Some(rate_max)));
    let (mut asked, mut sent, mut now) = (Vec::new(), Vec::new(), begun);
    while sent.len() < KEPT {
        if let Some(until) = rate.wait_until(now) {
            now = until;
        }
        if let Err(until) = endpoint.choose(now) {
            now = until;
            continue;
        }
        rate.take(now);
        if now < begun + AWAY {
            asked.push(now - begun);
            endpoint.failed(0, Pause::Backoff, random.u64(..1 << 32) as u32, now);
        } else {
            sent.push(now - begun);
            endpoint.well(0);
        }
    }
    (asked, sent)
}

/// The fullest slot of a span, and the mean.
fn slots(times: &[Duration], from: Duration, to: Duration) -> (usize, f64) {
    let mut slots = vec![0; ((to - from).as_millis() / SLOT.as_millis()) as usize];
    for time in times.iter().filter(|time| (from..to).contains(*time)) {
        slots[((*time - from).as_millis() / SLOT.as_millis()) as usize] += 1;
    }
    (*slots.iter().max().unwrap(), slots.iter().sum::<usize>() as f64 / slots.len() as f64)
}

#[test]
fn after_an_outage_hosts_come_back_one_after_the_other() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let (mut random, begun) = (Rng::with_seed(seed), Instant::now());
    let hosts: Vec<_> = (0..200).map(|_| host(&mut random, begun, 5.0)).collect();
    let sent: Vec<Duration> = hosts.iter().flat_map(|(_, sent)| sent).copied().collect();
    // From when the first ones are through to when only the last ones come: a pause is 30 s at
    // most.
    let (most, mean) = slots(&sent, AWAY + Duration::from_secs(3), AWAY + Duration::from_secs(15));
    assert!(
        mean > 5.0 && most as f64 <= 3.0 * mean,
        "replays: {most} in a slot, {mean} on average"
    );
    assert!(sent.iter().all(|time| *time < AWAY + Duration::from_secs(33)));
    for (_, sent) in &hosts {
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= 2 * SLOT));
    }
    // Two hundred ask so seldom that a mean would say nothing; two thousand are harder still.
    let asked: Vec<Duration> = (0..2000).flat_map(|_| host(&mut random, begun, 5.0).0).collect();
    let (most, mean) = slots(&asked, STEADY, AWAY);
    assert!(mean > 5.0 && most as f64 <= 3.0 * mean, "asking: {most} in a slot, {mean} on average");
}

#[test]
fn hosts_that_are_all_told_to_wait_as_long_do_not_return_at_once() {
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let (mut random, now, asked) = (Rng::with_seed(seed), Instant::now(), Duration::from_secs(30));
    let back = |_| {
        let mut endpoint = Endpoints::new(1, 0);
        endpoint.failed(0, Pause::Asked(asked), random.u64(..1 << 32) as u32, now);
        endpoint.next_at(now) - now
    };
    let back: Vec<Duration> = (0..2000).map(back).collect();
    let end = asked + asked / 3 + SLOT;
    assert!(
        back.iter().all(|time| (asked..end).contains(time)),
        "none earlier, and none much later"
    );
    let (most, mean) = slots(&back, asked, end);
    assert!(mean > 15.0 && most as f64 <= 3.0 * mean, "{most} in a slot, {mean} on average");
}
