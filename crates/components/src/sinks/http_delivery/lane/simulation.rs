//! Simulates many hosts during and after an outage of the endpoint: when they retry, and when they
//! send their backlog. Uses the building blocks of a lane on a simulated clock.

use fastrand::Rng;
use millstream_testkit_random::{Seed, TestSize};
use millstream_transport::{Endpoints, Pause, Rate};
use std::time::Duration;
use tokio::time::Instant;

/// Length of a slot.
const SLOT: Duration = Duration::from_millis(100);

/// Length of the outage, which starts at the same moment for all hosts.
const OUTAGE: Duration = Duration::from_secs(300);

/// Time after which the initial synchronization of the hosts has worn off.
const STEADY: Duration = Duration::from_secs(60);

/// Number of simulated outages.
const OUTAGES: TestSize = TestSize { gate: 1, long: 200 };

/// Number of simulated responses with a time to retry after.
const RETURNS: TestSize = TestSize { gate: 1, long: 1000 };

/// Backlog of each host, in requests.
const BACKLOG: usize = 12;

/// Simulates one host; returns the times of its failed attempts and of its successful requests.
fn host(random: &mut Rng, begun: Instant, rate_max: f64) -> (Vec<Duration>, Vec<Duration>) {
    let (mut endpoint, mut rate) = (Endpoints::new(1, 0), Rate::new(Some(rate_max)));
    let (mut attempts, mut sent, mut now) = (Vec::new(), Vec::new(), begun);
    while sent.len() < BACKLOG {
        if let Some(until) = rate.wait_until(now) {
            now = until;
        }
        if let Err(until) = endpoint.choose(now) {
            now = until;
            continue;
        }
        rate.take(now);
        if now < begun + OUTAGE {
            attempts.push(now - begun);
            endpoint.mark_failed(0, Pause::Backoff, random.u64(..1 << 32) as u32, now);
        } else {
            sent.push(now - begun);
            endpoint.mark_healthy(0);
        }
    }
    (attempts, sent)
}

/// Returns the fullest slot of a span, and the mean.
fn slots(times: &[Duration], from: Duration, to: Duration) -> (usize, f64) {
    let mut slots = vec![0; ((to - from).as_millis() / SLOT.as_millis()) as usize];
    for time in times.iter().filter(|time| (from..to).contains(*time)) {
        slots[((*time - from).as_millis() / SLOT.as_millis()) as usize] += 1;
    }
    (*slots.iter().max().unwrap(), slots.iter().sum::<usize>() as f64 / slots.len() as f64)
}

#[test]
fn hosts_do_not_synchronize_after_an_outage() {
    Seed::of_test().cases(OUTAGES).for_each(check_outage);
}

fn check_outage(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let begun = Instant::now();
    let hosts: Vec<_> = (0..200).map(|_| host(&mut random, begun, 5.0)).collect();
    let sent: Vec<Duration> = hosts.iter().flat_map(|(_, sent)| sent).copied().collect();
    // From the time when the first hosts are done until only the last ones start, because a pause
    // is at most 30 s.
    let (most, mean) =
        slots(&sent, OUTAGE + Duration::from_secs(3), OUTAGE + Duration::from_secs(15));
    assert!(
        mean > 5.0 && most as f64 <= 3.0 * mean,
        "replays: {most} in a slot, {mean} on average"
    );
    assert!(sent.iter().all(|time| *time < OUTAGE + Duration::from_secs(33)));
    for (_, sent) in &hosts {
        assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= 2 * SLOT));
    }
    // Two hundred hosts retry too rarely for a meaningful mean; two thousand are also a harder
    // test.
    let attempts: Vec<Duration> = (0..2000).flat_map(|_| host(&mut random, begun, 5.0).0).collect();
    let (most, mean) = slots(&attempts, STEADY, OUTAGE);
    assert!(
        mean > 5.0 && most as f64 <= 3.0 * mean,
        "retries: {most} in a slot, {mean} on average"
    );
}

#[test]
fn hosts_with_the_same_retry_after_do_not_return_at_once() {
    Seed::of_test().cases(RETURNS).for_each(check_return);
}

fn check_return(seed: u64) {
    let mut random = Rng::with_seed(seed);
    let now = Instant::now();
    let retry_after = Duration::from_secs(30);
    let back = |_| {
        let mut endpoint = Endpoints::new(1, 0);
        endpoint.mark_failed(0, Pause::Requested(retry_after), random.u64(..1 << 32) as u32, now);
        endpoint.next_at(now) - now
    };
    let back: Vec<Duration> = (0..2000).map(back).collect();
    let end = retry_after + retry_after / 3 + SLOT;
    assert!(
        back.iter().all(|time| (retry_after..end).contains(time)),
        "none early, and none much later"
    );
    let (most, mean) = slots(&back, retry_after, end);
    assert!(mean > 15.0 && most as f64 <= 3.0 * mean, "{most} in a slot, {mean} on average");
}
