//! The specification that a process registers in each child.

use crate::answered::unreadable;
use crate::error::ControlError;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The specification of an operator or a collector as JSON, with the compiled code from the last
/// child. With this code, the next child does not need to load the compiler for scripts, which
/// takes a second.
pub struct Spec(Mutex<Value>);

/// The part of a response that is kept for the next registration.
#[derive(Deserialize)]
struct CompiledScripts {
    /// One string per script. Absent for languages that compile fast, and if the code is too large.
    #[serde(default)]
    compiled: Vec<String>,
}

impl Spec {
    /// Creates a specification for an operator or collector that has not been registered.
    ///
    /// # Errors
    /// Returns an error if the specification cannot be written as JSON.
    pub fn new(spec: &impl Serialize) -> Result<Spec, ControlError> {
        let mut value = serde_json::to_value(spec).map_err(unreadable)?;
        value["keep_compiled"] = Value::Bool(true);
        Ok(Spec(Mutex::new(value)))
    }

    /// Returns the payload of a registration request.
    pub fn payload(&self) -> Vec<u8> {
        self.0.lock().to_string().into_bytes()
    }

    /// Keeps the compiled code from a response for the next registration.
    pub fn keep(&self, answer: &[u8]) {
        let Ok(CompiledScripts { compiled }) = serde_json::from_slice(answer) else { return };
        let mut value = self.0.lock();
        let rules = value["rules"].as_array_mut().into_iter().flatten();
        for (rule, compiled) in rules.zip(compiled) {
            rule["compiled"] = Value::String(compiled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::{OperatorSpec, RuleSource};

    #[test]
    fn what_was_compiled_is_in_the_next_registration() {
        let rule = |name: &str| RuleSource { name: name.to_owned(), text: "row.a = 1".to_owned() };
        let rules = vec![rule("a"), rule("b")];
        let spec = Spec::new(&OperatorSpec { rules, ..OperatorSpec::default() }).unwrap();
        let sent = || serde_json::from_slice::<Value>(&spec.payload()).unwrap();
        assert_eq!(sent()["keep_compiled"], true);
        for nothing in [r#"{"id":7}"#, r#"{"error":{"message":"x"}}"#, r#"{"compiled":[1]}"#, "{"] {
            spec.keep(nothing.as_bytes());
            assert_eq!(sent()["rules"][0]["compiled"], Value::Null);
        }
        spec.keep(br#"{"id":7,"compiled":["A","B"]}"#);
        assert_eq!(
            (&sent()["rules"][0]["compiled"], &sent()["rules"][1]["compiled"]),
            (&"A".into(), &"B".into())
        );
        assert_eq!(sent()["rules"][0]["text"], "row.a = 1");
    }
}
