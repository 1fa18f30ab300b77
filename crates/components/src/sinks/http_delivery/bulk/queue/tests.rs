//! Simulates an endpoint that responds in any order, rejects and delays any events, and loses
//! responses.

use super::*;
use crate::sinks::http_delivery::Record;
use fastrand::Rng;
use millstream_model::Outcome;
use millstream_testkit_random::{Seed, TestSize};
use std::collections::BTreeMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Number of simulations.
const CASES: TestSize = TestSize { gate: 300, long: 30_000 };

fn payload(events: u64) -> EncodedPayload {
    EncodedPayload {
        parts: Vec::new(),
        events,
        bytes: 10 * events,
        routing: None,
        units_before: 0,
        continues: false,
    }
}

fn request(events: EventSet) -> Request {
    Request { body: Vec::new(), headers: Vec::new(), events, origin: Box::new(()) }
}

/// The lane and the endpoint, on a simulated clock.
struct Simulation {
    random: Rng,
    queue: Queue,
    ids: RequestIds,
    now: Instant,
    in_flight: Vec<u64>,
    repairs: Vec<Repair>,
    /// Events of each payload, in order.
    payloads: Vec<u64>,
    settled: Vec<Settled>,
    /// Number of times that the endpoint accepted each event, by batch and index.
    taken: BTreeMap<(u64, u32), u32>,
    refused: BTreeMap<(u64, u32), u32>,
    passed_on: Vec<(u64, u32)>,
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        Simulation {
            random: Rng::with_seed(seed),
            queue: Queue::default(),
            ids: RequestIds::new(),
            now: Instant::now(),
            in_flight: Vec::new(),
            repairs: Vec::new(),
            payloads: Vec::new(),
            settled: Vec::new(),
            taken: BTreeMap::new(),
            refused: BTreeMap::new(),
            passed_on: Vec::new(),
        }
    }

    /// Packs a batch into one or two requests.
    fn pack(&mut self) {
        let count = self.random.usize(1..4);
        let payloads: Vec<_> = (0..count).map(|_| payload(self.random.u64(0..6))).collect();
        self.payloads.extend(payloads.iter().map(|payload| payload.events));
        let number = self.queue.open(&payloads);
        let events = EventSet::of(0..payloads.iter().map(|payload| payload.events as u32).sum());
        let (first, second) = events.split_at(self.random.u64(0..=events.len()));
        let requests =
            [first, second].into_iter().filter(|events| !events.is_empty()).map(request).collect();
        let refused = self.queue.packed(number, requests, Vec::new(), &mut self.ids);
        assert!(refused.is_empty());
    }

    fn send(&mut self) {
        let in_flight = &mut self.in_flight;
        let sent: Result<(), ()> = self.queue.send(self.now, |_, number| {
            in_flight.push(number);
            Ok(())
        });
        sent.unwrap();
    }

    /// Responds to one of the requests in flight.
    fn answer(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let index = self.random.usize(0..self.in_flight.len());
        let queued = self.queue.take(self.in_flight.swap_remove(index)).unwrap();
        match self.random.u8(0..10) {
            0 => self.queue.put_back(queued),
            1 if queued.events() > 1 => {
                self.repairs.push(queued.repair(Action::Split("400".to_owned())));
            }
            _ => self.judge(queued),
        }
    }

    fn judge(&mut self, queued: QueuedRequest) {
        let (mut failures, batch) = (Vec::new(), queued.batch);
        for (position, event) in (0..).zip(queued.request.events.iter()) {
            let judgement = match self.random.u8(0..12) {
                0 | 1 => Judgement::Later,
                2 => Judgement::Blocked,
                3 => Judgement::Refused,
                _ => {
                    *self.taken.entry((batch, event)).or_default() += 1;
                    continue;
                }
            };
            if judgement == Judgement::Refused {
                *self.refused.entry((batch, event)).or_default() += 1;
            }
            failures.push(Failure { position, judgement, reason: String::new() });
        }
        let pauses = Pauses {
            now: self.now,
            blocked_until: self.now + 5000 * MS,
            random: self.random.u32(..),
        };
        self.repairs.extend(self.queue.judged(queued, failures, true, pauses));
    }

    fn repair(&mut self) {
        if self.repairs.is_empty() {
            return;
        }
        let index = self.random.usize(0..self.repairs.len());
        let (whole, action, repaired) = self.repairs.swap_remove(index).begin();
        let batch = repaired.batch;
        let events: Vec<u32> = whole.events.iter().collect();
        let mut requests = Vec::new();
        match action {
            Action::Split(_) => {
                let (first, second) = whole.events.split_at(whole.events.len() / 2);
                requests.extend([first, second].map(|events| (request(events), None)));
            }
            Action::Divide(Division { again, refused }) => {
                for (position, reason) in refused {
                    let event = events[position as usize];
                    let (reason, record) = (reason.into(), Record::default());
                    let refused = RefusedEvent { event, reason, record };
                    let refused = self.queue.refused(batch, refused).expect("its payload");
                    self.passed_on.push((refused.payload, refused.event));
                }
                for (positions, until) in again {
                    let mut events_again = EventSet::default();
                    positions.iter().for_each(|at| events_again.push(events[*at as usize]));
                    requests.push((request(events_again), Some(until)));
                }
            }
        }
        self.queue.repaired(repaired, requests, &mut self.ids);
    }

    fn step(&mut self, may_pack: bool) {
        match self.random.u8(0..5) {
            0 if may_pack => self.pack(),
            1 => self.repair(),
            2 => self.answer(),
            3 => self.now += self.random.u32(1..1000) * MS,
            _ => self.send(),
        }
        self.queue.settle(&mut self.settled);
    }

    /// Runs until all payloads are settled, and checks the outcome.
    fn run(mut self) {
        (0..200).for_each(|_| self.step(true));
        let mut steps = 0;
        while self.queue.batches() > 0 {
            self.step(false);
            steps += 1;
            assert!(steps < 100_000, "no progress");
        }
        assert_eq!(self.settled.len(), self.payloads.len());
        let mut refused_of = vec![0; self.payloads.len()];
        self.passed_on.iter().for_each(|(payload, _)| refused_of[*payload as usize] += 1);
        for (settled, refused) in self.settled.iter().zip(&refused_of) {
            assert_eq!(settled.refused, *refused);
            assert_eq!(settled.outcome == Outcome::Rejected, *refused > 0);
        }
        let ends = [&self.taken, &self.refused].map(BTreeMap::len);
        assert!(self.taken.values().chain(self.refused.values()).all(|times| *times == 1));
        assert_eq!(ends.iter().sum::<usize>() as u64, self.payloads.iter().sum::<u64>());
        assert_eq!(self.passed_on.len(), self.refused.len());
    }
}

#[test]
fn each_event_is_delivered_or_refused_once_in_any_order_of_answers() {
    Seed::of_test().cases(CASES).for_each(|seed| Simulation::new(seed).run());
}

#[test]
fn a_request_in_a_pause_holds_back_no_other() {
    let (mut queue, mut ids, now) = (Queue::default(), RequestIds::new(), Instant::now());
    for _ in 0..2 {
        let number = queue.open(&[payload(2)]);
        queue.packed(number, vec![request(EventSet::of(0..2))], Vec::new(), &mut ids);
    }
    let send = |queue: &mut Queue, now| {
        let mut sent = None;
        let result: Result<(), ()> = queue.send(now, |_, number| {
            sent = Some(number);
            Ok(())
        });
        result.map(|()| sent).unwrap()
    };
    let first = send(&mut queue, now).and_then(|number| queue.take(number)).unwrap();
    let failure = Failure { position: 1, judgement: Judgement::Blocked, reason: String::new() };
    let pauses = Pauses { now, blocked_until: now + 5000 * MS, random: 0 };
    let repair = queue.judged(first, vec![failure], true, pauses).unwrap();
    let (_, _, repaired) = repair.begin();
    let again = vec![(request(EventSet::of(1..2)), Some(now + 5000 * MS))];
    queue.repaired(repaired, again, &mut ids);
    let second = send(&mut queue, now).and_then(|number| queue.take(number)).unwrap();
    assert!(queue.judged(second, Vec::new(), true, pauses).is_none());
    let mut done = Vec::new();
    queue.settle(&mut done);
    assert_eq!((done.len(), queue.batches()), (0, 2), "oldest first");
    assert_eq!((queue.has_ready(now), queue.next_at(now)), (false, Some(now + 5000 * MS)));
    let last = send(&mut queue, now + 5000 * MS).and_then(|number| queue.take(number)).unwrap();
    queue.judged(last, Vec::new(), true, pauses);
    queue.settle(&mut done);
    assert_eq!(done.len(), 2);
}
