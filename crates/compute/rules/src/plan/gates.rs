//! Gates: indexes by value, and searches for the literals of all tasks.

use super::DraftTest;
use super::fields::{Compute, FieldId, Fields};
use super::literals::required_literals;
use super::search::{LITERAL_BYTES_MIN, LiteralSearch};
use foldhash::fast::RandomState;
use millstream_expressions::{Expression, Literal, Test};
use millstream_groups::{TextKey, is_long, key};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Maximum number of values that one condition may add to an index.
const VALUES_MAX: usize = 64;

/// Maximum absolute value of an int that an index can look up. Conditions compare ints with floats
/// as floats. Beyond 2^53, one float equals several ints, but an index would find only one of them.
const INDEXED_INT_MAX: u64 = 1 << 53;

/// Index of a posting, which is the list of rows with one value or literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PostingId(pub u32);

impl PostingId {
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A value that an index can look up.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Value {
    Text(Box<[u8]>),
    Int(i64),
}

/// A condition that could be the gate of a task.
#[derive(Debug)]
pub struct Candidate {
    field: FieldId,
    keys: Keys,
}

#[derive(Debug)]
enum Keys {
    /// The field equals one of these values.
    Values(Vec<Value>),
    /// The field contains one of these literals. The flag is true if the condition tests nothing
    /// else.
    Literals(Vec<Box<[u8]>>, bool),
}

/// The tasks that use a posting.
#[derive(Debug, Default)]
struct Posting {
    single: Vec<u32>,
    several: Vec<u32>,
}

/// Stores one list of tasks per posting, concatenated.
#[derive(Debug, Default)]
pub struct TaskLists {
    ends: Vec<u32>,
    tasks: Vec<u32>,
}

impl TaskLists {
    fn new<'l>(lists: impl Iterator<Item = &'l [u32]>) -> TaskLists {
        let mut all = TaskLists::default();
        for list in lists {
            all.tasks.extend_from_slice(list);
            all.ends.push(all.tasks.len() as u32);
        }
        all
    }

    /// Returns the tasks that use a posting.
    #[inline(always)]
    pub fn of(&self, posting: PostingId) -> &[u32] {
        let at = posting.index();
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tasks[start as usize..self.ends[at] as usize]
    }
}

/// Finds the postings of a row.
#[derive(Debug)]
pub enum Index {
    Values(ValueIndex),
    Literals(LiteralIndex),
}

impl Index {
    /// Returns the field that is searched.
    pub fn field(&self) -> FieldId {
        match self {
            Index::Values(index) => index.field,
            Index::Literals(index) => index.field,
        }
    }
}

/// Finds postings by the value of a field.
#[derive(Debug)]
pub struct ValueIndex {
    pub field: FieldId,
    /// Postings by short string. The string is the key.
    short: HashMap<TextKey, PostingId, RandomState>,
    long: HashMap<Box<[u8]>, PostingId, RandomState>,
    ints: HashMap<i64, PostingId, RandomState>,
}

/// Finds postings by the literals that a field contains.
#[derive(Debug)]
pub struct LiteralIndex {
    pub field: FieldId,
    pub search: LiteralSearch,
    /// The posting of each literal.
    pub postings: Vec<PostingId>,
}

/// Indexes by the values of fields that begin after the same string.
#[derive(Debug)]
pub struct LeftIndexes {
    /// Index of the string in [`Fields::lefts`].
    pub left: usize,
    /// Positions in [`Gates::indexes`].
    pub indexes: Vec<usize>,
}

/// The gates of all tasks.
#[derive(Debug, Default)]
pub struct Gates {
    pub indexes: Vec<Index>,
    /// Tasks that use only one posting.
    pub single: TaskLists,
    /// Tasks that use several postings.
    pub several: TaskLists,
    /// Indexes that are looked up together, because their fields begin after the same string.
    pub lefts: Vec<LeftIndexes>,
    /// Positions in `indexes` of the indexes that are not in `lefts`.
    pub others: Vec<usize>,
    /// Number of postings.
    pub postings: usize,
    /// Tasks that examine all rows.
    pub open: Vec<u32>,
}

impl Gates {
    /// Groups the indexes by the string after which their fields begin.
    pub fn group(&mut self, fields: &Fields) {
        let mut lefts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, index) in self.indexes.iter().enumerate() {
            match (index, &fields.list[index.field().index()].compute) {
                (Index::Values(_), Compute::Between(left, ..)) => {
                    lefts.entry(*left).or_default().push(at);
                }
                _ => self.others.push(at),
            }
        }
        let group = |(left, indexes)| LeftIndexes { left, indexes };
        self.lefts = lefts.into_iter().map(group).collect();
    }

    /// Returns the index to which a posting belongs.
    pub fn index_of(&self, posting: PostingId) -> Option<&Index> {
        self.indexes.iter().find(|index| match index {
            Index::Values(index) => index.postings().any(|other| *other == posting),
            Index::Literals(index) => index.postings.contains(&posting),
        })
    }

    /// Returns the field of a posting's index.
    pub fn field_of(&self, posting: PostingId) -> Option<FieldId> {
        self.index_of(posting).map(Index::field)
    }

    /// Returns the fields that are computed for every row.
    pub fn fields(&self) -> Vec<FieldId> {
        self.indexes.iter().map(Index::field).collect()
    }
}

/// Collects the gates of tasks.
#[derive(Debug, Default)]
pub struct GateBuilder {
    /// The distinct values in conditions on each field. The more values there are, the fewer rows
    /// each of them selects.
    seen: HashMap<FieldId, HashSet<Value>>,
    values: BTreeMap<FieldId, ValueIndex>,
    literals: BTreeMap<FieldId, Literals>,
    postings: Vec<Posting>,
}

/// The literals to search for in a field.
#[derive(Debug, Default)]
struct Literals {
    list: Vec<Box<[u8]>>,
    postings: Vec<PostingId>,
    ids: HashMap<Box<[u8]>, PostingId>,
}

impl GateBuilder {
    /// Returns the values or literals that can serve as a gate for a condition on a field. Returns
    /// `None` if the condition cannot be a gate.
    pub fn candidate(&mut self, field: FieldId, test: &Expression) -> Option<Candidate> {
        let keys = match test.test() {
            Test::OneOf(_, values) => {
                let values: Vec<Value> = values.into_iter().map(Value::from).collect();
                if !is_indexable(&values) {
                    return None;
                }
                Keys::Values(values)
            }
            Test::Contains(_, text) => literal(text, true)?,
            Test::StartsWith(_, text) | Test::EndsWith(_, text) => literal(text, false)?,
            Test::Matches(_, pattern) => {
                let literals = required_literals(pattern, LITERAL_BYTES_MIN)?;
                Keys::Literals(literals.into_iter().map(Into::into).collect(), false)
            }
            Test::Compare(_) | Test::Other => return None,
        };
        if let Keys::Values(values) = &keys {
            self.seen.entry(field).or_default().extend(values.iter().cloned());
        }
        Some(Candidate { field, keys })
    }

    /// Chooses the condition that becomes a task's gate. Returns the index of the condition, and
    /// whether the gate tests everything that the condition tests.
    pub fn choose(&self, tests: &[DraftTest]) -> (Option<usize>, bool) {
        let candidates = tests.iter().enumerate();
        let candidates = candidates.filter_map(|(at, test)| Some((at, test.candidate.as_ref()?)));
        let best = candidates.max_by_key(|(at, candidate)| (self.rank(candidate), usize::MAX - at));
        let is_exact = best.is_some_and(|(_, candidate)| candidate.keys.is_exact());
        (best.map(|(at, _)| at), is_exact)
    }

    /// Ranks a candidate. The fewer rows are expected to pass, the higher the rank. An index
    /// outranks a search.
    fn rank(&self, candidate: &Candidate) -> (bool, usize) {
        match &candidate.keys {
            Keys::Values(values) => {
                let seen = self.seen.get(&candidate.field).map_or(0, HashSet::len);
                (true, seen * 1000 / values.len().max(1))
            }
            Keys::Literals(literals, _) => {
                let shortest = literals.iter().map(|literal| literal.len()).min().unwrap_or(0);
                (false, shortest * 1000 / literals.len().max(1))
            }
        }
    }

    /// Makes a candidate the gate of a task. Returns its postings.
    pub fn add(&mut self, task: usize, candidate: &Candidate) -> Vec<PostingId> {
        let mut postings = match &candidate.keys {
            Keys::Values(values) => {
                let add = |value| self.add_value(candidate.field, value);
                values.iter().map(add).collect::<Vec<_>>()
            }
            Keys::Literals(literals, _) => {
                let literals = literals.iter().map(|literal| &**literal);
                literals.map(|literal| self.add_literal(candidate.field, literal)).collect()
            }
        };
        postings.sort();
        postings.dedup();
        for posting in &postings {
            let posting = &mut self.postings[posting.index()];
            let is_single = postings.len() == 1;
            let list = if is_single { &mut posting.single } else { &mut posting.several };
            list.push(task as u32);
        }
        postings
    }

    fn add_value(&mut self, field: FieldId, value: &Value) -> PostingId {
        let next = PostingId(self.postings.len() as u32);
        let index = self.values.entry(field).or_insert_with(|| ValueIndex::new(field));
        let posting = match value {
            Value::Text(text) => match key(text) {
                key if is_long(key) => *index.long.entry(text.clone()).or_insert(next),
                key => *index.short.entry(key).or_insert(next),
            },
            Value::Int(value) => *index.ints.entry(*value).or_insert(next),
        };
        self.add_posting(posting)
    }

    fn add_literal(&mut self, field: FieldId, literal: &[u8]) -> PostingId {
        let next = PostingId(self.postings.len() as u32);
        let literals = self.literals.entry(field).or_default();
        let posting = *literals.ids.entry(literal.into()).or_insert(next);
        if posting == next {
            literals.list.push(literal.into());
            literals.postings.push(posting);
        }
        self.add_posting(posting)
    }

    fn add_posting(&mut self, posting: PostingId) -> PostingId {
        if posting.index() == self.postings.len() {
            self.postings.push(Posting::default());
        }
        posting
    }

    /// Builds the indexes. `open` lists the tasks without a gate.
    pub fn finish(self, open: Vec<u32>) -> Gates {
        let values = self.values.into_values().map(Index::Values);
        let literals = self.literals.into_iter().map(|(field, literals)| {
            let search = LiteralSearch::new(&literals.list);
            Index::Literals(LiteralIndex { field, search, postings: literals.postings })
        });
        Gates {
            indexes: values.chain(literals).collect(),
            single: TaskLists::new(self.postings.iter().map(|posting| &posting.single[..])),
            several: TaskLists::new(self.postings.iter().map(|posting| &posting.several[..])),
            postings: self.postings.len(),
            open,
            ..Gates::default()
        }
    }
}

impl ValueIndex {
    fn new(field: FieldId) -> ValueIndex {
        ValueIndex {
            field,
            short: HashMap::default(),
            long: HashMap::default(),
            ints: HashMap::default(),
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.short.len() + self.long.len() + self.ints.len()
    }

    fn postings(&self) -> impl Iterator<Item = &PostingId> {
        self.short.values().chain(self.long.values()).chain(self.ints.values())
    }

    /// Returns the posting for `text`, if any condition tests this string.
    #[inline(always)]
    pub fn text(&self, text: &[u8]) -> Option<PostingId> {
        match key(text) {
            key if is_long(key) => self.long.get(text).copied(),
            key => self.short.get(&key).copied(),
        }
    }

    /// Returns the posting for an integer, if any condition tests this integer.
    #[inline]
    pub fn int(&self, value: i64) -> Option<PostingId> {
        self.ints.get(&value).copied()
    }
}

impl Keys {
    fn is_exact(&self) -> bool {
        match self {
            Keys::Values(_) => true,
            Keys::Literals(_, is_exact) => *is_exact,
        }
    }
}

/// Returns whether an index can look up the values of a condition.
fn is_indexable(values: &[Value]) -> bool {
    let is_exact = |value: &Value| match value {
        Value::Text(_) => true,
        Value::Int(value) => value.unsigned_abs() <= INDEXED_INT_MAX,
    };
    values.len() <= VALUES_MAX && values.iter().all(is_exact)
}

fn literal(text: &[u8], is_exact: bool) -> Option<Keys> {
    (text.len() >= LITERAL_BYTES_MIN).then(|| Keys::Literals(vec![text.into()], is_exact))
}

impl From<Literal<'_>> for Value {
    fn from(literal: Literal<'_>) -> Value {
        match literal {
            Literal::Text(text) => Value::Text(text.into()),
            Literal::Int(value) => Value::Int(value),
        }
    }
}
