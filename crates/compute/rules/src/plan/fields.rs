//! The distinct fields of all tasks, and how to compute each of them.

use super::TaskPlan;
use crate::task::{Extraction, Field, FieldType};
use memchr::memmem::Finder;
use millstream_columns::Step;
use millstream_expressions::Expression;
use millstream_parsers::JsonPaths;
use regex::bytes::Regex;
use std::collections::HashMap;

/// Maximum number of string positions that are stored per row.
const KEPT_MAX: u32 = 64;

/// Index of a field in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldId(pub u32);

impl FieldId {
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A field, and where its values are stored during evaluation.
#[derive(Debug)]
pub struct FieldPlan {
    pub field: Field,
    pub compute: Compute,
    /// Index of the field's values. Fields that only one task uses share an index with such fields
    /// of other tasks.
    pub memo: usize,
    pub is_private: bool,
    /// Whether a task reads the field. Otherwise, only an index reads it.
    pub is_read: bool,
    /// Index of the field's parsed numbers, if several tasks read them.
    pub numbers: Option<usize>,
}

/// How to compute the values of a field.
#[derive(Debug)]
pub enum Compute {
    /// An event field: its index in [`Fields::events`].
    Event(usize),
    /// An event field converted to another type: its index in [`Fields::events`].
    Cast(usize),
    /// A value between two strings: the index of the left string in [`Fields::lefts`], the number
    /// of occurrences to skip, and the right string.
    Between(usize, u32, Right),
    /// A group of a pattern: its index in [`Fields::patterns`].
    Group(usize),
    /// A value in a document: its index in [`Fields::documents`].
    Json(usize),
}

/// The delimiter that ends a value.
#[derive(Debug)]
pub enum Right {
    /// The end of the text.
    None,
    Byte(u8),
    Text(Box<Finder<'static>>),
}

impl Right {
    fn new(text: &[u8]) -> Right {
        match text {
            [] => Right::None,
            [byte] => Right::Byte(*byte),
            _ => Right::Text(Box::new(Finder::new(text).into_owned())),
        }
    }
}

/// A string after which values begin.
#[derive(Debug)]
pub struct Left {
    /// Index in [`Fields::events`] of the field to search.
    pub from: usize,
    pub finder: Finder<'static>,
    /// Number of occurrences whose positions are stored, or 0 if only one field needs them.
    pub kept: usize,
}

/// A regular expression.
#[derive(Debug)]
pub struct Pattern {
    pub from: usize,
    pub regex: Regex,
    /// The fields that are groups of the pattern. One search finds all of them.
    pub groups: Vec<(FieldId, usize)>,
}

/// An event field that is parsed as JSON.
#[derive(Debug)]
pub struct Document {
    pub from: usize,
    pub paths: JsonPaths,
    /// The fields that are values in the document, and the index of each value. One pass over the
    /// text finds all of them.
    pub values: Vec<(FieldId, usize)>,
}

/// A field of the event.
#[derive(Debug)]
pub struct EventField {
    pub name: String,
    /// Computes the field if it has no column.
    pub expression: Expression,
}

/// The distinct fields of a plan.
#[derive(Debug, Default)]
pub struct Fields {
    pub list: Vec<FieldPlan>,
    ids: HashMap<Field, FieldId>,
    /// The event fields that tasks read.
    pub events: Vec<EventField>,
    pub lefts: Vec<Left>,
    left_ids: HashMap<(usize, Vec<u8>), usize>,
    pub patterns: Vec<Pattern>,
    pattern_ids: HashMap<(usize, String), usize>,
    pub documents: Vec<Document>,
    /// Number of memos.
    pub memos: usize,
    /// Number of number memos.
    pub number_memos: usize,
}

impl Fields {
    /// Returns the id of a field.
    ///
    /// # Errors
    ///
    /// Returns an error if a pattern is invalid or does not contain the group.
    pub fn id(&mut self, field: Field) -> Result<FieldId, InvalidField> {
        if let Some(id) = self.ids.get(&field) {
            return Ok(*id);
        }
        let id = FieldId(self.list.len() as u32);
        let compute = self.compute(&field)?;
        self.ids.insert(field.clone(), id);
        self.list.push(FieldPlan {
            field,
            compute,
            memo: 0,
            is_private: true,
            is_read: false,
            numbers: None,
        });
        Ok(id)
    }

    fn compute(&mut self, field: &Field) -> Result<Compute, InvalidField> {
        Ok(match &field.extraction {
            Extraction::Event(name) => match field.kind {
                FieldType::Text => Compute::Event(self.event(name)?),
                FieldType::Int | FieldType::Float => Compute::Cast(self.event(name)?),
            },
            Extraction::Between { from, left, index, right } => {
                Compute::Between(self.left(from, left)?, *index, Right::new(right))
            }
            // A part is the text between two delimiters.
            Extraction::Part { from, delimiter, index } => {
                let left = if *index == 0 { &[] } else { &delimiter[..] };
                let right = Right::new(delimiter);
                Compute::Between(self.left(from, left)?, index.saturating_sub(1), right)
            }
            Extraction::Group { from, pattern, group } => self.group(from, pattern, group)?,
            Extraction::Json { from, .. } => Compute::Json(self.document(from)?),
        })
    }

    fn event(&mut self, name: &str) -> Result<usize, InvalidField> {
        if let Some(known) = self.events.iter().position(|known| known.name == name) {
            return Ok(known);
        }
        let expression =
            Expression::field(name).map_err(|fault| InvalidField(fault.to_string()))?;
        self.events.push(EventField { name: name.to_owned(), expression });
        Ok(self.events.len() - 1)
    }

    fn left(&mut self, from: &str, left: &[u8]) -> Result<usize, InvalidField> {
        let from = self.event(from)?;
        let next = self.lefts.len();
        let at = *self.left_ids.entry((from, left.to_vec())).or_insert(next);
        if at == next {
            self.lefts.push(Left { from, finder: Finder::new(left).into_owned(), kept: 0 });
        }
        Ok(at)
    }

    fn group(&mut self, from: &str, pattern: &str, group: &str) -> Result<Compute, InvalidField> {
        let from = self.event(from)?;
        let next = self.patterns.len();
        let at = *self.pattern_ids.entry((from, pattern.to_owned())).or_insert(next);
        if at == next {
            let regex = Regex::new(pattern).map_err(|error| InvalidField(error.to_string()))?;
            self.patterns.push(Pattern { from, regex, groups: Vec::new() });
        }
        let regex = &self.patterns[at].regex;
        let by_name = regex.capture_names().position(|name| name == Some(group));
        let number = by_name.or_else(|| group.parse().ok());
        let number = number.filter(|number| *number < regex.captures_len());
        let missing = || InvalidField(format!("`{pattern}` has no group `{group}`"));
        let number = number.ok_or_else(missing)?;
        self.patterns[at].groups.push((FieldId(self.list.len() as u32), number));
        Ok(Compute::Group(at))
    }

    fn document(&mut self, from: &str) -> Result<usize, InvalidField> {
        let from = self.event(from)?;
        let known = self.documents.iter().position(|document| document.from == from);
        Ok(known.unwrap_or_else(|| {
            let paths = JsonPaths::default();
            self.documents.push(Document { from, paths, values: Vec::new() });
            self.documents.len() - 1
        }))
    }

    /// Merges the paths in each document into one tree. Must be called after all fields are added.
    fn join_paths(&mut self) {
        for (number, document) in self.documents.iter_mut().enumerate() {
            let of_document: Vec<(FieldId, &Vec<Step>)> = self
                .list
                .iter()
                .enumerate()
                .filter_map(|(index, plan)| Some((FieldId(index as u32), path_in(number, plan)?)))
                .collect();
            let paths = of_document.iter().map(|(_, path)| (*path).clone());
            document.paths = JsonPaths::new(paths.collect());
            let value = |(id, path): (FieldId, &Vec<Step>)| Some((id, document.paths.index(path)?));
            document.values = of_document.into_iter().filter_map(value).collect();
        }
    }

    /// Decides where values are stored. Values that several tasks or an index use get separate
    /// memos. `users` contains the fields that each task uses.
    pub fn place(&mut self, users: &[Vec<FieldId>], indexed: &[FieldId]) {
        self.join_paths();
        let mut uses = vec![0; self.list.len()];
        for id in users.iter().flatten() {
            uses[id.index()] += 1;
            self.list[id.index()].is_read = true;
        }
        indexed.iter().for_each(|id| uses[id.index()] += 2);
        let groups = self.patterns.iter().flat_map(|pattern| &pattern.groups);
        let values = self.documents.iter().flat_map(|document| &document.values);
        groups.chain(values).for_each(|(id, _)| uses[id.index()] += 2);
        for (plan, uses) in self.list.iter_mut().zip(&uses) {
            plan.is_private = *uses < 2;
            if !plan.is_private {
                plan.memo = self.memos;
                self.memos += 1;
            }
        }
        let mut private_max = 0;
        for fields in users {
            let private = fields.iter().filter(|id| uses[id.index()] < 2);
            for (at, id) in private.enumerate() {
                self.list[id.index()].memo = self.memos + at;
                private_max = private_max.max(at + 1);
            }
        }
        self.memos += private_max;
        self.keep_positions();
    }

    /// Assigns memos to the numbers that several tasks read.
    pub fn place_numbers(&mut self, tasks: &[TaskPlan]) {
        let mut uses = vec![0; self.list.len()];
        for task in tasks {
            let mut read: Vec<FieldId> = task.inputs.iter().flatten().copied().collect();
            read.sort();
            read.dedup();
            read.iter().for_each(|id| uses[id.index()] += 1);
        }
        for (plan, _) in self.list.iter_mut().zip(uses).filter(|(_, uses)| *uses > 1) {
            plan.numbers = Some(self.number_memos);
            self.number_memos += 1;
        }
    }

    /// Decides for which strings to store positions: strings after which several fields begin.
    fn keep_positions(&mut self) {
        let mut uses = vec![(0, 0); self.lefts.len()];
        for plan in &self.list {
            let Compute::Between(left, index, _) = plan.compute else { continue };
            let (number, occurrences) = &mut uses[left];
            *number += 1;
            *occurrences = index.saturating_add(1).max(*occurrences);
        }
        for (left, (number, occurrences)) in self.lefts.iter_mut().zip(uses) {
            let is_kept = number > 1 && occurrences <= KEPT_MAX;
            left.kept = if is_kept { occurrences as usize } else { 0 };
        }
    }
}

/// Returns the path of a field if the field is a value in this document.
fn path_in(document: usize, plan: &FieldPlan) -> Option<&Vec<Step>> {
    match (&plan.compute, &plan.field.extraction) {
        (Compute::Json(number), Extraction::Json { path, .. }) if *number == document => Some(path),
        _ => None,
    }
}

/// A field or a condition that cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField(pub String);

impl std::fmt::Display for InvalidField {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for InvalidField {}
