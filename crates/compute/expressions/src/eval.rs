//! Evaluates an expression for one row. This is the reference implementation. Evaluation over whole
//! columns must produce the same result.

use crate::ast::Operator;
use crate::functions::ARGUMENTS_MAX;
use crate::input::Bound;
use crate::node::{Macro, MacroParts, Node};
use crate::text::check_len;
use crate::types::Types;
use crate::value::{Error, Outcome, Value, compare, is_equal};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

/// Maximum number of steps that an expression may take per row, including all of its macros.
/// Without this limit, a hostile line could stall the agent. One step is an evaluated node, an
/// element of a macro, or [`STEP_BYTES`] bytes of text.
pub const STEPS_MAX: usize = 1_000_000;
/// Number of text or JSON bytes that are read per step.
const STEP_BYTES: usize = 16;

/// The state of evaluating an expression for one row.
pub struct Evaluation<'a, 'i> {
    bound: Option<&'a Bound<'i>>,
    row: usize,
    /// The values of the enclosing macros' variables.
    variables: Vec<Value<'a>>,
    steps: usize,
}

/// Evaluates a node for a row.
pub fn evaluate<'a>(node: &'a Node, bound: &'a Bound<'_>, row: usize) -> Outcome<'a> {
    Evaluation { bound: Some(bound), row, variables: Vec::new(), steps: 0 }.value(node)
}

/// Evaluates a condition for a row.
pub fn evaluate_condition(node: &Node, bound: &Bound<'_>, row: usize) -> Result<bool, Error> {
    evaluate(node, bound, row)?.bool()
}

impl<'a> Evaluation<'a, '_> {
    /// Evaluates a node that refers to no fields.
    pub fn of_constants(node: &Node) -> Outcome<'static> {
        let mut evaluation = Evaluation { bound: None, row: 0, variables: Vec::new(), steps: 0 };
        evaluation.value(node).map(into_owned)
    }

    fn value(&mut self, node: &'a Node) -> Outcome<'a> {
        self.charge(1)?;
        match node {
            Node::Constant(Value::Text(text)) => Ok(Value::Text(Cow::Borrowed(text))),
            Node::Constant(value) => Ok(value.clone()),
            Node::Field(path) => self.field(*path),
            Node::HasField(path) => Ok(Value::Bool(self.raw(*path).is_some())),
            Node::NamedField(name) => self.named(name)?.ok_or(Error::Missing),
            Node::HasNamedField(name) => Ok(Value::Bool(self.named(name)?.is_some())),
            Node::Member(operand, name) => self.read(operand)?.get(&name_value(name)),
            Node::HasMember(operand, name) => match self.read(operand)?.get(&name_value(name)) {
                Err(Error::Missing) => Ok(Value::Bool(false)),
                found => found.map(|_| Value::Bool(true)),
            },
            Node::Index(parts) => {
                let (operand, index) = (self.read(&parts.0)?, self.value(&parts.1)?);
                operand.at(&index)
            }
            Node::Not(operand) => Ok(Value::Bool(!self.condition(operand)?)),
            Node::Negate(operand) => negate(&self.value(operand)?),
            Node::All(list) => self.joined(list, false),
            Node::Any(list) => self.joined(list, true),
            Node::Variable(index) => self.variable(*index),
            Node::Matches(operand, regex) => {
                Ok(Value::Bool(regex.is_match(self.read(operand)?.text()?)))
            }
            _ => self.evaluate_large(node),
        }
    }

    /// Evaluates nodes that need a large stack frame. This is separate from [`Self::value`], so
    /// that deeply nested expressions use little stack.
    fn evaluate_large(&mut self, node: &'a Node) -> Outcome<'a> {
        match node {
            Node::List(list) => {
                Ok(Value::list(list.iter().map(|node| self.value(node)).collect::<Result<_, _>>()?))
            }
            Node::Map(entries) => self.map(entries),
            Node::Binary(operator, parts) => {
                let (a, b) = (self.read(&parts.0)?, self.read(&parts.1)?);
                binary(*operator, &a, &b)
            }
            Node::Conditional(parts) => match self.condition(&parts.0)? {
                true => self.value(&parts.1),
                false => self.value(&parts.2),
            },
            Node::Call(function, list) => {
                let mut arguments = [const { Value::Null }; ARGUMENTS_MAX];
                for (argument, node) in arguments.iter_mut().zip(list) {
                    *argument = self.read(node)?;
                }
                let value = (function.run)(&arguments[..list.len()])?;
                self.charge(cost(&value)).map(|()| value)
            }
            Node::Macro(kind, parts) => self.evaluate_macro(*kind, parts),
            _ => Err(Error::Missing),
        }
    }

    /// Counts steps toward the limit of the row.
    fn charge(&mut self, steps: usize) -> Result<(), Error> {
        self.steps += steps;
        if self.steps > STEPS_MAX { Err(Error::StepLimit) } else { Ok(()) }
    }

    /// Evaluates a node whose value is then read completely, and counts steps for the size of the
    /// value.
    fn read(&mut self, node: &'a Node) -> Outcome<'a> {
        let value = self.value(node)?;
        self.charge(cost(&value)).map(|()| value)
    }

    /// Returns the value of a macro's variable. A computed string is copied.
    fn variable(&mut self, index: usize) -> Outcome<'a> {
        let value = self.variables.get(index).ok_or(Error::Missing)?;
        let steps = if matches!(value, Value::Text(Cow::Owned(_))) { cost(value) } else { 0 };
        let copy = value.clone();
        self.charge(steps).map(|()| copy)
    }

    fn condition(&mut self, node: &'a Node) -> Result<bool, Error> {
        self.value(node)?.bool()
    }

    fn raw(&self, path: usize) -> Option<crate::input::Raw<'a>> {
        self.bound?.raw(path, self.row)
    }

    fn field(&self, path: usize) -> Outcome<'a> {
        self.raw(path).ok_or(Error::Missing)?.value()
    }

    fn named(&mut self, name: &'a Node) -> Result<Option<Value<'a>>, Error> {
        let name = self.value(name)?;
        let name = std::str::from_utf8(name.text()?).map_err(|_| Error::Missing)?;
        let raw = self.bound.and_then(|bound| bound.named(name, self.row));
        raw.map(|raw| raw.value()).transpose()
    }

    /// Evaluates `&&`, or `||` if `decisive` is true. If one operand equals `decisive`, it decides
    /// the result, even if other operands result in errors, unless the step limit is exceeded
    /// first.
    fn joined(&mut self, list: &'a [Node], decisive: bool) -> Outcome<'a> {
        let mut outcome = Ok(!decisive);
        for node in list {
            match self.condition(node) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Err(Error::StepLimit) => return Err(Error::StepLimit),
                Ok(_) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome.map(Value::Bool)
    }

    fn map(&mut self, entries: &'a [(Node, Node)]) -> Outcome<'a> {
        let mut map: Vec<(Value, Value)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.value(key)?;
            let is_key = key.types().can_be(Types::BOOL.or(Types::INT).or(Types::TEXT));
            if !is_key || map.iter().any(|(existing, _)| is_equal(existing, &key) == Ok(true)) {
                return Err(Error::Mistyped);
            }
            map.push((key, self.value(value)?));
        }
        Ok(Value::Map(Arc::new(map)))
    }

    fn evaluate_macro(&mut self, kind: Macro, parts: &'a MacroParts) -> Outcome<'a> {
        let over = self.read(&parts.over)?;
        let elements: Vec<Value<'a>> = match over.types().can_be(Types::LIST) {
            true => over.elements()?.into_owned(),
            false => over.entries()?.iter().map(|(key, _)| key.clone()).collect(),
        };
        let (mut found, mut error, mut list) = (0, None, Vec::new());
        for element in elements {
            match (kind, self.step(kind, parts, element)) {
                (Macro::All, Ok(None)) => return Ok(Value::Bool(false)),
                (Macro::Exists, Ok(Some(_))) => return Ok(Value::Bool(true)),
                (_, Err(Error::StepLimit)) => return Err(Error::StepLimit),
                (Macro::All | Macro::Exists, Err(new)) => error = error.or(Some(new)),
                (_, Err(new)) => return Err(new),
                (Macro::Filter | Macro::Map, Ok(value)) => list.extend(value),
                (_, Ok(value)) => found += usize::from(value.is_some()),
            }
        }
        match (kind, error) {
            (_, Some(error)) => Err(error),
            (Macro::All, _) => Ok(Value::Bool(true)),
            (Macro::Exists, _) => Ok(Value::Bool(false)),
            (Macro::ExistsOne, _) => Ok(Value::Bool(found == 1)),
            (Macro::Filter | Macro::Map, _) => Ok(Value::list(list)),
        }
    }

    /// Evaluates a macro's body for one element. Returns `None` if the macro's condition is false
    /// or, except for `map`, if the body is false.
    fn step(
        &mut self,
        kind: Macro,
        parts: &'a MacroParts,
        element: Value<'a>,
    ) -> Result<Option<Value<'a>>, Error> {
        let kept = if kind == Macro::Filter { element.clone() } else { Value::Null };
        self.variables.push(element);
        let is_selected =
            parts.condition.as_ref().map_or(Ok(true), |condition| self.condition(condition));
        let result = match (is_selected, kind) {
            (Err(error), _) => Err(error),
            (Ok(false), _) => Ok(None),
            (Ok(true), Macro::Map) => self.value(&parts.body).map(Some),
            (Ok(true), _) => self.condition(&parts.body).map(|holds| holds.then_some(kept)),
        };
        self.variables.pop();
        result
    }
}

/// Returns the number of steps for reading a whole value.
fn cost(value: &Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len() / STEP_BYTES,
        Value::Array(text) | Value::Object(text) => text.len() / STEP_BYTES,
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

fn name_value(name: &str) -> Value<'_> {
    Value::Text(Cow::Borrowed(name.as_bytes()))
}

/// Converts a constant to an owned value.
fn into_owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null | Value::Array(_) | Value::Object(_) => Value::Null,
        Value::Bool(value) => Value::Bool(value),
        Value::Int(value) => Value::Int(value),
        Value::Double(value) => Value::Double(value),
        Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
        Value::Time(ns) => Value::Time(ns),
        Value::Duration(ns) => Value::Duration(ns),
        Value::List(list) => Value::list(list.iter().cloned().map(into_owned).collect()),
        Value::Map(map) => {
            let entries =
                map.iter().map(|(key, value)| (into_owned(key.clone()), into_owned(value.clone())));
            Value::Map(Arc::new(entries.collect()))
        }
    }
}

fn negate<'a>(value: &Value<'a>) -> Outcome<'a> {
    match value {
        Value::Int(value) => value.checked_neg().map(Value::Int).ok_or(Error::Arithmetic),
        Value::Double(value) => Ok(Value::Double(-value)),
        Value::Duration(ns) => ns.checked_neg().map(Value::Duration).ok_or(Error::Arithmetic),
        _ => Err(Error::Mistyped),
    }
}

fn binary<'a>(operator: Operator, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    match operator {
        Operator::Equal => is_equal(a, b).map(Value::Bool),
        Operator::Unequal => is_equal(a, b).map(|equal| Value::Bool(!equal)),
        Operator::In => is_in(a, b).map(Value::Bool),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            Ok(Value::Bool(holds(operator, compare(a, b)?)))
        }
        _ => arithmetic(operator, a, b),
    }
}

/// Returns whether a comparison holds for an ordering. For NaN, only `!=` holds.
#[inline(always)]
pub fn holds(operator: Operator, ordering: Option<Ordering>) -> bool {
    match operator {
        Operator::Equal => ordering == Some(Ordering::Equal),
        Operator::Unequal => ordering != Some(Ordering::Equal),
        Operator::Less => ordering == Some(Ordering::Less),
        Operator::LessEqual => matches!(ordering, Some(Ordering::Less | Ordering::Equal)),
        Operator::Greater => ordering == Some(Ordering::Greater),
        Operator::GreaterEqual => matches!(ordering, Some(Ordering::Greater | Ordering::Equal)),
        _ => false,
    }
}

fn is_in(value: &Value<'_>, within: &Value<'_>) -> Result<bool, Error> {
    if within.types().can_be(Types::MAP) {
        return match within.get(value) {
            Err(Error::Missing) => Ok(false),
            found => found.map(|_| true),
        };
    }
    for element in &*within.elements()? {
        if is_equal(value, element)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the result type for operands of these types, or no type if the operator is not defined
/// for them.
pub fn arithmetic_types(operator: Operator, a: Types, b: Types) -> Types {
    use Operator::{Add, Divide, Multiply, Remainder, Subtract};
    let is = |of_a, of_b| a == of_a && b == of_b;
    let is_number = a.or(b).and(Types::NUMBER) == a.or(b);
    match operator {
        Add | Subtract | Multiply | Divide | Remainder if is(Types::INT, Types::INT) => Types::INT,
        Add | Subtract | Multiply | Divide if is_number => Types::DOUBLE,
        Add if is(Types::TEXT, Types::TEXT) => Types::TEXT,
        Add if is(Types::LIST, Types::LIST) => Types::LIST,
        Add | Subtract if is(Types::TIME, Types::DURATION) => Types::TIME,
        Add if is(Types::DURATION, Types::TIME) => Types::TIME,
        Add | Subtract if is(Types::DURATION, Types::DURATION) => Types::DURATION,
        Subtract if is(Types::TIME, Types::TIME) => Types::DURATION,
        _ => Types::NONE,
    }
}

fn arithmetic<'a>(operator: Operator, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            int_arithmetic(operator, *a, *b).map(Value::Int).ok_or(Error::Arithmetic)
        }
        (Value::Double(a), Value::Double(b)) => double_arithmetic(operator, *a, *b),
        (Value::Int(a), Value::Double(b)) => double_arithmetic(operator, *a as f64, *b),
        (Value::Double(a), Value::Int(b)) => double_arithmetic(operator, *a, *b as f64),
        _ if arithmetic_types(operator, a.types(), b.types()).is_none() => Err(Error::Mistyped),
        (Value::Text(a), Value::Text(b)) => {
            check_len(a.len() + b.len())?;
            Ok(Value::owned([&a[..], &b[..]].concat()))
        }
        (Value::Time(a), Value::Time(b)) | (Value::Duration(a), Value::Duration(b)) => {
            int_arithmetic(operator, *a, *b).map(Value::Duration).ok_or(Error::Arithmetic)
        }
        (Value::Time(a), Value::Duration(b)) | (Value::Duration(a), Value::Time(b)) => {
            int_arithmetic(operator, *a, *b).map(Value::Time).ok_or(Error::Arithmetic)
        }
        _ => {
            let (a, b) = (a.elements()?, b.elements()?);
            check_len((a.len() + b.len()) * size_of::<Value>())?;
            Ok(Value::list([&a[..], &b[..]].concat()))
        }
    }
}

fn int_arithmetic(operator: Operator, a: i64, b: i64) -> Option<i64> {
    match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide => a.checked_div(b),
        Operator::Remainder => a.checked_rem(b),
        _ => None,
    }
}

fn double_arithmetic<'a>(operator: Operator, a: f64, b: f64) -> Outcome<'a> {
    Ok(Value::Double(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        _ => return Err(Error::Mistyped),
    }))
}
