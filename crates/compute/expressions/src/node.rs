//! Compiled expressions, in which names are resolved to fields, and calls to functions.

use crate::ast::Operator;
use crate::functions::Function;
use crate::value::Value;
use regex::bytes::Regex;

/// A node of a compiled expression.
#[derive(Debug)]
pub enum Node {
    Constant(Value<'static>),
    /// The value of a path, given by its index.
    Field(usize),
    /// Whether a path has a value.
    HasField(usize),
    /// A field whose name is computed.
    NamedField(Box<Node>),
    /// Whether a field whose name is computed exists.
    HasNamedField(Box<Node>),
    Member(Box<Node>, String),
    HasMember(Box<Node>, String),
    Index(Box<(Node, Node)>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    Not(Box<Node>),
    Negate(Box<Node>),
    Binary(Operator, Box<(Node, Node)>),
    All(Vec<Node>),
    Any(Vec<Node>),
    Conditional(Box<(Node, Node, Node)>),
    Call(&'static Function, Vec<Node>),
    Matches(Box<Node>, Regex),
    /// The variable of a macro. Macros are counted from the outermost one.
    Variable(usize),
    Macro(Macro, Box<MacroParts>),
}

impl Node {
    /// Returns whether the node contains a macro. The cost of a macro depends on the data.
    pub fn has_macro(&self) -> bool {
        match self {
            Node::Constant(_) | Node::Field(_) | Node::HasField(_) | Node::Variable(_) => false,
            Node::NamedField(operand)
            | Node::HasNamedField(operand)
            | Node::Not(operand)
            | Node::Negate(operand) => operand.has_macro(),
            Node::Member(operand, _) | Node::HasMember(operand, _) | Node::Matches(operand, _) => {
                operand.has_macro()
            }
            Node::Index(parts) | Node::Binary(_, parts) => {
                parts.0.has_macro() || parts.1.has_macro()
            }
            Node::List(list) | Node::All(list) | Node::Any(list) | Node::Call(_, list) => {
                list.iter().any(Node::has_macro)
            }
            Node::Map(entries) => {
                entries.iter().any(|(key, value)| key.has_macro() || value.has_macro())
            }
            Node::Conditional(parts) => {
                parts.0.has_macro() || parts.1.has_macro() || parts.2.has_macro()
            }
            Node::Macro(..) => true,
        }
    }
}

/// The macros over the elements of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// The operands of a macro.
#[derive(Debug)]
pub struct MacroParts {
    pub over: Node,
    /// Condition that selects elements. Used only for `map` with three arguments.
    pub condition: Option<Node>,
    pub body: Node,
}

impl Macro {
    pub fn of(name: &str) -> Option<Macro> {
        match name {
            "all" => Some(Macro::All),
            "exists" => Some(Macro::Exists),
            "exists_one" => Some(Macro::ExistsOne),
            "filter" => Some(Macro::Filter),
            "map" => Some(Macro::Map),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}()", self.name)
    }
}
