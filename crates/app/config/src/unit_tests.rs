//! The `tests` list: unit tests of the configuration. Only the form of the tests is checked here;
//! references to components are resolved when the tests run.

use std::fmt;
use std::ops::Deref;

use millstream_model::Interval;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::check::{self, Formats, Spot};
use super::fault::{Fault, Place};
use super::node::Node;

/// Read time of events in a test without `now`. It is constant, so that a test produces the same
/// result every day.
const NOW: &str = "2026-01-01T00:00:00Z";

/// An event in a test, in the form of the `json` codec.
pub type Event = Map<String, Json>;

/// One unit test.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestForm {
    /// Short description of the tested behavior.
    #[schemars(length(min = 1), extend("examples" = ["failures are routed"]))]
    pub name: String,
    /// One input, or a list of inputs, in order.
    pub input: Inputs,
    /// Time when the first input is read.
    #[serde(default = "now")]
    #[schemars(extend("format" = "date-time"))]
    pub now: String,
    /// Expected outputs.
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
    /// A single input.
    One(TestInput),
    /// Several inputs, in order.
    Many(Vec<TestInput>),
}

impl Inputs {
    /// Returns all inputs, each with its JSON pointer in the test.
    pub fn list(&self) -> Vec<(String, &TestInput)> {
        match self {
            Inputs::One(input) => vec![("/input".into(), input)],
            Inputs::Many(list) => {
                list.iter().enumerate().map(|(at, input)| (format!("/input/{at}"), input)).collect()
            }
        }
    }
}

/// Events, and the component that receives them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TestInput {
    /// Id of a transform that receives the events, or of a source whose readers receive them.
    #[schemars(extend("examples" = ["ID"]))]
    pub to: String,
    /// Events as lines.
    #[serde(default)]
    #[schemars(with = "Vec<String>", extend("examples" = [["a line"]]))]
    pub lines: Option<Vec<String>>,
    /// Events as fields; `message` is the line, `timestamp` the time.
    #[serde(default)]
    #[schemars(with = "Vec<Event>", extend("examples" = [[{ "message": "a line" }]]))]
    pub events: Option<Vec<Event>>,
    /// Path of the file that the events come from; no file by default.
    #[serde(default)]
    #[schemars(length(min = 1))]
    pub file: String,
    /// Time between the previous input and this input.
    #[serde(default = "at_once")]
    pub after: Interval,
}

fn at_once() -> Interval {
    Interval(std::time::Duration::ZERO)
}

/// Expected output of a component.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Id of a component, or id.output for a side output. For a sink, its input is compared.
    #[schemars(extend("examples" = ["ID"]))]
    pub from: String,
    /// Expected events, in order. Only the given keys are compared; a key with the value null must
    /// be absent.
    #[serde(default)]
    #[schemars(with = "Vec<Event>", extend("examples" = [[{ "message": "a line" }]]))]
    pub events: Option<Vec<Event>>,
    /// Whether additional keys in `events` are an error; `timestamp` is always allowed.
    #[serde(default)]
    pub exact: bool,
    /// Expected number of events.
    #[serde(default)]
    #[schemars(with = "usize", extend("examples" = [0]))]
    pub count: Option<usize>,
    /// Condition that every event must satisfy.
    #[serde(default, rename = "where")]
    #[schemars(with = "String", extend("format" = "condition", "examples" = ["status >= 500"]))]
    pub holds: Option<String>,
}

/// A unit test with a valid form, and its positions.
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
    /// Omits the values that may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "test at {}", self.node.place)
    }
}

impl UnitTest {
    /// Returns the position of the value at a JSON pointer; the empty pointer is the whole test.
    pub fn place(&self, pointer: &str) -> &Place {
        &self.node.nearest(pointer).place
    }

    /// Returns the text at a JSON pointer as shown in messages.
    pub fn shown(&self, pointer: &str) -> &str {
        self.node.nearest(pointer).shown()
    }
}

/// Returns the JSON Schema of a test.
pub fn schema() -> Json {
    schemars::schema_for!(TestForm).to_value()
}

/// Parses the tests, and reports errors in their form.
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
        // The message itself could contain a secret.
        faults.push(Fault::new(&node.place, "this test is invalid", "compare it with the manual"));
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
    Some(Fault::new(test.place(at), what, "set one of them"))
}

/// Reports an expectation that cannot fail, because it expects nothing from a component.
fn expectation_fault(test: &UnitTest, at: usize, expected: &Expectation) -> Option<Fault> {
    let Expectation { events, exact, count, holds, .. } = expected;
    let place = test.place(&format!("/expect/{at}"));
    if events.is_none() && count.is_none() && holds.is_none() {
        return Some(Fault::new(place, "the expectation is empty", "add `events` or `count`"));
    }
    let lonely = *exact && events.is_none();
    lonely
        .then(|| Fault::new(place, "`exact` requires `events`", "add `events`, or remove `exact`"))
}
