//! Conditions and computed fields: a subset of the Common Expression Language over columns.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A text is read once ([`Expression::new`]) and then computed for the chosen rows of a batch at a
//! time, as a condition ([`Expression::matches`]) or as a field ([`Expression::compute`]).
//! Comparisons of a field with a constant are loops over its column; everything else is computed
//! row by row, with the same result. `docs/expressions.md` describes the language.

#![forbid(unsafe_code)]

mod ast;
mod compile;
mod eval;
mod fault;
mod functions;
mod input;
mod json;
mod kernel;
mod lexer;
mod node;
mod output;
mod parser;
mod search;
mod text;
mod time;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use fault::Fault;
pub use input::{Counts, Field, Input};
pub use parser::{HEIGHT_MAX, NESTING_MAX, TEXT_BYTES_MAX};

use compile::{Compiled, compile};
use input::Bound;
use kernel::{Chosen, FALSE, Kernel, TRUE, error_of};
use millstream_columns::ColumnBuilder;
use std::fmt;
use types::Types;

/// An expression that was read and found to be sound.
#[derive(Debug)]
pub struct Expression {
    text: String,
    compiled: Compiled,
    kernel: Kernel,
}

impl Expression {
    /// Reads an expression of any type.
    ///
    /// # Errors
    ///
    /// What is wrong, where, and what to write instead: of the grammar, of names of functions, and
    /// of types, as far as they are known without the data.
    pub fn new(text: &str) -> Result<Expression, Fault> {
        Expression::read(text, true).map_err(|fault| fault.placed(text))
    }

    /// Reads an expression that is to be a condition.
    ///
    /// # Errors
    ///
    /// Those of [`Expression::new`], and that it can be neither true nor false.
    pub fn condition(text: &str) -> Result<Expression, Fault> {
        let expression = Expression::new(text)?;
        if expression.compiled.types.can_be(Types::BOOL) {
            return Ok(expression);
        }
        let message = format!("this is {}, not a condition", expression.compiled.types.words());
        Err(Fault::new(0, message, "compare it with something, as in `x != 0`").placed(text))
    }

    fn read(text: &str, strict: bool) -> Result<Expression, Fault> {
        let expr = parser::parse(text)?;
        // One for the columns, one for single rows: it is not worth sharing their parts.
        let mut kernel = Kernel::new(compile(&expr, strict)?.node);
        if kernel.macros() > 1 {
            kernel = Kernel::Row(compile(&expr, strict)?.node);
        }
        Ok(Expression { text: text.to_owned(), compiled: compile(&expr, strict)?, kernel })
    }

    /// The names it reads, with dots between their parts, each once. `event[name]` with a computed
    /// name is not among them.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.compiled.paths.iter().map(|path| path.name())
    }

    /// For which of the chosen rows the condition holds: `out` gets a bit per row, bit `row % 64`
    /// of word `row / 64`. Rows for which it has no answer are not among them, and are counted.
    pub fn matches(&self, input: &Input<'_>, out: &mut Vec<u64>, counts: &mut Counts) {
        let bound = Bound::new(&self.compiled.paths, input);
        let mut verdicts = vec![FALSE; input.rows];
        self.kernel.run(&bound, Chosen::Runs(input.runs), &mut verdicts);
        out.clear();
        out.extend(verdicts.chunks(64).map(|chunk| {
            let bits =
                chunk.iter().enumerate().map(|(bit, verdict)| u64::from(*verdict == TRUE) << bit);
            bits.fold(0, |word, bit| word | bit)
        }));
        if verdicts.iter().copied().fold(FALSE, u8::max) > TRUE {
            verdicts
                .iter()
                .filter_map(|verdict| error_of(*verdict))
                .for_each(|error| counts.add(error));
        }
    }

    /// Its value for the chosen rows. A row for which it has none gets no value, and is counted.
    /// Timestamps become [`Kind::Time`](millstream_columns::Kind::Time), durations texts such as
    /// `1.5s`, lists and maps JSON. Values that lie in the block are not copied.
    pub fn compute(&self, input: &Input<'_>, counts: &mut Counts) -> ColumnBuilder {
        let bound = Bound::new(&self.compiled.paths, input);
        output::compute(&self.compiled.node, &bound, counts)
    }
}

/// The text of an expression written anew, with every pair of parentheses that it could have: two
/// texts that give the same are the same expression, and what it gives is read as the same
/// expression. It may be too long or too deep to be read.
///
/// # Errors
///
/// Those of [`Expression::new`] that are of the grammar.
pub fn canonical(text: &str) -> Result<String, Fault> {
    parser::parse(text).map(|expr| expr.to_string()).map_err(|fault| fault.placed(text))
}

impl fmt::Display for Expression {
    /// The text it was read from.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}
