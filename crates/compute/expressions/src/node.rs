//! An expression, resolved: names are fields, calls are functions.

use crate::ast::Operator;
use crate::functions::Function;
use crate::value::Value;
use regex::bytes::Regex;

/// A part of an expression that is ready to be computed.
#[derive(Debug)]
pub enum Node {
    Constant(Value<'static>),
    /// A path, by its number.
    Field(usize),
    /// Whether a path leads to a value.
    HasField(usize),
    /// A field whose name is computed.
    NamedField(Box<Node>),
    /// Whether there is a field whose name is computed.
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
    Choice(Box<(Node, Node, Node)>),
    Call(&'static Function, Vec<Node>),
    Matches(Box<Node>, Regex),
    /// The variable of a macro, from the outermost on.
    Variable(usize),
    Fold(Fold, Box<FoldParts>),
}

impl Node {
    /// Whether a macro is in it, so that what it takes depends on the data.
    pub fn has_macro(&self) -> bool {
        match self {
            Node::Constant(_) | Node::Field(_) | Node::HasField(_) | Node::Variable(_) => false,
            Node::NamedField(of) | Node::HasNamedField(of) | Node::Not(of) | Node::Negate(of) => {
                of.has_macro()
            }
            Node::Member(of, _) | Node::HasMember(of, _) | Node::Matches(of, _) => of.has_macro(),
            Node::Index(parts) | Node::Binary(_, parts) => {
                parts.0.has_macro() || parts.1.has_macro()
            }
            Node::List(list) | Node::All(list) | Node::Any(list) | Node::Call(_, list) => {
                list.iter().any(Node::has_macro)
            }
            Node::Map(entries) => {
                entries.iter().any(|(key, value)| key.has_macro() || value.has_macro())
            }
            Node::Choice(parts) => {
                parts.0.has_macro() || parts.1.has_macro() || parts.2.has_macro()
            }
            Node::Fold(..) => true,
        }
    }
}

/// What a macro does with the elements of a list or the keys of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// The parts of a macro.
#[derive(Debug)]
pub struct FoldParts {
    pub over: Node,
    /// Of `map` with three arguments: which elements to take.
    pub condition: Option<Node>,
    pub body: Node,
}

impl Fold {
    pub fn of(name: &str) -> Option<Fold> {
        match name {
            "all" => Some(Fold::All),
            "exists" => Some(Fold::Exists),
            "exists_one" => Some(Fold::ExistsOne),
            "filter" => Some(Fold::Filter),
            "map" => Some(Fold::Map),
            _ => None,
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}()", self.name)
    }
}
