//! Parses tokens into a syntax tree.

use crate::ast::{Expr, Form, Operator};
use crate::fault::{Fault, did_you_mean};
use crate::lexer::{Token, tokens};

/// Maximum size of an expression in bytes. A longer expression is probably generated, and should be
/// written as a list.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Maximum nesting depth of parentheses, brackets and conditionals, because each level uses stack.
pub const NESTING_MAX: usize = 64;
/// Maximum height of an expression, because each level uses stack during evaluation.
pub const HEIGHT_MAX: usize = 250;

/// Reserved words of the language.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Keywords of other languages, and what to use instead.
const FOREIGN: &[(&str, &str)] = &[
    ("and", "use `&&`"),
    ("or", "use `||`"),
    ("not", "use `!`"),
    ("AND", "use `&&`"),
    ("OR", "use `||`"),
    ("NOT", "use `!`"),
    ("contains", "use `text.contains(\"part\")`"),
    ("matches", "use `text.matches(\"pattern\")`"),
    ("startswith", "use `text.startsWith(\"prefix\")`"),
];

/// Parses an expression.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("an expression can be at most {TEXT_BYTES_MAX} bytes long");
        return Err(Fault::new(TEXT_BYTES_MAX, message, "use fewer conditions"));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, nesting: 0 };
    let expr = parser.conditional()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("an operator or the end")),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    nesting: usize,
}

type Parsed = Result<Expr, Fault>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].1
    }

    fn at(&self) -> usize {
        self.tokens[self.next].0
    }

    fn advance(&mut self) -> Token {
        let token = self.peek().clone();
        // The end token is never consumed.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Symbol(next) if *next == symbol);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Fault> {
        match self.take(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{symbol}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            Token::End => "the end".to_owned(),
            Token::Name(name) | Token::Quoted(name) => format!("`{name}`"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::Int(value) => format!("`{value}`"),
            Token::Double(value) => format!("`{value}`"),
            Token::Text(_) => "a string".to_owned(),
        };
        let name = if let Token::Name(name) = self.peek() { name.as_str() } else { "" };
        let advice =
            FOREIGN.iter().find(|(word, _)| *word == name).map_or("", |(_, advice)| advice);
        Fault::new(self.at(), format!("expected {expected}, found {found}"), advice)
    }

    fn build(&self, at: usize, form: Form) -> Parsed {
        let expr = Expr::new(at, form);
        match expr.height > HEIGHT_MAX {
            true => {
                let advice = "split the expression into shorter chains";
                Err(Fault::new(at, format!("more than {HEIGHT_MAX} levels"), advice))
            }
            false => Ok(expr),
        }
    }

    /// Parses `condition ? value : value`, or an expression with a higher precedence.
    fn conditional(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            let message = format!("more than {NESTING_MAX} levels of parentheses");
            return Err(Fault::new(self.at(), message, "remove some of them"));
        }
        let condition = self.any()?;
        let at = self.at();
        let expr = match self.take("?") {
            false => condition,
            true => {
                let value = self.any()?;
                self.expect(":")?;
                let otherwise = self.conditional()?;
                self.build(at, Form::Conditional(condition.into(), value.into(), otherwise.into()))?
            }
        };
        self.nesting -= 1;
        Ok(expr)
    }

    fn any(&mut self) -> Parsed {
        self.joined("||", Parser::all, Form::Any)
    }

    fn all(&mut self) -> Parsed {
        self.joined("&&", |parser| parser.binary(1), Form::All)
    }

    fn joined(
        &mut self,
        symbol: &str,
        part: fn(&mut Parser) -> Parsed,
        form: fn(Vec<Expr>) -> Form,
    ) -> Parsed {
        let first = part(self)?;
        let at = self.at();
        let mut list = vec![first];
        while self.take(symbol) {
            list.push(part(self)?);
        }
        match list.len() {
            1 => Ok(list.remove(0)),
            _ => self.build(at, form(list)),
        }
    }

    /// Parses left-associative operators with at least this precedence.
    fn binary(&mut self, precedence: usize) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Token::Symbol(symbol) => Operator::of(symbol),
                Token::Name(name) if name == "in" => Some(Operator::In),
                _ => None,
            };
            let Some(operator) = operator.filter(|operator| operator.precedence() >= precedence)
            else {
                return Ok(left);
            };
            let at = self.at();
            self.advance();
            let right = self.binary(operator.precedence() + 1)?;
            left = self.build(at, Form::Binary(operator, left.into(), right.into()))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let mut operators = Vec::new();
        while matches!(self.peek(), Token::Symbol("!" | "-")) {
            let at = self.at();
            operators.push((at, self.advance()));
        }
        let is_negative = operators.last().is_some_and(|(_, symbol)| *symbol == Token::Symbol("-"));
        let mut expr = match (self.peek(), is_negative) {
            (Token::Int(value), true) => {
                let value =
                    0i64.checked_sub_unsigned(*value).ok_or_else(|| too_large(self.at()))?;
                let (at, _) = operators.pop().unwrap_or((self.at(), Token::End));
                self.advance();
                let literal = self.build(at, Form::Int(value))?;
                self.postfix(literal)?
            }
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)?
            }
        };
        for (at, symbol) in operators.into_iter().rev() {
            let form = if symbol == Token::Symbol("!") { Form::Not } else { Form::Negate };
            expr = self.build(at, form(expr.into()))?;
        }
        Ok(expr)
    }

    /// Parses members, calls and indexes that follow a value.
    fn postfix(&mut self, mut expr: Expr) -> Parsed {
        loop {
            let at = self.at();
            if self.take("[") {
                let index = self.conditional()?;
                self.expect("]")?;
                expr = self.build(at, Form::Index(expr.into(), index.into()))?;
            } else if self.take(".") {
                let at = self.at();
                let form = match self.advance() {
                    Token::Name(name) if self.take("(") => {
                        Form::Call(Some(expr.into()), name, self.list(")")?)
                    }
                    Token::Name(name) | Token::Quoted(name) => Form::Member(expr.into(), name),
                    _ => {
                        let advice = "write names with special characters as event[\"a-b\"]";
                        return Err(Fault::new(at, "expected a name after the dot", advice));
                    }
                };
                expr = self.build(at, form)?;
            } else {
                return Ok(expr);
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let form = match self.peek().clone() {
            Token::Int(value) => Form::Int(i64::try_from(value).map_err(|_| too_large(at))?),
            Token::Double(value) => Form::Double(value),
            Token::Text(text) => Form::Text(text),
            Token::Name(name) => return self.named(at, name),
            Token::Symbol("(") => {
                self.advance();
                let inside = self.conditional()?;
                self.expect(")")?;
                return Ok(inside);
            }
            Token::Symbol("[") => {
                self.advance();
                Form::List(self.list("]")?)
            }
            Token::Symbol("{") => {
                self.advance();
                Form::Map(self.entries()?)
            }
            _ => return Err(self.unexpected("a value")),
        };
        if matches!(form, Form::Int(_) | Form::Double(_) | Form::Text(_)) {
            self.advance();
        }
        self.build(at, form)
    }

    fn named(&mut self, at: usize, name: String) -> Parsed {
        if name == "in" {
            return Err(self.unexpected("a value"));
        }
        self.advance();
        let form = match name.as_str() {
            "true" => Form::Bool(true),
            "false" => Form::Bool(false),
            "null" => Form::Null,
            _ if self.take("(") => Form::Call(None, name, self.list(")")?),
            _ if RESERVED.contains(&name.as_str()) => {
                let advice = format!("use `event.{name}` for a field of this name");
                return Err(Fault::new(at, format!("`{name}` is a reserved word"), advice));
            }
            _ => Form::Name(name),
        };
        self.build(at, form)
    }

    /// Parses values up to the closing bracket, with an optional trailing comma.
    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Fault> {
        let mut list = Vec::new();
        while !self.take(close) {
            list.push(self.conditional()?);
            if !self.take(",") {
                self.expect(close)?;
                break;
            }
        }
        Ok(list)
    }

    fn entries(&mut self) -> Result<Vec<(Expr, Expr)>, Fault> {
        let mut entries = Vec::new();
        while !self.take("}") {
            let key = self.conditional()?;
            self.expect(":")?;
            entries.push((key, self.conditional()?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(entries)
    }
}

fn too_large(at: usize) -> Fault {
    Fault::new(
        at,
        "this number is too large",
        "integers are limited to 64 bits; use 1e20 for a larger number",
    )
}

/// Returns advice for an unknown function.
pub fn function_advice<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    match did_you_mean(name, known) {
        advice if advice.is_empty() => "docs/expressions.md lists the functions".to_owned(),
        advice => advice,
    }
}
