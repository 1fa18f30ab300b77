//! From words to an expression.

use crate::ast::{Expr, Form, Operator};
use crate::fault::{Fault, did_you_mean};
use crate::lexer::{Token, tokens};

/// Bytes of the text of an expression: a longer one is made by a program, and better as a list.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// Parentheses, brackets and choices within each other: each takes some of the stack.
pub const NESTING_MAX: usize = 64;
/// Levels of an expression, which it is computed by: each takes some of the stack.
pub const HEIGHT_MAX: usize = 250;

/// Names that the language keeps for itself.
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

/// Words of other languages, and what they are called here.
const FOREIGN: &[(&str, &str)] = &[
    ("and", "write `&&`"),
    ("or", "write `||`"),
    ("not", "write `!`"),
    ("AND", "write `&&`"),
    ("OR", "write `||`"),
    ("NOT", "write `!`"),
    ("contains", "write `text.contains(\"part\")`"),
    ("matches", "write `text.matches(\"pattern\")`"),
    ("startswith", "write `text.startsWith(\"prefix\")`"),
];

/// Reads an expression.
pub fn parse(text: &str) -> Result<Expr, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("an expression has at most {TEXT_BYTES_MAX} bytes");
        return Err(Fault::new(TEXT_BYTES_MAX, message, "write fewer conditions"));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, nesting: 0 };
    let expr = parser.choice()?;
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
        // The end stays the next one.
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_next = matches!(self.peek(), Token::Sign(next) if *next == sign);
        if is_next {
            self.advance();
        }
        is_next
    }

    fn expect(&mut self, sign: &str) -> Result<(), Fault> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("`{sign}`"))),
        }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match self.peek() {
            Token::End => "the end".to_owned(),
            Token::Name(name) | Token::Quoted(name) => format!("`{name}`"),
            Token::Sign(sign) => format!("`{sign}`"),
            Token::Int(value) => format!("`{value}`"),
            Token::Double(value) => format!("`{value}`"),
            Token::Text(_) => "a text".to_owned(),
        };
        let name = if let Token::Name(name) = self.peek() { name.as_str() } else { "" };
        let advice =
            FOREIGN.iter().find(|(word, _)| *word == name).map_or("", |(_, advice)| advice);
        Fault::new(self.at(), format!("{expected} should stand here, not {found}"), advice)
    }

    fn build(&self, at: usize, form: Form) -> Parsed {
        let expr = Expr::new(at, form);
        match expr.height > HEIGHT_MAX {
            true => Err(Fault::new(
                at,
                format!("more than {HEIGHT_MAX} levels"),
                "write shorter chains",
            )),
            false => Ok(expr),
        }
    }

    /// `condition ? value : value`, and everything that binds more strongly.
    fn choice(&mut self) -> Parsed {
        self.nesting += 1;
        if self.nesting > NESTING_MAX {
            let message = format!("more than {NESTING_MAX} levels of parentheses");
            return Err(Fault::new(self.at(), message, "leave some out"));
        }
        let condition = self.any()?;
        let at = self.at();
        let expr = match self.take("?") {
            false => condition,
            true => {
                let value = self.any()?;
                self.expect(":")?;
                let otherwise = self.choice()?;
                self.build(at, Form::Choice(condition.into(), value.into(), otherwise.into()))?
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
        sign: &str,
        part: fn(&mut Parser) -> Parsed,
        form: fn(Vec<Expr>) -> Form,
    ) -> Parsed {
        let first = part(self)?;
        let at = self.at();
        let mut list = vec![first];
        while self.take(sign) {
            list.push(part(self)?);
        }
        match list.len() {
            1 => Ok(list.remove(0)),
            _ => self.build(at, form(list)),
        }
    }

    /// Operators that bind at least so strongly, from the left.
    fn binary(&mut self, strength: usize) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let operator = match self.peek() {
                Token::Sign(sign) => Operator::of(sign),
                Token::Name(name) if name == "in" => Some(Operator::In),
                _ => None,
            };
            let Some(operator) = operator.filter(|operator| operator.strength() >= strength) else {
                return Ok(left);
            };
            let at = self.at();
            self.advance();
            let right = self.binary(operator.strength() + 1)?;
            left = self.build(at, Form::Binary(operator, left.into(), right.into()))?;
        }
    }

    fn unary(&mut self) -> Parsed {
        let mut signs = Vec::new();
        while matches!(self.peek(), Token::Sign("!" | "-")) {
            let at = self.at();
            signs.push((at, self.advance()));
        }
        let is_negative = signs.last().is_some_and(|(_, sign)| *sign == Token::Sign("-"));
        let mut expr = match (self.peek(), is_negative) {
            (Token::Int(value), true) => {
                let value =
                    0i64.checked_sub_unsigned(*value).ok_or_else(|| too_large(self.at()))?;
                let (at, _) = signs.pop().unwrap_or((self.at(), Token::End));
                self.advance();
                let literal = self.build(at, Form::Int(value))?;
                self.postfix(literal)?
            }
            _ => {
                let primary = self.primary()?;
                self.postfix(primary)?
            }
        };
        for (at, sign) in signs.into_iter().rev() {
            let form = if sign == Token::Sign("!") { Form::Not } else { Form::Negate };
            expr = self.build(at, form(expr.into()))?;
        }
        Ok(expr)
    }

    /// Members, calls and indices behind a value.
    fn postfix(&mut self, mut expr: Expr) -> Parsed {
        loop {
            let at = self.at();
            if self.take("[") {
                let index = self.choice()?;
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
                        let advice = "names with other signs are written as event[\"a-b\"]";
                        return Err(Fault::new(at, "a name should stand behind the dot", advice));
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
            Token::Sign("(") => {
                self.advance();
                let inside = self.choice()?;
                self.expect(")")?;
                return Ok(inside);
            }
            Token::Sign("[") => {
                self.advance();
                Form::List(self.list("]")?)
            }
            Token::Sign("{") => {
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
                let advice = format!("write `event.{name}` for a field of this name");
                return Err(Fault::new(at, format!("`{name}` is a word of the language"), advice));
            }
            _ => Form::Name(name),
        };
        self.build(at, form)
    }

    /// Values up to the closing sign; a comma may stand behind the last one.
    fn list(&mut self, close: &str) -> Result<Vec<Expr>, Fault> {
        let mut list = Vec::new();
        while !self.take(close) {
            list.push(self.choice()?);
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
            let key = self.choice()?;
            self.expect(":")?;
            entries.push((key, self.choice()?));
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
        "whole numbers have 64 bits; write 1e20 for a larger one",
    )
}

/// Advice for a function that does not exist.
pub fn near<'k>(name: &str, known: impl Iterator<Item = &'k str>) -> String {
    match did_you_mean(name, known) {
        advice if advice.is_empty() => "docs/expressions.md lists the functions".to_owned(),
        advice => advice,
    }
}
