//! Compiles a syntax tree into an expression that can be evaluated: resolves fields and functions,
//! and rejects subexpressions that can never have a value.

use crate::ast::{Expr, Form, Operator};
use crate::eval::{Evaluation, arithmetic_types};
use crate::fault::Fault;
use crate::functions::{FUNCTIONS, Function, OTHER_FUNCTIONS, OTHER_METHODS};
use crate::input::Path;
use crate::node::{Macro, MacroParts, Node};
use crate::parser::function_advice;
use crate::types::Types;
use crate::value::{Error, Value};
use millstream_patterns::{PatternUse, pattern_fault};
use regex::bytes::Regex;
use std::sync::Arc;

/// Maximum nesting depth of macros, because each level multiplies the steps of the macros inside
/// it.
const MACRO_DEPTH_MAX: usize = 4;

/// Name of the map that contains all fields.
pub const EVENT: &str = "event";

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Compiled {
    pub node: Node,
    pub types: Types,
    pub paths: Vec<Path>,
}

/// Compiles an expression. Without `strict`, subexpressions that can never have a value are
/// accepted, and their evaluation results in an error.
pub fn compile(expr: &Expr, strict: bool) -> Result<Compiled, Fault> {
    let mut compiler = Compiler { paths: Vec::new(), variables: Vec::new(), strict };
    let (node, types) = compiler.node(expr)?;
    Ok(Compiled { node, types, paths: compiler.paths })
}

type Typed = (Node, Types);

struct Compiler {
    paths: Vec<Path>,
    /// The variables of the enclosing macros.
    variables: Vec<String>,
    strict: bool,
}

impl Compiler {
    fn node(&mut self, expr: &Expr) -> Result<Typed, Fault> {
        if let Some(path) = self.path(expr) {
            return self.field(path, expr.at).map(|path| (Node::Field(path), Types::ANY));
        }
        match &expr.form {
            Form::Null => Ok(constant(Value::Null)),
            Form::Bool(value) => Ok(constant(Value::Bool(*value))),
            Form::Int(value) => Ok(constant(Value::Int(*value))),
            Form::Double(value) => Ok(constant(Value::Double(*value))),
            Form::Text(text) => Ok(constant(Value::owned(text.as_bytes()))),
            Form::Name(name) => Ok((Node::Variable(self.variable(name).unwrap_or(0)), Types::ANY)),
            Form::Member(operand, name) => self.member(operand, name, Node::Member, Types::ANY),
            Form::Index(operand, index) => self.index(operand, index),
            Form::Call(operand, name, list) => self.call(expr.at, operand.as_deref(), name, list),
            Form::List(list) => self.list(list),
            Form::Map(entries) => self.map(entries),
            Form::Not(operand) => {
                let node = self.condition(operand)?;
                Ok((Node::Not(node.into()), Types::BOOL))
            }
            Form::Negate(operand) => {
                let (node, types) = self.node(operand)?;
                self.require(operand.at, types, Types::NUMBER.or(Types::DURATION), "`-`")?;
                self.fold_constants(expr.at, Node::Negate(node.into()), types)
            }
            Form::Binary(operator, a, b) => self.binary(expr.at, *operator, a, b),
            Form::All(list) => Ok((Node::All(self.conditions(list)?), Types::BOOL)),
            Form::Any(list) => Ok((Node::Any(self.conditions(list)?), Types::BOOL)),
            Form::Conditional(a, b, c) => {
                let (condition, b, c) = (self.condition(a)?, self.node(b)?, self.node(c)?);
                Ok((Node::Conditional(Box::new((condition, b.0, c.0))), b.1.or(c.1)))
            }
        }
    }

    /// Returns the path that an expression denotes: `a.b`, `event.a`, `event["a"]`. The path of the
    /// whole event is empty. Returns `None` for any other expression.
    fn path(&self, expr: &Expr) -> Option<Vec<String>> {
        let (operand, part) = match &expr.form {
            Form::Name(name) if self.variable(name).is_some() => return None,
            Form::Name(name) if name == EVENT => return Some(Vec::new()),
            Form::Name(name) => return Some(vec![name.clone()]),
            Form::Member(operand, name) => (operand, name),
            Form::Index(operand, index) => match &index.form {
                Form::Text(name) => (operand, name),
                _ => return None,
            },
            _ => return None,
        };
        let mut path = self.path(operand)?;
        path.push(part.clone());
        Some(path)
    }

    fn is_event(&self, expr: &Expr) -> bool {
        self.path(expr).is_some_and(|path| path.is_empty())
    }

    /// Returns the index of a path, and adds the path if it is new.
    fn field(&mut self, parts: Vec<String>, at: usize) -> Result<usize, Fault> {
        if parts.is_empty() {
            return Err(Fault::new(
                at,
                "the event itself is not a value",
                "use a field, as in event.status",
            ));
        }
        let path = Path::new(parts);
        let known = self.paths.iter().position(|known| *known == path);
        Ok(known.unwrap_or_else(|| {
            self.paths.push(path);
            self.paths.len() - 1
        }))
    }

    fn variable(&self, name: &str) -> Option<usize> {
        self.variables.iter().rposition(|variable| variable == name)
    }

    /// Rejects a value that can never have one of the `wanted` types.
    fn require(&self, at: usize, types: Types, wanted: Types, what: &str) -> Result<(), Fault> {
        if types.can_be(wanted) || !self.strict {
            return Ok(());
        }
        let message = format!("{what} takes {}, not {}", wanted.words(), types.words());
        let advice = match wanted {
            Types::BOOL => "compare it with something, as in `x != 0`",
            wanted if wanted.can_be(Types::TEXT) => "string(x) converts it to a string",
            wanted if wanted.can_be(Types::NUMBER) && types.can_be(Types::TEXT) => {
                "int(x) or double(x) converts it to a number"
            }
            _ => "",
        };
        Err(Fault::new(at, message, advice))
    }

    fn condition(&mut self, expr: &Expr) -> Result<Node, Fault> {
        let (node, types) = self.node(expr)?;
        self.require(expr.at, types, Types::BOOL, "a condition")?;
        Ok(node)
    }

    fn conditions(&mut self, list: &[Expr]) -> Result<Vec<Node>, Fault> {
        list.iter().map(|expr| self.condition(expr)).collect()
    }

    fn member(
        &mut self,
        operand: &Expr,
        name: &str,
        build: fn(Box<Node>, String) -> Node,
        result: Types,
    ) -> Result<Typed, Fault> {
        let (node, types) = self.node(operand)?;
        self.require(operand.at, types, Types::MAP, &format!("`.{name}`"))?;
        Ok((build(node.into(), name.to_owned()), result))
    }

    fn index(&mut self, operand: &Expr, index: &Expr) -> Result<Typed, Fault> {
        if self.is_event(operand) {
            let (name, types) = self.node(index)?;
            self.require(index.at, types, Types::TEXT, "the name of a field")?;
            return Ok((Node::NamedField(name.into()), Types::ANY));
        }
        let (node, types) = self.node(operand)?;
        self.require(operand.at, types, Types::LIST.or(Types::MAP), "`[...]`")?;
        let (index, _) = self.node(index)?;
        Ok((Node::Index(Box::new((node, index))), Types::ANY))
    }

    fn list(&mut self, list: &[Expr]) -> Result<Typed, Fault> {
        let nodes: Vec<Node> =
            list.iter().map(|expr| Ok(self.node(expr)?.0)).collect::<Result<_, Fault>>()?;
        let constants: Option<Vec<Value<'static>>> = nodes.iter().map(constant_of).collect();
        let node = match constants {
            Some(list) => Node::Constant(Value::List(Arc::new(list))),
            None => Node::List(nodes),
        };
        Ok((node, Types::LIST))
    }

    fn map(&mut self, entries: &[(Expr, Expr)]) -> Result<Typed, Fault> {
        let entries =
            entries.iter().map(|(key, value)| Ok((self.node(key)?.0, self.node(value)?.0)));
        Ok((Node::Map(entries.collect::<Result<_, Fault>>()?), Types::MAP))
    }

    fn binary(
        &mut self,
        at: usize,
        operator: Operator,
        a: &Expr,
        b: &Expr,
    ) -> Result<Typed, Fault> {
        if operator == Operator::In && self.is_event(b) {
            let (name, types) = self.node(a)?;
            self.require(a.at, types, Types::TEXT, "the name of a field")?;
            return Ok((Node::HasNamedField(name.into()), Types::BOOL));
        }
        let ((a, left), (b, right)) = (self.node(a)?, self.node(b)?);
        let result = result_types(operator, left, right);
        if self.strict && result.is_none() {
            let message = format!(
                "`{}` is not defined for {} and {}",
                operator.symbol(),
                left.words(),
                right.words()
            );
            return Err(Fault::new(at, message, advice_for(operator, left.or(right))));
        }
        self.fold_constants(at, Node::Binary(operator, Box::new((a, b))), result)
    }

    /// Replaces a node with its value if all of its operands are constants.
    fn fold_constants(&self, at: usize, node: Node, types: Types) -> Result<Typed, Fault> {
        let is_constant = match &node {
            Node::Negate(operand) => constant_of(operand).is_some(),
            Node::Binary(_, parts) => constant_of(&parts.0).and(constant_of(&parts.1)).is_some(),
            Node::Call(_, list) => list.iter().all(|node| constant_of(node).is_some()),
            _ => false,
        };
        if !is_constant || !self.strict {
            return Ok((node, types));
        }
        match Evaluation::of_constants(&node) {
            // Keep `types` instead of the type of the value, because `dyn` must hide the type.
            Ok(value) => Ok((Node::Constant(value), types)),
            Err(error) => {
                let why = match error {
                    Error::Missing => "the list has no element at this position",
                    Error::Mistyped => "a value has the wrong type or format",
                    Error::Arithmetic => "a number is out of range or divided by zero",
                    Error::StepLimit => "the evaluation takes too many steps",
                };
                Err(Fault::new(
                    at,
                    format!("this never has a value: {why}"),
                    "use a value that has one",
                ))
            }
        }
    }

    fn call(
        &mut self,
        at: usize,
        operand: Option<&Expr>,
        name: &str,
        list: &[Expr],
    ) -> Result<Typed, Fault> {
        match (operand, name, list) {
            (None, "has", [path]) => return self.has(path),
            (None, "has", _) => {
                return Err(Fault::new(at, "`has` takes one field", "use has(event.x)"));
            }
            (Some(text), "matches", [pattern]) | (None, "matches", [text, pattern]) => {
                return self.matches(text, pattern);
            }
            (Some(over), _, _) if Macro::of(name).is_some() => {
                return self.macro_call(at, over, name, list);
            }
            _ => {}
        }
        let function = Function::find(name, operand.is_some())
            .ok_or_else(|| unknown_function(at, name, operand.is_some()))?;
        let arguments: Vec<&Expr> = operand.into_iter().chain(list).collect();
        function.check_number(at, arguments.len())?;
        let mut nodes = Vec::new();
        for (expr, wanted) in arguments.into_iter().zip(function.parameters) {
            let (node, types) = self.node(expr)?;
            self.require(expr.at, types, *wanted, &format!("`{name}`"))?;
            nodes.push(node);
        }
        self.fold_constants(at, Node::Call(function, nodes), function.result)
    }

    fn has(&mut self, expr: &Expr) -> Result<Typed, Fault> {
        if let Some(path) = self.path(expr) {
            return self.field(path, expr.at).map(|path| (Node::HasField(path), Types::BOOL));
        }
        match &expr.form {
            Form::Member(operand, name) => self.member(operand, name, Node::HasMember, Types::BOOL),
            _ => Err(Fault::new(expr.at, "`has` takes a field", "use has(event.x)")),
        }
    }

    fn matches(&mut self, text: &Expr, pattern: &Expr) -> Result<Typed, Fault> {
        let (node, types) = self.node(text)?;
        self.require(text.at, types, Types::TEXT, "`matches`")?;
        let Form::Text(pattern_text) = &pattern.form else {
            let advice = "put the pattern in quotes; r\"...\" needs no doubled backslashes";
            return Err(Fault::new(pattern.at, "`matches` takes a literal pattern", advice));
        };
        let regex = Regex::new(pattern_text).map_err(|error| {
            let why = pattern_fault(pattern_text, &error.to_string(), PatternUse::Condition);
            let (what, advice) = why.split_once("; ").unwrap_or((&why, ""));
            Fault::new(pattern.at, format!("invalid pattern: {what}"), advice)
        })?;
        Ok((Node::Matches(node.into(), regex), Types::BOOL))
    }

    fn macro_call(
        &mut self,
        at: usize,
        over: &Expr,
        name: &str,
        list: &[Expr],
    ) -> Result<Typed, Fault> {
        let usage = || {
            let message = format!("`{name}` takes a variable and an expression");
            Fault::new(at, message, format!("use list.{name}(x, ...x...)"))
        };
        let kind = Macro::of(name).ok_or_else(usage)?;
        let (variable, condition, body) = match list {
            [variable, body] => (variable, None, body),
            [variable, condition, body] if kind == Macro::Map => (variable, Some(condition), body),
            _ => return Err(usage()),
        };
        let Form::Name(variable) = &variable.form else { return Err(usage()) };
        let (over_node, types) = self.node(over)?;
        self.require(over.at, types, Types::LIST.or(Types::MAP), &format!("`{name}`"))?;
        if self.variables.len() == MACRO_DEPTH_MAX {
            let message = format!(
                "all, exists, filter and map are nested more than {MACRO_DEPTH_MAX} levels deep"
            );
            return Err(Fault::new(at, message, "use fewer levels"));
        }
        self.variables.push(variable.clone());
        let condition = condition.map(|condition| self.condition(condition)).transpose()?;
        let body = if kind == Macro::Map { self.node(body)?.0 } else { self.condition(body)? };
        self.variables.pop();
        let result =
            if matches!(kind, Macro::Filter | Macro::Map) { Types::LIST } else { Types::BOOL };
        Ok((Node::Macro(kind, Box::new(MacroParts { over: over_node, condition, body })), result))
    }
}

fn constant(value: Value<'static>) -> Typed {
    let types = value.types();
    (Node::Constant(value), types)
}

fn constant_of(node: &Node) -> Option<Value<'static>> {
    match node {
        Node::Constant(value) => Some(value.clone()),
        _ => None,
    }
}

fn unknown_function(at: usize, name: &str, is_method: bool) -> Fault {
    if Function::find(name, !is_method).is_some() || !is_method && OTHER_METHODS.contains(&name) {
        let advice =
            if is_method { format!("use {name}(x)") } else { format!("use x.{name}(...)") };
        return Fault::new(at, format!("`{name}` cannot be called this way"), advice);
    }
    let of_kind = FUNCTIONS.iter().filter(|function| function.is_method == is_method);
    let others = if is_method { OTHER_METHODS } else { OTHER_FUNCTIONS };
    let advice =
        function_advice(name, of_kind.map(|function| function.name).chain(others.iter().copied()));
    Fault::new(at, format!("unknown function `{name}`"), advice)
}

/// Returns the possible result types for operands of these types. The set is empty if the operator
/// is not defined for any combination of them.
fn result_types(operator: Operator, a: Types, b: Types) -> Types {
    let number_or_same = |a: Types, b: Types| a == b || a.or(b).and(Types::NUMBER) == a.or(b);
    let any = |test: &dyn Fn(Types, Types) -> bool| a.each().any(|a| b.each().any(|b| test(a, b)));
    let bool_if = |is_defined| if is_defined { Types::BOOL } else { Types::NONE };
    match operator {
        // Anything can be compared with `null`, because any field can be null.
        Operator::Equal | Operator::Unequal => {
            bool_if(any(&|a, b| number_or_same(a, b) || a.or(b).can_be(Types::NULL)))
        }
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            let ordered = Types::LIST.or(Types::MAP).or(Types::NULL);
            bool_if(any(&|a, b| number_or_same(a, b) && !a.can_be(ordered)))
        }
        Operator::In => bool_if(b.can_be(Types::LIST.or(Types::MAP))),
        _ => {
            let pairs =
                a.each().flat_map(|a| b.each().map(move |b| arithmetic_types(operator, a, b)));
            pairs.fold(Types::NONE, Types::or)
        }
    }
}

fn advice_for(operator: Operator, types: Types) -> &'static str {
    match operator {
        Operator::In => "use `x in [1, 2]`, or `text.contains(\"part\")`",
        Operator::Equal | Operator::Unequal => {
            "compare values of one type; convert with int(x) or string(x)"
        }
        Operator::Add if types.can_be(Types::TEXT) => "string(x) converts a number to a string",
        _ if types.can_be(Types::TEXT) => "int(x) or double(x) converts a string to a number",
        _ => "see docs/expressions.md for the types of the operators",
    }
}
