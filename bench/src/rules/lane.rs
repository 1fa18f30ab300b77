//! Runs plans over blocks: evaluation as on a worker, and the merge of partial results as on a
//! lane.

use super::lines::Block;
use crate::measure::{Samples, thread_cpu_seconds};
use millstream_groups::Groups;
use millstream_rules::{
    Evaluator, FrequentKeys, KeyGroups, MergeBuffers, MergeTarget, Partial, PartialReader, Plan,
    Task,
};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Approximate time of a sample in seconds. The passes over the blocks are repeated to reach it.
const SAMPLE_S: f64 = 0.1;
/// Maximum number of groups per task.
const GROUPS_MAX: usize = 1 << 20;

/// A plan with its tables.
struct Lane {
    plan: Plan,
    evaluator: Evaluator,
    /// The groups of each task, and the overflow group for events beyond the limit.
    tables: Vec<(Groups, Groups, KeyGroups)>,
    frequent: FrequentKeys,
    buffers: MergeBuffers,
    bytes: Vec<u8>,
}

/// Cost of a pass, and the number of its matches.
#[derive(Clone, Copy, Default)]
struct Cost {
    evaluate_s: f64,
    merge_s: f64,
    matched: u64,
}

/// One plan for all tasks, or one plan per task, over the same blocks.
pub struct Contender {
    lanes: Vec<Lane>,
    blocks: Rc<[Block]>,
    passes: usize,
    /// Figures of all samples.
    pub figures: Figures,
}

/// Results of a contender: ns per line, and matching tasks per line.
#[derive(Clone, Default)]
pub struct Figures {
    /// ns per line to evaluate the tasks and to create the partial results.
    pub evaluate_ns: Samples,
    /// ns per line to merge the partial results.
    pub merge_ns: Samples,
    /// Sum of `evaluate_ns` and `merge_ns`.
    pub ns: Samples,
    /// Matching tasks per line.
    pub matches: f64,
    /// CPU milliseconds to create the plans and their tables.
    pub plan_ms: f64,
}

impl Figures {
    /// Returns the number of lines per second.
    pub fn lines_per_s(&self) -> f64 {
        1e9 / self.ns.median()
    }
}

impl Lane {
    fn new(tasks: &[Arc<Task>]) -> io::Result<Lane> {
        let plan = Plan::new(tasks).map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        let table = |(task, plan): (&Arc<Task>, &millstream_rules::TaskPlan)| {
            let layout = plan.layout();
            let groups = Groups::new(layout.clone(), task.keys.len(), GROUPS_MAX);
            (groups, Groups::new(layout.clone(), 0, 1), KeyGroups::default())
        };
        let tables = tasks.iter().zip(plan.tasks()).map(table).collect();
        Ok(Lane {
            frequent: FrequentKeys::new(&plan),
            plan,
            evaluator: Evaluator::default(),
            tables,
            buffers: MergeBuffers::default(),
            bytes: Vec::new(),
        })
    }

    fn pass(&mut self, blocks: &[Block], cost: &mut Cost) {
        for block in blocks {
            let start = thread_cpu_seconds();
            self.evaluate(block, cost);
            let evaluated = thread_cpu_seconds();
            self.merge();
            cost.evaluate_s += evaluated - start;
            cost.merge_s += thread_cpu_seconds() - evaluated;
        }
    }

    fn evaluate(&mut self, block: &Block, cost: &mut Cost) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let mut partial = Partial::new(bytes);
        block.with_rows(|rows| self.evaluator.add_up(&self.plan, rows, &mut partial));
        cost.matched += self.evaluator.take_counts().map(|(_, of)| of.matched).sum::<u64>();
        self.bytes = partial.into_bytes();
    }

    /// Merges the partial results as a lane does.
    fn merge(&mut self) {
        let Some(mut reader) = PartialReader::new(&self.bytes) else { return };
        reader.number_keys(&mut self.frequent);
        while let Some(section) = reader.next(&self.plan) {
            let (groups, overflow, of_keys) = &mut self.tables[section.task];
            let target = MergeTarget { groups, overflow, of_keys, may_add: true };
            section.merge(&reader, target, &mut self.buffers);
        }
    }
}

impl Contender {
    /// Creates one plan for all tasks.
    pub fn shared(tasks: &[Arc<Task>], blocks: &Rc<[Block]>) -> io::Result<Contender> {
        Contender::new(std::iter::once(tasks), blocks)
    }

    /// Creates one plan per task.
    pub fn alone(tasks: &[Arc<Task>], blocks: &Rc<[Block]>) -> io::Result<Contender> {
        Contender::new(tasks.chunks(1), blocks)
    }

    /// Creates a contender. Two passes fill the tables and the caches, and determine the number of
    /// passes of a sample.
    fn new<'t>(
        plans: impl Iterator<Item = &'t [Arc<Task>]>,
        blocks: &Rc<[Block]>,
    ) -> io::Result<Contender> {
        let start = thread_cpu_seconds();
        let lanes: Vec<Lane> = plans.map(Lane::new).collect::<io::Result<_>>()?;
        let plan_ms = (thread_cpu_seconds() - start) * 1e3;
        let figures = Figures { plan_ms, ..Figures::default() };
        let mut contender = Contender { lanes, blocks: blocks.clone(), passes: 1, figures };
        let first = contender.passes();
        let again = contender.passes();
        let pass_s = (again.evaluate_s + again.merge_s).min(first.evaluate_s + first.merge_s);
        contender.passes = (SAMPLE_S / pass_s).ceil().max(1.0) as usize;
        Ok(contender)
    }

    fn passes(&mut self) -> Cost {
        let mut cost = Cost::default();
        for _ in 0..self.passes {
            self.lanes.iter_mut().for_each(|lane| lane.pass(&self.blocks, &mut cost));
        }
        cost
    }

    /// Measures a sample.
    pub fn sample(&mut self) {
        let cost = self.passes();
        let lines = self.passes * self.blocks.iter().map(|block| block.rows).sum::<usize>();
        let per_line = |seconds: f64| seconds * 1e9 / lines as f64;
        self.figures.evaluate_ns.push(per_line(cost.evaluate_s));
        self.figures.merge_ns.push(per_line(cost.merge_s));
        self.figures.ns.push(per_line(cost.evaluate_s + cost.merge_s));
        self.figures.matches = cost.matched as f64 / lines as f64;
    }

    /// Returns the number of groups across all tasks.
    pub fn groups(&self) -> usize {
        let tables = self.lanes.iter().flat_map(|lane| &lane.tables);
        tables.map(|(groups, ..)| groups.len()).sum()
    }
}

/// Measures contenders alternately, so that a change of the host's speed affects all of them.
pub fn alternate(contenders: &mut [&mut Contender], repetitions: usize) {
    for _ in 0..repetitions {
        contenders.iter_mut().for_each(|contender| contender.sample());
    }
}
