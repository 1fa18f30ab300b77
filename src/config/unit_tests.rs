//! The list `tests`: unit tests of the configuration. Here only their form is checked; what they
//! name is looked up when they run.

use std::fmt;
use std::ops::Deref;

use millstream_model::Interval;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::check::{self, Formats, Spot};
use super::fault::{Fault, Place};
use super::node::Node;

/// The time at which events are read where a test names none. It never changes, so that a test
/// gives the same on every day.
const NOW: &str = "2026-01-01T00:00:00Z";

/// An event as a test writes it, and as the codec `json` does.
pub type Event = Map<String, Json>;

/// One unit test.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestForm {
    /// What is tested, in a few words.
    #[schemars(length(min = 1), extend("examples" = ["failures are routed"]))]
    pub name: String,
    /// What goes in: one input, or a list of them, one after the other.
    pub input: Inputs,
    /// When the first input is read.
    #[serde(default = "now")]
    #[schemars(extend("format" = "date-time"))]
    pub now: String,
    /// What is to come out.
    #[schemars(length(min = 1), extend("examples" = [[{ "from": "ID", "count": 1 }]]))]
    pub expect: Vec<Expectation>,
}

fn now() -> String {
    NOW.into()
}

/// One input or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(extend("examples" = [{ "to": "ID", "lines": ["a line"] }]))]
pub enum Inputs {
    /// One.
    One(TestInput),
    /// Several, one after the other.
    Many(Vec<TestInput>),
}

impl Inputs {
    /// All of them, each with its JSON pointer in the test.
    pub fn list(&self) -> Vec<(String, &TestInput)> {
        match self {
            Inputs::One(input) => vec![("/input".into(), input)],
            Inputs::Many(list) => {
                list.iter().enumerate().map(|(at, input)| (format!("/input/{at}"), input)).collect()
            }
        }
    }
}

/// Events, and where they go in.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestInput {
    /// Id of a transform, which gets the events; or of a source: everything that reads it gets
    /// them.
    #[schemars(extend("examples" = ["ID"]))]
    pub to: String,
    /// The events as lines.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("examples" = [["a line"]]))]
    pub lines: Option<Vec<String>>,
    /// The events as fields; `message` is the line, `timestamp` the time.
    #[serde(default)]
    #[schemars(with = "Vec<Event>", extend("examples" = [[{ "message": "a line" }]]))]
    pub events: Option<Vec<Event>>,
    /// The file that the events come from; none by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub file: String,
    /// How long after the input before it is read.
    #[serde(default = "at_once")]
    pub after: Interval,
}

fn at_once() -> Interval {
    Interval(std::time::Duration::ZERO)
}

/// What is to come out of a component.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Id of a component, or id.output for a side output; of a sink, what it gets.
    #[schemars(extend("examples" = ["ID"]))]
    pub from: String,
    /// The events, in order. Each is compared by the keys that are given; a key with null is not
    /// there.
    #[serde(default)]
    #[schemars(with = "Vec<Event>", extend("examples" = [[{ "message": "a line" }]]))]
    pub events: Option<Vec<Event>>,
    /// With `events`: whether other keys than those given are a fault, but for `timestamp`.
    #[serde(default)]
    pub exact: bool,
    /// The number of events.
    #[serde(default)]
    #[schemars(with = "usize", extend("examples" = [0]))]
    pub count: Option<usize>,
    /// A condition that holds for every event.
    #[serde(default, rename = "where")]
    #[schemars(with = "String", extend("format" = "condition", "examples" = ["status >= 500"]))]
    pub holds: Option<String>,
}

/// A unit test whose form is right, and where it stands.
#[derive(Clone)]
pub struct UnitTest {
    form: TestForm,
    node: Node,
}

impl Deref for UnitTest {
    type Target = TestForm;

    fn deref(&self) -> &TestForm {
        &self.form
    }
}

impl fmt::Debug for UnitTest {
    /// Leaves out the values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "test at {}", self.node.place)
    }
}

impl UnitTest {
    /// Where the value stands that a JSON pointer leads to; an empty one leads to the whole test.
    pub fn place(&self, pointer: &str) -> &Place {
        &self.node.nearest(pointer).place
    }

    /// The text that a JSON pointer leads to, as it may be shown.
    pub fn shown(&self, pointer: &str) -> &str {
        self.node.nearest(pointer).shown()
    }
}

/// The JSON Schema of one test.
pub fn schema() -> Json {
    schemars::schema_for!(TestForm).to_value()
}

/// Reads the tests, reporting what is wrong with the form of each.
pub fn read(nodes: Vec<Node>, formats: Formats, faults: &mut Vec<Fault>) -> Vec<UnitTest> {
    let schema = schema();
    nodes.into_iter().filter_map(|node| read_one(node, &schema, formats, faults)).collect()
}

fn read_one(
    node: Node,
    schema: &Json,
    formats: Formats,
    faults: &mut Vec<Fault>,
) -> Option<UnitTest> {
    let found = check::check(&node, schema, formats, Spot { key: "", place: &node.place });
    if !found.is_empty() || node.has_hole() {
        faults.extend(found);
        return None;
    }
    let Ok(form) = serde_json::from_value::<TestForm>(node.to_json()) else {
        // The error's own text could hold a secret.
        faults.push(Fault::new(
            &node.place,
            "this test cannot be read",
            "compare it with the manual",
        ));
        return None;
    };
    let test = UnitTest { form, node };
    let before = faults.len();
    faults.extend(test.input.list().iter().filter_map(|(at, input)| input_fault(&test, at, input)));
    let expected = test.expect.iter().enumerate();
    faults.extend(expected.filter_map(|(at, expected)| expectation_fault(&test, at, expected)));
    (faults.len() == before).then_some(test)
}

fn input_fault(test: &UnitTest, at: &str, input: &TestInput) -> Option<Fault> {
    let what = match (&input.lines, &input.events) {
        (Some(_), Some(_)) => "the input has both `lines` and `events`",
        (None, None) => "the input has neither `lines` nor `events`",
        _ => return None,
    };
    Some(Fault::new(test.place(at), what, "write one of them"))
}

/// A test that expects nothing of a component could not fail.
fn expectation_fault(test: &UnitTest, at: usize, expected: &Expectation) -> Option<Fault> {
    let Expectation { events, exact, count, holds, .. } = expected;
    let place = test.place(&format!("/expect/{at}"));
    if events.is_none() && count.is_none() && holds.is_none() {
        return Some(Fault::new(place, "nothing is expected here", "add `events` or `count`"));
    }
    let lonely = *exact && events.is_none();
    lonely.then(|| {
        Fault::new(place, "`exact` is about `events`, and there are none", "add them, or remove it")
    })
}
