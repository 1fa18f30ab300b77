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
