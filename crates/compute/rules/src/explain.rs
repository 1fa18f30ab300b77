//! Describes a plan: the work that tasks share, and how each task finds its events.

use crate::plan::{FieldId, Gate, Index, Plan, TaskPlan};
use crate::task::{Extraction, Field, FieldType};
use millstream_columns::DisplayPath;
use std::fmt::{self, Display, Formatter};

/// Maximum number of fields and indexes to list.
const LISTED_MAX: usize = 20;

/// A human-readable description of a plan.
pub struct Explanation<'p>(&'p Plan);

impl Plan {
    /// Describes the work that tasks share, and how each task finds its events.
    pub fn explain(&self) -> Explanation<'_> {
        Explanation(self)
    }
}

impl Display for Explanation<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", count(self.0.tasks.len(), "task"))?;
        self.fields(out)?;
        self.gates(out)?;
        self.shared(out)?;
        self.tasks(out)
    }
}

impl Explanation<'_> {
    fn fields(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let of_tasks: Vec<Vec<FieldId>> =
            (0..self.0.tasks.len()).map(|at| self.0.fields_of(at)).collect();
        let mut uses = vec![0; self.0.fields.list.len()];
        of_tasks.iter().flatten().for_each(|field| uses[field.index()] += 1);
        let mut order: Vec<usize> = (0..uses.len()).filter(|field| uses[*field] > 0).collect();
        order.sort_by_key(|field| std::cmp::Reverse(uses[*field]));
        let total: usize = uses.iter().sum();
        writeln!(
            out,
            "\n{}, computed once per event that needs {}; the tasks read {total}",
            count(order.len(), "field"),
            if order.len() == 1 { "it" } else { "them" }
        )?;
        for field in order.iter().take(LISTED_MAX) {
            let text = Described(&self.0.fields.list[*field].field);
            writeln!(out, "  {:>6}  {text}", count(uses[*field], "task"))?;
        }
        more(out, order.len())
    }

    fn gates(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let gates = &self.0.gates;
        writeln!(
            out,
            "\n{}, looked up for every event",
            count_of(gates.indexes.len(), "index", "indexes")
        )?;
        for index in gates.indexes.iter().take(LISTED_MAX) {
            let field = Described(&self.0.fields.list[index.field().index()].field);
            match index {
                Index::Values(index) => {
                    writeln!(out, "  {} of {field}", count(index.len(), "value"))?;
                }
                Index::Literals(index) => {
                    let literals = count(index.postings.len(), "literal");
                    writeln!(out, "  {literals} in {field}, found by one search")?;
                }
            }
        }
        more(out, gates.indexes.len())?;
        let open = gates.open.len();
        writeln!(out, "{} examined for every event", count_of(open, "task is", "tasks are"))
    }

    fn shared(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (tests, keys) = (self.0.shared_tests, self.0.shared_keys);
        let tests = count_of(tests, "condition is", "conditions are");
        let keys = count_of(keys, "list", "lists");
        writeln!(out, "{tests} shared by several tasks, and {keys} of `group_by`")
    }

    fn tasks(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out)?;
        for task in &self.0.tasks {
            writeln!(out, "{}", task.task.name)?;
            writeln!(out, "  finds events by {}", self.gate(task))?;
            let tests = task.tests.iter().map(|test| {
                let shared = if test.shared.is_some() { " (shared)" } else { "" };
                format!("{}{shared}", test.expression)
            });
            let tests: Vec<String> = tests.collect();
            if !tests.is_empty() {
                writeln!(out, "  then tests {}", tests.join(" && "))?;
            }
            if !task.task.keys.is_empty() {
                let is_shared = task.keys.is_some_and(|keys| self.0.keys[keys].shared.is_some());
                let shared = if is_shared { " (shared)" } else { "" };
                writeln!(out, "  groups by {}{shared}", task.task.keys.join(", "))?;
            }
        }
        Ok(())
    }

    fn gate(&self, task: &TaskPlan) -> String {
        let Gate::Postings(postings) = &task.gate else {
            return "examining every event".to_owned();
        };
        let index = postings.first().and_then(|first| self.0.gates.index_of(*first));
        let Some(index) = index else {
            return "nothing because its condition is never true".to_owned();
        };
        let field = Described(&self.0.fields.list[index.field().index()].field);
        match index {
            Index::Values(_) => format!("{} of {field}", count(postings.len(), "value")),
            Index::Literals(_) => format!("{} in {field}", count(postings.len(), "literal")),
        }
    }
}

fn more(out: &mut Formatter<'_>, all: usize) -> fmt::Result {
    match all.checked_sub(LISTED_MAX) {
        Some(more) if more > 0 => writeln!(out, "  ... and {more} more"),
        _ => Ok(()),
    }
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn count_of(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Formats a field in human-readable form.
struct Described<'f>(&'f Field);

impl Display for Described<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let text = |text: &[u8]| format!("{:?}", String::from_utf8_lossy(text));
        match &self.0.extraction {
            Extraction::Event(name) => write!(out, "`{name}`")?,
            Extraction::Between { from, left, index, right } => {
                write!(out, "`{from}` between {} ({index}) and {}", text(left), text(right))?;
            }
            Extraction::Part { from, delimiter, index } => {
                write!(out, "`{from}` split at {}, part {index}", text(delimiter))?;
            }
            Extraction::Group { from, pattern, group } => {
                write!(out, "`{from}` matched by {pattern}, group {group}")?;
            }
            Extraction::Json { from, path } => {
                write!(out, "`{from}` as JSON, {}", DisplayPath(path))?;
            }
        }
        match self.0.kind {
            FieldType::Text => Ok(()),
            FieldType::Int => write!(out, " as int"),
            FieldType::Float => write!(out, " as float"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Extraction, Field, FieldType, Plan, Task};
    use millstream_expressions::Expression;
    use std::sync::Arc;

    fn task(name: &str, condition: &str) -> Arc<Task> {
        let between = Extraction::Between {
            from: "message".into(),
            left: b"svc=".to_vec(),
            index: 0,
            right: b" ".to_vec(),
        };
        Arc::new(Task {
            name: name.into(),
            fields: vec![("service".into(), Field { extraction: between, kind: FieldType::Text })],
            condition: Some(Arc::new(Expression::condition(condition).unwrap())),
            keys: vec!["service".into()],
            inputs: Vec::new(),
            window_ns: None,
        })
    }

    #[test]
    fn a_path_in_json_is_explained() {
        let path = millstream_expressions::json_path("request['items'][0].`unit.price`").unwrap();
        let field = Field {
            extraction: Extraction::Json { from: "message".into(), path },
            kind: FieldType::Float,
        };
        let mut task = Arc::into_inner(task("a", "price > 1")).unwrap();
        task.fields.push(("price".into(), field));
        let text = Plan::new(&[Arc::new(task)]).unwrap().explain().to_string();
        let expected = "`message` as JSON, request.items[0][\"unit.price\"] as float";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn a_plan_is_explained() {
        let tasks = [
            task("a", "service == 'pay' && status >= 500"),
            task("b", "service in ['pay', 'cart'] && status >= 500"),
            task("c", "message.contains('timeout')"),
            task("d", "status > 1"),
            task("e", "status in []"),
        ];
        let text = Plan::new(&tasks).unwrap().explain().to_string();
        let expected = "5 tasks

2 fields, computed once per event that needs them; the tasks read 6
  5 tasks  `message` between \"svc=\" (0) and \" \"
  1 task  `message`

2 indexes, looked up for every event
  2 values of `message` between \"svc=\" (0) and \" \"
  1 literal in `message`, found by one search
1 task is examined for every event
1 condition is shared by several tasks, and 1 list of `group_by`

a
  finds events by 1 value of `message` between \"svc=\" (0) and \" \"
  then tests (status >= 500) (shared)
  groups by service (shared)
b
  finds events by 2 values of `message` between \"svc=\" (0) and \" \"
  then tests (status >= 500) (shared)
  groups by service (shared)
c
  finds events by 1 literal in `message`
  groups by service (shared)
d
  finds events by examining every event
  then tests (status > 1)
  groups by service (shared)
e
  finds events by nothing because its condition is never true
  groups by service (shared)
";
        assert_eq!(text, expected);
    }
}
