//! The plan of all tasks: distinct fields, gates, and shared conditions.

mod fields;
mod gates;
mod literals;
mod search;

pub use fields::InvalidField;
pub(crate) use fields::{Compute, EventField, FieldId, Fields, Left, Right};
pub(crate) use gates::{Gates, Index, LiteralIndex, PostingId, ValueIndex};

use crate::task::Task;
use gates::{Candidate, GateBuilder};
use millstream_expressions::{Expression, Test};
use millstream_groups::Layout;
use std::collections::HashMap;
use std::sync::Arc;

/// Everything that is computed for a set of tasks, with what they share.
#[derive(Debug)]
pub struct Plan {
    pub(crate) tasks: Vec<TaskPlan>,
    pub(crate) fields: Fields,
    pub(crate) gates: Gates,
    /// Number of conditions that several tasks have.
    pub(crate) shared_tests: usize,
    /// The distinct lists of keys.
    pub(crate) keys: Vec<KeyPlan>,
    /// Number of keys whose ids several tasks use.
    pub(crate) shared_keys: usize,
}

/// A task in a plan.
#[derive(Debug)]
pub struct TaskPlan {
    pub(crate) task: Arc<Task>,
    pub(crate) gate: Gate,
    /// What remains to be tested of a row that passes the gate, the cheapest first.
    pub(crate) tests: Vec<TestPlan>,
    /// Index in [`Plan::keys`]; `None` without keys.
    pub(crate) keys: Option<usize>,
    /// The field of each input.
    pub(crate) inputs: Vec<Option<FieldId>>,
    /// The words of a group.
    pub(crate) layout: Arc<Layout>,
}

/// Which rows a task looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All.
    Open,
    /// Those in the rows of one of these postings.
    Postings(Vec<PostingId>),
}

/// A condition of a task.
#[derive(Debug)]
pub(crate) struct TestPlan {
    pub expression: Arc<Expression>,
    /// The fields of the task that it reads, by the names that it has for them.
    pub names: Vec<(String, FieldId)>,
    /// Index of the rows that are known to match, if several tasks have this condition.
    pub shared: Option<usize>,
}

/// A list of keys.
#[derive(Debug)]
pub(crate) struct KeyPlan {
    pub fields: Vec<FieldId>,
    /// Index of the ids of rows, if several tasks have these keys.
    pub shared: Option<usize>,
}

impl Plan {
    /// Plans a set of tasks.
    ///
    /// # Errors
    ///
    /// A field or a condition cannot be computed.
    pub fn new(tasks: &[Arc<Task>]) -> Result<Plan, InvalidField> {
        let mut planner = Planner::default();
        let drafts: Result<Vec<Draft>, InvalidField> =
            tasks.iter().map(|task| planner.draft(task)).collect();
        Ok(planner.finish(drafts?))
    }

    /// Returns the tasks, in the order in which they were given.
    pub fn tasks(&self) -> &[TaskPlan] {
        &self.tasks
    }

    /// Returns the fields that a task reads, with that of its gate, each once.
    pub(crate) fn fields_of(&self, task: usize) -> Vec<FieldId> {
        let task = &self.tasks[task];
        let mut fields = fields_of(task, &self.keys);
        if let Gate::Postings(postings) = &task.gate
            && let Some(field) = postings.first().and_then(|first| self.gates.field_of(*first))
        {
            fields.push(field);
            fields.sort();
            fields.dedup();
        }
        fields
    }

    /// Whether a task has windows by the times of events.
    pub fn has_log_windows(&self) -> bool {
        self.tasks.iter().any(|task| task.task.window_ns.is_some())
    }
}

impl TaskPlan {
    /// Returns the name of the task.
    pub fn name(&self) -> &str {
        &self.task.name
    }

    /// Returns the words of a group.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }
}

/// A condition that is not yet known to be shared.
struct DraftTest {
    expression: Arc<Expression>,
    names: Vec<(String, FieldId)>,
    candidate: Option<Candidate>,
}

/// A task whose fields are known.
struct Draft {
    task: Arc<Task>,
    tests: Vec<DraftTest>,
    keys: Vec<FieldId>,
    inputs: Vec<Option<FieldId>>,
}

/// Conditions of the same text over the same fields are one.
type TestKey = (String, Vec<(String, FieldId)>);

#[derive(Default)]
struct Planner {
    fields: Fields,
    gates: GateBuilder,
}

impl Planner {
    fn draft(&mut self, task: &Arc<Task>) -> Result<Draft, InvalidField> {
        let conjuncts = task.condition.as_ref().map(|of| of.conjuncts()).transpose();
        let conjuncts = conjuncts.map_err(|fault| InvalidField(fault.to_string()))?;
        let tests: Result<Vec<DraftTest>, InvalidField> =
            conjuncts.into_iter().flatten().map(|test| self.draft_test(task, test)).collect();
        let mut id = |name: &String| self.fields.id(task.field(name));
        let keys: Result<Vec<FieldId>, InvalidField> = task.keys.iter().map(&mut id).collect();
        let inputs: Result<Vec<Option<FieldId>>, InvalidField> =
            task.inputs.iter().map(|input| input.field.as_ref().map(&mut id).transpose()).collect();
        Ok(Draft { task: task.clone(), tests: tests?, keys: keys?, inputs: inputs? })
    }

    fn draft_test(&mut self, task: &Task, test: Expression) -> Result<DraftTest, InvalidField> {
        let names = self.names(task, &test)?;
        let candidate = match tested_field(&test) {
            Some(path) => match own_name(task, path) {
                Some(name) if name != path => None,
                _ => Some(self.fields.id(task.field(path))?),
            },
            None => None,
        };
        let candidate = candidate.and_then(|field| self.gates.candidate(field, &test));
        Ok(DraftTest { expression: Arc::new(test), names, candidate })
    }

    /// Returns the fields of the task that a condition reads, and if there are any, also those of
    /// the event.
    fn names(
        &mut self,
        task: &Task,
        test: &Expression,
    ) -> Result<Vec<(String, FieldId)>, InvalidField> {
        if test.fields().all(|path| own_name(task, path).is_none()) {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for path in test.fields() {
            let name = own_name(task, path).unwrap_or(path);
            names.push((name.to_owned(), self.fields.id(task.field(name))?));
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn finish(mut self, drafts: Vec<Draft>) -> Plan {
        let uses = count_tests(&drafts);
        let mut shared = HashMap::new();
        let keys = plan_keys(&drafts);
        let mut tasks = Vec::new();
        for (number, mut draft) in drafts.into_iter().enumerate() {
            let (chosen, is_exact) = self.gates.choose(&draft.tests);
            let gate = match chosen {
                Some(at) => {
                    let candidate = draft.tests[at].candidate.as_ref();
                    Gate::Postings(candidate.map_or(Vec::new(), |of| self.gates.add(number, of)))
                }
                None => Gate::Open,
            };
            let rest = std::mem::take(&mut draft.tests).into_iter().enumerate();
            let rest = rest.filter(|(at, _)| Some(*at) != chosen || !is_exact);
            let mut tests: Vec<TestPlan> =
                rest.map(|(_, test)| plan_test(test, &uses, &mut shared)).collect();
            tests.sort_by_key(|test| (cost(&test.expression), test.shared.is_none()));
            let key = keys.iter().position(|key| key.fields == draft.keys);
            let keys = key.filter(|_| !draft.keys.is_empty());
            let layout = Arc::new(draft.task.layout());
            let Draft { task, inputs, .. } = draft;
            tasks.push(TaskPlan { task, gate, tests, keys, inputs, layout });
        }
        self.plan(tasks, keys, shared.len())
    }

    fn plan(mut self, tasks: Vec<TaskPlan>, keys: Vec<KeyPlan>, shared_tests: usize) -> Plan {
        let is_open = |number: &u32| tasks[*number as usize].gate == Gate::Open;
        let open = (0..tasks.len() as u32).filter(is_open).collect();
        let gates = self.gates.finish(open);
        let users: Vec<Vec<FieldId>> = tasks.iter().map(|task| fields_of(task, &keys)).collect();
        self.fields.place(&users, &gates.fields());
        self.fields.place_numbers(&tasks);
        let shared_keys = keys.iter().filter(|key| key.shared.is_some()).count();
        Plan { tasks, fields: self.fields, gates, shared_tests, keys, shared_keys }
    }
}

/// Returns the field of the task that a path begins with: `a.b`, else `a`.
fn own_name<'p>(task: &Task, path: &'p str) -> Option<&'p str> {
    let ends = path.match_indices('.').map(|(at, _)| at).chain([path.len()]);
    let mut names: Vec<&str> = ends.map(|end| &path[..end]).collect();
    names.reverse();
    names.into_iter().find(|name| task.fields.iter().any(|(own, _)| own == name))
}

fn tested_field(test: &Expression) -> Option<&str> {
    match test.test() {
        Test::OneOf(path, _)
        | Test::Contains(path, _)
        | Test::StartsWith(path, _)
        | Test::EndsWith(path, _)
        | Test::Matches(path, _) => Some(path),
        Test::Compare(_) | Test::Other => None,
    }
}

/// Returns the rank of a condition by the time that it takes per row.
fn cost(test: &Expression) -> u8 {
    match test.test() {
        Test::OneOf(..) | Test::Compare(_) => 0,
        Test::StartsWith(..) | Test::EndsWith(..) => 1,
        Test::Contains(..) => 2,
        Test::Matches(..) => 3,
        Test::Other => 4,
    }
}

fn key_of(test: &DraftTest) -> TestKey {
    (test.expression.to_string(), test.names.clone())
}

/// Counts the tasks that have each condition.
fn count_tests(drafts: &[Draft]) -> HashMap<TestKey, usize> {
    let mut uses = HashMap::new();
    for test in drafts.iter().flat_map(|draft| &draft.tests) {
        *uses.entry(key_of(test)).or_insert(0) += 1;
    }
    uses
}

fn plan_test(
    test: DraftTest,
    uses: &HashMap<TestKey, usize>,
    shared: &mut HashMap<TestKey, usize>,
) -> TestPlan {
    let key = key_of(&test);
    let is_shared = uses.get(&key).is_some_and(|uses| *uses > 1);
    let next = shared.len();
    let shared = is_shared.then(|| *shared.entry(key).or_insert(next));
    TestPlan { expression: test.expression, names: test.names, shared }
}

/// Returns the distinct lists of keys.
fn plan_keys(drafts: &[Draft]) -> Vec<KeyPlan> {
    let (mut uses, mut order) = (HashMap::new(), Vec::new());
    for keys in drafts.iter().map(|draft| &draft.keys).filter(|keys| !keys.is_empty()) {
        let count = uses.entry(keys).or_insert(0);
        *count += 1;
        if *count == 1 {
            order.push(keys);
        }
    }
    let mut number = 0;
    let plan = |keys: &Vec<FieldId>| {
        let shared = (uses[keys] > 1).then(|| {
            number += 1;
            number - 1
        });
        KeyPlan { fields: keys.clone(), shared }
    };
    order.into_iter().map(plan).collect()
}

/// Returns the fields that a task reads, each once.
fn fields_of(task: &TaskPlan, keys: &[KeyPlan]) -> Vec<FieldId> {
    let of_tests = task.tests.iter().flat_map(|test| &test.names).map(|(_, id)| *id);
    let of_keys = task.keys.iter().flat_map(|keys_of| &keys[*keys_of].fields).copied();
    let mut all: Vec<FieldId> =
        of_tests.chain(of_keys).chain(task.inputs.iter().flatten().copied()).collect();
    all.sort();
    all.dedup();
    all
}
