//! An expression as it is written.

use std::fmt;

/// A part of an expression, with its place in the text.
#[derive(Clone, Debug)]
pub struct Expr {
    pub at: usize,
    /// Levels of parts below it.
    pub height: usize,
    pub form: Form,
}

/// What a part is.
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
    /// Parts joined by `&&`.
    All(Vec<Expr>),
    /// Parts joined by `||`.
    Any(Vec<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
}

/// An operator between two parts.
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

/// How operators are written, and how strongly they bind.
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
    /// The operator that is written so.
    pub fn of(sign: &str) -> Option<Operator> {
        OPERATORS.iter().find(|(_, written, _)| *written == sign).map(|(operator, ..)| *operator)
    }

    pub fn sign(self) -> &'static str {
        OPERATORS.iter().find(|(operator, ..)| *operator == self).map_or("", |(_, sign, _)| sign)
    }

    /// How strongly it binds: 1 to 3.
    pub fn strength(self) -> usize {
        OPERATORS
            .iter()
            .find(|(operator, ..)| *operator == self)
            .map_or(0, |(.., strength)| *strength)
    }

    /// The operator that says the same with its operands exchanged, of a comparison.
    pub fn mirrored(self) -> Option<Operator> {
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
        each_part(&form, |part| height = height.max(part.height));
        Expr { at, height: height + 1, form }
    }
}

fn each_part(form: &Form, mut see: impl FnMut(&Expr)) {
    match form {
        Form::Null
        | Form::Bool(_)
        | Form::Int(_)
        | Form::Double(_)
        | Form::Text(_)
        | Form::Name(_) => {}
        Form::Member(of, _) | Form::Not(of) | Form::Negate(of) => see(of),
        Form::Index(a, b) | Form::Binary(_, a, b) => [a, b].into_iter().for_each(|part| see(part)),
        Form::Call(of, _, list) => of.iter().map(|of| &**of).chain(list).for_each(see),
        Form::List(list) | Form::All(list) | Form::Any(list) => list.iter().for_each(see),
        Form::Map(entries) => {
            entries.iter().for_each(|(key, value)| [key, value].into_iter().for_each(&mut see))
        }
        Form::Choice(a, b, c) => [a, b, c].into_iter().for_each(|part| see(part)),
    }
}

impl fmt::Display for Expr {
    /// The expression with every pair of parentheses that it could have: read again it is the same.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.form {
            Form::Null => write!(out, "null"),
            Form::Bool(value) => write!(out, "{value}"),
            Form::Int(value) => write!(out, "{value}"),
            Form::Double(value) => write!(out, "{value:?}"),
            Form::Text(text) => write_text(text, out),
            Form::Name(name) => write!(out, "{name}"),
            Form::Member(of, name) => write!(out, "{of}.`{name}`"),
            Form::Index(of, index) => write!(out, "{of}[{index}]"),
            Form::Call(of, name, list) => {
                of.iter().try_for_each(|of| write!(out, "{of}."))?;
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
            Form::Not(of) => write!(out, "(!{of})"),
            Form::Negate(of) => write!(out, "(-({of}))"),
            Form::Binary(operator, a, b) => write!(out, "({a} {} {b})", operator.sign()),
            Form::All(list) => write_joined(list, " && ", out),
            Form::Any(list) => write_joined(list, " || ", out),
            Form::Choice(a, b, c) => write!(out, "({a} ? {b} : {c})"),
        }
    }
}

fn write_list(list: &[Expr], between: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, part) in list.iter().enumerate() {
        write!(out, "{}{part}", if index == 0 { "" } else { between })?;
    }
    Ok(())
}

fn write_joined(list: &[Expr], between: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(out, "(")?;
    write_list(list, between, out)?;
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
