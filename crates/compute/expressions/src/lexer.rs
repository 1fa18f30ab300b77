//! Splits an expression's text into tokens.

use crate::fault::Fault;

/// A token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// An integer without its sign.
    Int(u64),
    Double(f64),
    Text(String),
    Name(String),
    /// A name in backticks, which may contain any character.
    Quoted(String),
    Symbol(&'static str),
    End,
}

/// All symbols. Each symbol is listed before its prefixes.
const SYMBOLS: &[&str] = &[
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "+", "-", "*", "/", "%", "?", ":", ".", ",",
    "(", ")", "[", "]", "{", "}",
];

/// Tokens of other languages, and what to use instead.
const FOREIGN: &[(&str, &str)] = &[
    ("=~", "use `text.matches(\"pattern\")`"),
    ("=", "use `==` to compare"),
    ("&", "use `&&`"),
    ("|", "use `||`"),
    (";", "an expression is one value; join conditions with `&&`"),
];

/// Returns the tokens in `text` and their positions, followed by [`Token::End`].
pub fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Fault> {
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_whitespace();
        let at = lexer.at;
        let token = lexer.token()?;
        let is_end = token == Token::End;
        tokens.push((at, token));
        if is_end {
            return Ok(tokens);
        }
    }
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_whitespace(&mut self) {
        loop {
            self.at = self.text.len() - self.rest().trim_ascii_start().len();
            if !self.rest().starts_with("//") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or(self.rest().len());
        }
    }

    fn token(&mut self) -> Result<Token, Fault> {
        let rest = self.rest();
        let mut first = rest.bytes();
        let (Some(byte), next) = (first.next(), first.next().unwrap_or(0)) else {
            return Ok(Token::End);
        };
        let is_quote = |byte| matches!(byte, b'"' | b'\'');
        let second = rest.as_bytes().get(2).copied().unwrap_or(0);
        match byte {
            b'"' | b'\'' => self.string(false),
            b'r' | b'R' if is_quote(next) => {
                self.at += 1;
                self.string(true)
            }
            b'b' | b'B' if is_quote(next) || matches!(next, b'r' | b'R') && is_quote(second) => {
                Err(Fault::new(self.at, "byte strings are not supported", "remove the `b`"))
            }
            b'0'..=b'9' => self.number(),
            b'.' if next.is_ascii_digit() => self.number(),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Ok(Token::Name(self.name().to_owned())),
            b'`' => self.quoted_name(),
            _ => self.symbol(),
        }
    }

    fn name(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.bytes().position(|byte| !byte.is_ascii_alphanumeric() && byte != b'_');
        let name = &rest[..end.unwrap_or(rest.len())];
        self.at += name.len();
        name
    }

    fn quoted_name(&mut self) -> Result<Token, Fault> {
        let inside = &self.rest()[1..];
        let end = inside.find('`').filter(|end| *end > 0);
        let end = end
            .ok_or_else(|| Fault::new(self.at, "unterminated name", "close it with a backtick"))?;
        self.at += end + 2;
        Ok(Token::Quoted(inside[..end].to_owned()))
    }

    fn symbol(&mut self) -> Result<Token, Fault> {
        let rest = self.rest();
        let foreign = FOREIGN.iter().find(|(symbol, _)| rest.starts_with(symbol));
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            return Ok(Token::Symbol(symbol));
        }
        let character = rest.chars().next().unwrap_or_default();
        let advice = foreign.map_or("put strings in quotes", |(_, advice)| advice);
        Err(Fault::new(self.at, format!("unexpected character `{character}`"), advice))
    }

    /// Reads a number, such as `12`, `0x1F`, `12u`, `1.5`, `.5` or `1e3`.
    fn number(&mut self) -> Result<Token, Fault> {
        let (start, rest) = (self.at, self.rest());
        let fault =
            |message| Fault::new(start, message, "numbers are written as 12, 0x1F, 1.5 or 1e3");
        if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            let len = hex.bytes().take_while(u8::is_ascii_hexdigit).count();
            self.at += 2 + len;
            let value = u64::from_str_radix(&hex[..len], 16)
                .map_err(|_| fault("this number is too large"))?;
            return self.number_end(Token::Int(value), start);
        }
        let digits =
            |from: usize| rest.as_bytes()[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let byte = |at: usize| rest.as_bytes().get(at).copied().unwrap_or(0);
        let mut len = digits(0);
        let whole = len;
        if byte(len) == b'.' && byte(len + 1).is_ascii_digit() {
            len += 1 + digits(len + 1);
        }
        let sign = usize::from(matches!(byte(len + 1), b'+' | b'-'));
        if matches!(byte(len), b'e' | b'E') && byte(len + 1 + sign).is_ascii_digit() {
            len += 1 + sign + digits(len + 1 + sign);
        }
        self.at += len;
        let value = match len == whole {
            true => rest[..len]
                .parse()
                .map(Token::Int)
                .map_err(|_| fault("this number is too large"))?,
            false => {
                let value: f64 = rest[..len].parse().map_err(|_| fault("invalid number"))?;
                Token::Double(
                    Some(value)
                        .filter(|value| value.is_finite())
                        .ok_or_else(|| fault("this number is too large"))?,
                )
            }
        };
        self.number_end(value, start)
    }

    /// Consumes the `u` suffix of an integer. Rejects any other letter.
    fn number_end(&mut self, value: Token, start: usize) -> Result<Token, Fault> {
        if matches!(value, Token::Int(_)) && self.rest().starts_with(['u', 'U']) {
            self.at += 1;
        }
        match self.rest().starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            true => Err(Fault::new(
                start,
                "a letter directly follows this number",
                "put strings in quotes",
            )),
            false => Ok(value),
        }
    }

    /// Reads a string: `"text"`, `'text'`, or either with triple quotes.
    fn string(&mut self, is_raw: bool) -> Result<Token, Fault> {
        let (start, rest) = (self.at, self.rest());
        let triple = ["\"\"\"", "'''"].into_iter().find(|quotes| rest.starts_with(quotes));
        let quotes = triple.unwrap_or(&rest[..1]);
        self.at += quotes.len();
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.starts_with(quotes) {
                self.at += quotes.len();
                return Ok(Token::Text(text));
            }
            match rest.chars().next() {
                Some('\\') if !is_raw => text.push(self.escape()?),
                Some(character) if triple.is_some() || !matches!(character, '\n' | '\r') => {
                    self.at += character.len_utf8();
                    text.push(character);
                }
                _ => {
                    return Err(Fault::new(
                        start,
                        "unterminated string",
                        format!("close it with {quotes}"),
                    ));
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        let (at, rest) = (self.at, &self.rest()[1..]);
        let fault = || {
            let advice = "use \\\\ for a backslash, or r\"...\" for a string without escapes";
            Fault::new(at, "unknown escape", advice)
        };
        let first = rest.chars().next().ok_or_else(fault)?;
        let simple = "abfnrtv\\?\"'`".chars().zip("\x07\x08\x0c\n\r\t\x0b\\?\"'`".chars());
        if let Some((_, character)) = { simple }.find(|(escape, _)| *escape == first) {
            self.at += 2;
            return Ok(character);
        }
        let (skip, len, radix) = match first {
            'x' | 'X' => (1, 2, 16),
            'u' => (1, 4, 16),
            'U' => (1, 8, 16),
            '0'..='3' => (0, 3, 8),
            _ => return Err(fault()),
        };
        let digits =
            rest.get(skip..skip + len).filter(|digits| digits.chars().all(|c| c.is_digit(radix)));
        self.at += 1 + skip + len;
        let value = digits.and_then(|digits| u32::from_str_radix(digits, radix).ok());
        value.and_then(char::from_u32).ok_or_else(fault)
    }
}
