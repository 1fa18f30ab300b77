//! Parses lines with a regular expression that has named groups, in linear time.
//!
//! The expression can match anywhere in a line unless `^` and `$` anchor it. Each named group
//! becomes a field. If a group did not participate in the match, its field is absent. The reason
//! for a line without a match is `no_match`.

#[cfg(test)]
mod tests;

use crate::Parser;
use crate::fields::{Fields, Reason};
use crate::input::Input;
use crate::types::Type;
use millstream_columns::{Cell, Kind};
use millstream_patterns::{PatternUse, pattern_fault};
use regex_automata::meta::{BuildError, Cache, Config, Regex as Expression};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use regex_automata::{Input as Haystack, PatternID};
use std::sync::Arc;

/// The expression does not match the line.
const NO_MATCH: Reason = "no_match";

/// Options for the parser.
#[derive(Clone, Debug, Default)]
pub struct RegexConfig {
    /// The expression in the syntax of the `regex` crate, with named groups such as
    /// `(?<status>\d+)`.
    pub pattern: String,
    /// Types of groups, by name.
    pub types: Vec<(String, Type)>,
}

/// Parser for lines that match a regular expression.
pub struct Regex(Groups);

impl Regex {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the expression is invalid. The error says what to use instead.
    pub fn new(config: &RegexConfig) -> Result<Regex, String> {
        let expression = compile(&config.pattern, true)?;
        let named = names(&expression).map(|(index, name)| (index, name.to_owned(), None));
        let groups = named.collect::<Vec<_>>();
        if groups.is_empty() {
            return Err(
                "the expression contains no named group, so the event would get no field; name a \
                 group, as in `(?<status>\\d+)`"
                    .into(),
            );
        }
        Groups::new(expression, groups, &config.types).map(Regex)
    }
}

/// Compiles an expression over bytes with the options of the `regex` crate. Uses the layer below
/// that crate so that the search cache can be in the parser, because getting the cache from a pool
/// dominates short searches.
pub fn compile(pattern: &str, is_unicode: bool) -> Result<Expression, String> {
    let syntax = syntax::Config::new().utf8(false).unicode(is_unicode);
    let config = Config::new().utf8_empty(false);
    Expression::builder()
        .syntax(syntax)
        .configure(config)
        .build(pattern)
        .map_err(|error| fault(pattern, &error))
}

/// Returns the index and name of each named group in an expression.
pub fn names(expression: &Expression) -> impl Iterator<Item = (usize, &str)> {
    let names = expression.group_info().pattern_names(PatternID::ZERO).enumerate();
    names.filter_map(|(index, name)| Some((index, name?)))
}

/// Returns an error message that says what is wrong with an expression and what to use instead.
fn fault(pattern: &str, error: &BuildError) -> String {
    match (error.syntax_error(), error.size_limit()) {
        (Some(error), _) => pattern_fault(pattern, &error.to_string(), PatternUse::Groups),
        (None, Some(limit)) => format!(
            "the compiled expression exceeds {limit} bytes; use fewer or smaller counted repetitions"
        ),
        (None, None) => format!("{error}; use a simpler expression"),
    }
}

/// The groups in an expression that become fields.
pub struct Groups {
    expression: Expression,
    cache: Cache,
    /// Bounds of the groups in the most recent match.
    slots: Vec<Option<NonMaxUsize>>,
    list: Arc<[Group]>,
    /// Field index of each group.
    fields: Vec<usize>,
}

/// A group that becomes a field.
struct Group {
    index: usize,
    name: Arc<str>,
    cast: Option<Type>,
}

impl Groups {
    /// Creates groups from tuples of index, field name and type. A type in `types` overrides the
    /// group's type.
    pub fn new(
        expression: Expression,
        groups: Vec<(usize, String, Option<Type>)>,
        types: &[(String, Type)],
    ) -> Result<Groups, String> {
        if let Some((missing, _)) =
            types.iter().find(|(field, _)| groups.iter().all(|(_, name, _)| name != field))
        {
            let names: Vec<&str> = groups.iter().map(|(_, name, _)| &**name).collect();
            return Err(format!(
                "`types` names `{missing}`, which is not a group; the groups are {}",
                names.join(", ")
            ));
        }
        let cast_of = |name: &str| {
            types.iter().find(|(field, _)| field == name).map(|(_, cast)| cast.clone())
        };
        let list = groups.into_iter().map(|(index, name, cast)| {
            let cast = cast_of(&name).or(cast).filter(|cast| !matches!(cast, Type::Text));
            Group { index, name: name.into(), cast }
        });
        Ok(Groups::of(expression, list.collect()))
    }

    fn of(expression: Expression, list: Arc<[Group]>) -> Groups {
        let (cache, slots) =
            (expression.create_cache(), vec![None; expression.group_info().slot_len()]);
        Groups { expression, cache, slots, list, fields: Vec::new() }
    }

    /// Clones the groups for use on another thread.
    pub fn clone_boxed(&self) -> Groups {
        Groups::of(self.expression.clone(), self.list.clone())
    }

    /// Parses the selected rows of `input` into `fields`.
    pub fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.fields.clear();
        self.fields.extend(self.list.iter().map(|group| fields.named(&group.name)));
        for (row, line, text) in input.rows() {
            match self.expression.search_slots_with(
                &mut self.cache,
                &Haystack::new(text),
                &mut self.slots,
            ) {
                Some(_) => self.row(row, line, text, input.read_ns, fields),
                None => fields.fail(row, NO_MATCH, 0),
            }
        }
    }

    #[inline(always)]
    fn row(&self, row: usize, line: Cell, text: &[u8], read_ns: i64, fields: &mut Fields) {
        for (group, field) in self.list.iter().zip(&self.fields) {
            let at = group.index * 2;
            let (Some(start), Some(end)) = (self.slots[at], self.slots[at + 1]) else { continue };
            let (start, end) = (start.get(), end.get());
            let mut cell = line.part(Kind::Text, start, end - start);
            if let Some(field_type) = &group.cast {
                let cast = field_type.cast(&text[start..end], cell, read_ns, fields);
                cell = cast.unwrap_or_else(|| fields.bad_type(row));
            }
            fields.set(*field, row, cell);
        }
    }
}

impl Parser for Regex {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.0.parse(input, fields);
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(Regex(self.0.clone_boxed()))
    }
}
