//! The plan for all tasks: distinct fields, gates, and shared conditions.

mod fields;
mod gates;
mod literals;
mod search;

pub use fields::InvalidField;
pub(crate) use fields::{Compute, EventField, FieldId, FieldPlan, Fields, Left, Right};
pub(crate) use gates::{Gates, Index, LeftIndexes, LiteralIndex, PostingId, ValueIndex};

use crate::task::Task;
use gates::{Candidate, GateBuilder};
use millstream_expressions::{Expression, Test};
use millstream_groups::{Accumulator, Layout};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The computations for a set of tasks. Tasks share equal computations.
#[derive(Debug)]
pub struct Plan {
    pub(crate) tasks: Vec<TaskPlan>,
    pub(crate) fields: Fields,
    pub(crate) gates: Gates,
    /// Number of conditions that several tasks share.
    pub(crate) shared_tests: usize,
    /// The distinct lists of key fields.
    pub(crate) keys: Vec<KeyPlan>,
    /// Number of key lists for which several tasks share row keys.
    pub(crate) shared_keys: usize,
    /// The head of each task. A batch reads only the heads of tasks that have rows.
    pub(crate) heads: Vec<TaskHead>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) bulks: Vec<Bulk>,
}

/// The part of a task that is read first. It is small because thousands of tasks have only a few
/// rows each in a batch, and each head must be loaded from memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskHead {
    /// Index in [`Plan::shapes`].
    pub shape: u32,
    /// Index in [`Plan::bulks`], or [`NO_BULK`].
    pub bulk: u32,
    /// Whether there are conditions to evaluate for rows that pass the gate.
    pub has_tests: bool,
}

/// Marks a task that does not belong to a bulk.
pub(crate) const NO_BULK: u32 = u32::MAX;

/// Tasks whose rows are tested, grouped and parsed together before each task is visited. This is
/// faster because each task has only a few rows in a batch.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// One of the tasks.
    pub task: u32,
    /// Whether the tasks share their first condition, which is then tested for all of them at once.
    pub has_test: bool,
    /// Shape of the tasks, if there are no other conditions.
    pub shape: Option<u32>,
}

/// The accumulators and keys of a task. Many tasks share a shape.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Index in [`Plan::keys`]. `None` if the task has no keys.
    pub keys: Option<usize>,
    pub inputs: Vec<InputPlan>,
    /// Length of the windows in nanoseconds, if they follow event time.
    pub window_ns: Option<i64>,
    /// The initial words of a group, before any event is added.
    pub fresh: Vec<u64>,
}

/// An accumulator of a shape.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct InputPlan {
    pub accumulator: Accumulator,
    /// Index of the accumulator's first word.
    pub offset: usize,
    pub field: Option<FieldId>,
}

/// A task in a plan.
#[derive(Debug)]
pub struct TaskPlan {
    pub(crate) task: Arc<Task>,
    pub(crate) gate: Gate,
    /// Conditions to evaluate for rows that pass the gate, the cheapest first.
    pub(crate) tests: Vec<TestPlan>,
    /// Index in [`Plan::keys`]. `None` if the task has no keys.
    pub(crate) keys: Option<usize>,
    /// For each input, the field that it reads.
    pub(crate) inputs: Vec<Option<FieldId>>,
    /// The layout of a group's words.
    pub(crate) layout: Arc<Layout>,
}

/// Determines which rows a task examines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All rows.
    Open,
    /// The rows in any of these postings.
    Postings(Vec<PostingId>),
}

/// A condition of a task.
#[derive(Debug)]
pub(crate) struct TestPlan {
    pub expression: Arc<Expression>,
    /// The task fields that the condition reads, with their names in the task.
    pub names: Vec<(String, FieldId)>,
    /// Index of the stored results, if several tasks share this condition.
    pub shared: Option<usize>,
}

/// A list of key fields.
#[derive(Debug)]
pub(crate) struct KeyPlan {
    pub fields: Vec<FieldId>,
    /// Index of the stored row keys, if several tasks share this list.
    pub shared: Option<usize>,
    /// Whether enough tasks share this list to number its frequent keys.
    pub has_many_tasks: bool,
}

impl InputPlan {
    /// Returns whether the accumulator reads its field as a number.
    pub fn reads_numbers(&self) -> bool {
        match self.accumulator {
            Accumulator::Distinct | Accumulator::Top { .. } | Accumulator::Samples { .. } => false,
            Accumulator::Count
            | Accumulator::Sum
            | Accumulator::Min
            | Accumulator::Max
            | Accumulator::Last
            | Accumulator::Quantiles => true,
        }
    }
}

impl Plan {
    /// Plans a set of tasks.
    ///
    /// # Errors
    ///
    /// Returns an error if a field or a condition cannot be computed.
    pub fn new(tasks: &[Arc<Task>]) -> Result<Plan, InvalidField> {
        let mut planner = Planner::default();
        let drafts: Result<Vec<Draft>, InvalidField> =
            tasks.iter().map(|task| planner.draft(task)).collect();
        Ok(planner.finish(drafts?))
    }

    /// Returns the tasks in their original order.
    pub fn tasks(&self) -> &[TaskPlan] {
        &self.tasks
    }

    /// Returns the distinct fields that a task reads, including the field of its gate.
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

    /// Returns the shape of a task.
    #[inline(always)]
    pub(crate) fn shape_of(&self, task: usize) -> &Shape {
        &self.shapes[self.heads[task].shape as usize]
    }

    /// Returns whether any task has windows that follow event time.
    pub fn has_log_windows(&self) -> bool {
        self.tasks.iter().any(|task| task.task.window_ns.is_some())
    }
}

impl TaskPlan {
    /// Returns the name of the task.
    pub fn name(&self) -> &str {
        &self.task.name
    }

    /// Returns the layout of a group's words.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn shape(&self) -> Shape {
        let places = self.layout.accumulators().iter().zip(self.layout.offsets());
        let inputs = places.zip(&self.inputs);
        let input = |((accumulator, offset), field): ((&Accumulator, &usize), &Option<FieldId>)| {
            InputPlan { accumulator: *accumulator, offset: *offset, field: *field }
        };
        let mut fresh = vec![0; self.layout.words()];
        self.layout.fresh(&mut fresh);
        Shape {
            keys: self.keys,
            inputs: inputs.map(input).collect(),
            window_ns: self.task.window_ns,
            fresh,
        }
    }
}

/// Minimum number of tasks at which shared work is done for all of their rows at once.
const MANY_TASKS: usize = if cfg!(test) { 2 } else { 8 };

/// Returns the head of each task, and the distinct shapes.
fn shapes(tasks: &[TaskPlan]) -> (Vec<TaskHead>, Vec<Shape>) {
    let mut numbers: HashMap<Shape, u32> = HashMap::new();
    let head = |task: &TaskPlan| {
        let next = numbers.len() as u32;
        let shape = *numbers.entry(task.shape()).or_insert(next);
        TaskHead { shape, bulk: NO_BULK, has_tests: !task.tests.is_empty() }
    };
    let heads = tasks.iter().map(head).collect();
    let mut shapes: Vec<(Shape, u32)> = numbers.into_iter().collect();
    shapes.sort_unstable_by_key(|(_, number)| *number);
    (heads, shapes.into_iter().map(|(shape, _)| shape).collect())
}

/// Returns the bulks, and sets the bulk in each task's head.
fn bulks(tasks: &[TaskPlan], heads: &mut [TaskHead]) -> Vec<Bulk> {
    let mut members: BTreeMap<(Option<usize>, Option<u32>), Vec<usize>> = BTreeMap::new();
    for (at, (task, head)) in tasks.iter().zip(&*heads).enumerate() {
        let has_one_posting = matches!(&task.gate, Gate::Postings(list) if list.len() == 1);
        let test = task.tests.first().map(|test| test.shared);
        if has_one_posting && test != Some(None) {
            let shape = (task.tests.len() < 2).then_some(head.shape);
            members.entry((test.flatten(), shape)).or_default().push(at);
        }
    }
    let mut bulks = Vec::new();
    for ((test, shape), members) in
        members.into_iter().filter(|(_, tasks)| tasks.len() >= MANY_TASKS)
    {
        members.iter().for_each(|task| heads[*task].bulk = bulks.len() as u32);
        bulks.push(Bulk { task: members[0] as u32, has_test: test.is_some(), shape });
    }
    bulks
}

/// A condition for which it is not known yet whether tasks share it.
struct DraftTest {
    expression: Arc<Expression>,
    names: Vec<(String, FieldId)>,
    candidate: Option<Candidate>,
}

/// A task whose fields have ids.
struct Draft {
    task: Arc<Task>,
    tests: Vec<DraftTest>,
    keys: Vec<FieldId>,
    inputs: Vec<Option<FieldId>>,
}

/// Identifies a condition. Conditions with the same text and the same fields are equal.
type TestKey = (String, Vec<(String, FieldId)>);

/// The distinct layouts of all tasks.
#[derive(Default)]
struct Layouts(HashMap<Vec<Accumulator>, Arc<Layout>>);

impl Layouts {
    fn of(&mut self, task: &Task) -> Arc<Layout> {
        let accumulators = task.inputs.iter().map(|input| input.accumulator).collect();
        self.0.entry(accumulators).or_insert_with(|| Arc::new(task.layout())).clone()
    }
}

#[derive(Default)]
struct Planner {
    fields: Fields,
    gates: GateBuilder,
}

impl Planner {
    fn draft(&mut self, task: &Arc<Task>) -> Result<Draft, InvalidField> {
        let conjuncts = task.condition.as_ref().map(|condition| condition.conjuncts()).transpose();
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

    /// Returns the task fields that a condition reads. If there are any, also returns the event
    /// fields that it reads.
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
        let (mut tasks, mut layouts) = (Vec::new(), Layouts::default());
        for (number, mut draft) in drafts.into_iter().enumerate() {
            let (chosen, is_exact) = self.gates.choose(&draft.tests);
            let gate = match chosen {
                Some(at) => {
                    let candidate = draft.tests[at].candidate.as_ref();
                    Gate::Postings(
                        candidate.map_or(Vec::new(), |found| self.gates.add(number, found)),
                    )
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
            let layout = layouts.of(&draft.task);
            let Draft { task, inputs, .. } = draft;
            tasks.push(TaskPlan { task, gate, tests, keys, inputs, layout });
        }
        self.plan(tasks, keys, shared.len())
    }

    fn plan(mut self, tasks: Vec<TaskPlan>, mut keys: Vec<KeyPlan>, shared_tests: usize) -> Plan {
        let is_open = |number: &u32| tasks[*number as usize].gate == Gate::Open;
        let open = (0..tasks.len() as u32).filter(is_open).collect();
        let mut gates = self.gates.finish(open);
        gates.group(&self.fields);
        let users: Vec<Vec<FieldId>> = tasks.iter().map(|task| fields_of(task, &keys)).collect();
        self.fields.place(&users, &gates.fields());
        self.fields.place_numbers(&tasks);
        for (at, key) in keys.iter_mut().enumerate() {
            let users = tasks.iter().filter(|task| task.keys == Some(at));
            key.has_many_tasks = users.count() >= MANY_TASKS;
        }
        let shared_keys = keys.iter().filter(|key| key.shared.is_some()).count();
        let (mut heads, shapes) = shapes(&tasks);
        let bulks = bulks(&tasks, &mut heads);
        let fields = self.fields;
        Plan { tasks, fields, gates, shared_tests, keys, shared_keys, heads, shapes, bulks }
    }
}

/// Returns the task field that is a prefix of a path, preferring a longer name: `a.b`, then `a`.
/// Returns `None` if the path refers to an event field.
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

/// Returns the rank of a condition by its cost per row.
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

/// Counts the tasks that use each condition.
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

/// Returns the distinct lists of key fields.
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
        KeyPlan { fields: keys.clone(), shared, has_many_tasks: false }
    };
    order.into_iter().map(plan).collect()
}

/// Returns the distinct fields that a task reads.
fn fields_of(task: &TaskPlan, keys: &[KeyPlan]) -> Vec<FieldId> {
    let of_tests = task.tests.iter().flat_map(|test| &test.names).map(|(_, id)| *id);
    let of_keys = task.keys.iter().flat_map(|keys_of| &keys[*keys_of].fields).copied();
    let mut all: Vec<FieldId> =
        of_tests.chain(of_keys).chain(task.inputs.iter().flatten().copied()).collect();
    all.sort();
    all.dedup();
    all
}
