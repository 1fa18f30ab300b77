//! The syntax tree of an expression.

use std::fmt;

/// A node of the syntax tree, and its position in the text.
#[derive(Clone, Debug)]
pub struct Expr {
    pub at: usize,
    /// Height of the subtree, including this node.
    pub height: usize,
    pub form: Form,
}

/// The kinds of syntax nodes.
#[derive(Clone, Debug)]
pub enum Form {
    Null,
    Bool(bool),
    Int(i64),
    Double(f64),
    Text(String),
    Name(String),
    Member(Box<Expr>, String),
    Index(Box<Expr>, Box<Expr>),
    Call(Option<Box<Expr>>, String, Vec<Expr>),
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    Not(Box<Expr>),
    Negate(Box<Expr>),
    Binary(Operator, Box<Expr>, Box<Expr>),
    /// The operands of `&&`.
    All(Vec<Expr>),
    /// The operands of `||`.
    Any(Vec<Expr>),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// A binary operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    In,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

use Operator::*;

/// Spellings and precedences of the operators.
const OPERATORS: &[(Operator, &str, usize)] = &[
    (Equal, "==", 1),
    (Unequal, "!=", 1),
    (Less, "<", 1),
    (LessEqual, "<=", 1),
    (Greater, ">", 1),
    (GreaterEqual, ">=", 1),
    (In, "in", 1),
    (Add, "+", 2),
    (Subtract, "-", 2),
    (Multiply, "*", 3),
    (Divide, "/", 3),
    (Remainder, "%", 3),
];

impl Operator {
    /// Returns the operator with this symbol.
    pub fn of(symbol: &str) -> Option<Operator> {
        OPERATORS.iter().find(|(_, written, _)| *written == symbol).map(|(operator, ..)| *operator)
    }

    pub fn symbol(self) -> &'static str {
        OPERATORS
            .iter()
            .find(|(operator, ..)| *operator == self)
            .map_or("", |(_, symbol, _)| symbol)
    }

    /// Returns the precedence, from 1 to 3. Operators with a higher precedence bind more tightly.
    pub fn precedence(self) -> usize {
        OPERATORS
            .iter()
            .find(|(operator, ..)| *operator == self)
            .map_or(0, |(.., precedence)| *precedence)
    }

    /// Returns the operator that produces the same result if the operands are swapped. Returns
    /// `None` if this is not a comparison.
    pub fn swapped(self) -> Option<Operator> {
        match self {
            Equal | Unequal => Some(self),
            Less => Some(Greater),
            LessEqual => Some(GreaterEqual),
            Greater => Some(Less),
            GreaterEqual => Some(LessEqual),
            _ => None,
        }
    }
}

impl Expr {
    pub fn new(at: usize, form: Form) -> Expr {
        let mut height = 0;
        for_each_child(&form, |part| height = height.max(part.height));
        Expr { at, height: height + 1, form }
    }
}

fn for_each_child(form: &Form, mut visit: impl FnMut(&Expr)) {
    match form {
        Form::Null
        | Form::Bool(_)
        | Form::Int(_)
        | Form::Double(_)
        | Form::Text(_)
        | Form::Name(_) => {}
        Form::Member(operand, _) | Form::Not(operand) | Form::Negate(operand) => visit(operand),
        Form::Index(a, b) | Form::Binary(_, a, b) => {
            [a, b].into_iter().for_each(|part| visit(part))
        }
        Form::Call(operand, _, list) => {
            operand.iter().map(|operand| &**operand).chain(list).for_each(visit)
        }
        Form::List(list) | Form::All(list) | Form::Any(list) => list.iter().for_each(visit),
        Form::Map(entries) => {
            entries.iter().for_each(|(key, value)| [key, value].into_iter().for_each(&mut visit))
        }
        Form::Conditional(a, b, c) => [a, b, c].into_iter().for_each(|part| visit(part)),
    }
}

impl fmt::Display for Expr {
    /// Writes the expression with all possible parentheses. The text parses to the same expression.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Null => write!(out, "null"),
            Form::Bool(value) => write!(out, "{value}"),
            Form::Int(value) => write!(out, "{value}"),
            Form::Double(value) => write!(out, "{value:?}"),
            Form::Text(text) => write_text(text, out),
            Form::Name(name) => write!(out, "{name}"),
            Form::Member(operand, name) => write!(out, "{operand}.`{name}`"),
            Form::Index(operand, index) => write!(out, "{operand}[{index}]"),
            Form::Call(operand, name, list) => {
                operand.iter().try_for_each(|operand| write!(out, "{operand}."))?;
                write!(out, "{name}(")?;
                write_list(list, ", ", out)?;
                write!(out, ")")
            }
            Form::List(list) => {
                write!(out, "[")?;
                write_list(list, ", ", out)?;
                write!(out, "]")
            }
            Form::Map(entries) => {
                write!(out, "{{")?;
                entries.iter().try_for_each(|(key, value)| write!(out, "{key}: {value}, "))?;
                write!(out, "}}")
            }
            Form::Not(operand) => write!(out, "(!{operand})"),
            Form::Negate(operand) => write!(out, "(-({operand}))"),
            Form::Binary(operator, a, b) => write!(out, "({a} {} {b})", operator.symbol()),
            Form::All(list) => write_joined(list, " && ", out),
            Form::Any(list) => write_joined(list, " || ", out),
            Form::Conditional(a, b, c) => write!(out, "({a} ? {b} : {c})"),
        }
    }
}

fn write_list(list: &[Expr], separator: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, part) in list.iter().enumerate() {
        write!(out, "{}{part}", if index == 0 { "" } else { separator })?;
    }
    Ok(())
}

fn write_joined(list: &[Expr], separator: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "(")?;
    write_list(list, separator, out)?;
    write!(out, ")")
}

fn write_text(text: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "\"")?;
    for character in text.chars() {
        match character {
            '"' | '\\' => write!(out, "\\{character}")?,
            ' '..='~' => write!(out, "{character}")?,
            _ => write!(out, "\\U{:08x}", u32::from(character))?,
        }
    }
    write!(out, "\"")
}
