//! Compilation of a format's pieces into steps.

use super::literal::{EndCondition, Literal, Until};
use super::variables::{Of, Piece, Variable};
use super::{Escape, TimeField};
use crate::region::Bits;
use std::sync::Arc;

/// What to do with a step's value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Take {
    Text(usize),
    Int(usize),
    Float(usize),
    /// Store the request line in this slot, and method, path and protocol in the next three slots.
    Request(usize),
}

/// A step that matches one variable.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub take: Take,
    pub until: Until,
}

/// The field of a slot, or `None` if an earlier slot has the same variable.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub name: Option<Arc<str>>,
    /// Whether a value that cannot be cast stays a string instead of becoming null.
    pub or_text: bool,
}

/// A compiled format.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub prefix: Literal,
    pub steps: Vec<Step>,
    pub slots: Vec<Slot>,
    /// Bitmaps of each literal's first byte (see [`Until::bits`]).
    pub ends: Vec<Bits>,
    end_bytes: Vec<u8>,
    pub escape: Escape,
    pub time: Option<TimeField>,
}

impl Program {
    pub fn new(pieces: &[Piece], escape: Escape) -> Result<Program, String> {
        let mut program = Program {
            prefix: Literal::new(b"", false),
            steps: Vec::new(),
            slots: Vec::new(),
            ends: Vec::new(),
            end_bytes: Vec::new(),
            escape,
            time: None,
        };
        let mut pieces = pieces
            .iter()
            .filter(|piece| !matches!(piece, Piece::Literal(text) if text.is_empty()))
            .peekable();
        if let Some(Piece::Literal(text)) =
            pieces.next_if(|piece| matches!(piece, Piece::Literal(_)))
        {
            program.prefix = Literal::new(text, false);
        }
        while let Some(piece) = pieces.next() {
            let Piece::Variable(variable) = piece else { continue };
            let until = match pieces.peek() {
                Some(Piece::Literal(text)) => &text[..],
                Some(Piece::Variable(next)) => return Err(adjacent(variable, next)),
                None => &[],
            };
            pieces.next_if(|piece| matches!(piece, Piece::Literal(_)));
            program.step(variable, until, pieces.peek().is_none())?;
        }
        match program.steps.is_empty() {
            true => Err(
                "no variable in the format; use, for example, $remote_addr (nginx) or %h (Apache)"
                    .into(),
            ),
            false => Ok(program),
        }
    }

    fn step(&mut self, variable: &Variable, literal: &[u8], last: bool) -> Result<(), String> {
        if let Some(first) = literal.first().filter(|first| !first.is_ascii()) {
            return Err(format!(
                "the text after {} begins with the byte 0x{first:02X}; only ASCII can end a variable",
                variable.name
            ));
        }
        let condition = self.end_condition(variable, literal);
        let bits = literal.first().map(|first| self.end(*first));
        let until = Until { literal: Literal::new(literal, last), condition, bits };
        let slot = self.slot(&variable.name, variable.list);
        if let (Some(format), None) = (&variable.time, &self.time) {
            self.time =
                Some(TimeField { name: (*variable.name).into(), format: (**format).into() });
        }
        let take = match variable.of {
            Of::Text | Of::Time { .. } => Take::Text(slot),
            Of::Int => Take::Int(slot),
            Of::Float => Take::Float(slot),
            Of::Request => {
                for name in ["method", "path", "protocol"] {
                    self.slot(name, false);
                }
                Take::Request(slot)
            }
        };
        self.steps.push(Step { take, until });
        Ok(())
    }

    fn end_condition(&self, variable: &Variable, literal: &[u8]) -> EndCondition {
        let escapes = matches!(self.escape, Escape::Backslash | Escape::Json);
        match (literal.first(), variable.of) {
            (Some(b' '), Of::Time { spaced: true }) => EndCondition::OverOneSpace,
            (Some(b' '), Of::Request) => EndCondition::ToProtocol,
            (Some(b' '), _) if variable.list => EndCondition::OverLists,
            (Some(b'"'), _) if escapes => EndCondition::OverEscapes,
            _ => EndCondition::Anywhere,
        }
    }

    /// Finds or adds the bitmap for a byte, and returns its index.
    fn end(&mut self, byte: u8) -> usize {
        self.end_bytes.iter().position(|there| *there == byte).unwrap_or_else(|| {
            self.end_bytes.push(byte);
            self.ends.push(Bits::new(&[byte]));
            self.ends.len() - 1
        })
    }

    /// Returns the slot for a field. If several variables have the same name, the first one gets
    /// the field.
    fn slot(&mut self, name: &str, or_text: bool) -> usize {
        let is_free = self.slots.iter().all(|slot| slot.name.as_deref() != Some(name));
        self.slots.push(Slot { name: is_free.then(|| name.into()), or_text });
        self.slots.len() - 1
    }
}

fn adjacent(variable: &Variable, next: &Variable) -> String {
    let (one, two) = (&variable.name, &next.name);
    format!("no delimiter between {one} and {two}; add a character between them")
}
