//! Delimited lines whose columns are named by a header line.

use super::{Delimited, DelimitedConfig};
use crate::{Fields, Input, Parser, Reason, Type, Unequal};
use millstream_columns::{COLUMNS_MAX, Cell, Kind};
use std::sync::Arc;

const NO_HEADER: Reason = "no_header";
const BAD_HEADER: Reason = "bad_header";
const MISSING_COLUMN: Reason = "missing_column";

/// Start of the header line in W3C, IIS and Zeek logs, in any letter case. A colon, a tab or the
/// delimiter follows.
const FIELDS: &str = "#fields";

/// Where the column names come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnNames {
    /// A line that begins with `#Fields:`, or the configuration if there is no such line.
    IfPresent,
    /// A line that begins with `#Fields:`.
    FieldsLine,
    /// The first line of a file.
    FirstLine,
}

/// Parser for delimited lines whose columns are named by a header line.
///
/// The configured fields select the columns to parse. Without configured fields, every column
/// becomes a field. A line whose header is unknown does not match.
#[derive(Clone)]
pub struct Columned {
    config: DelimitedConfig,
    names: ColumnNames,
    /// Types by name, for columns that no configured field selects.
    types: Vec<(Arc<str>, Type)>,
    header: Option<Arc<str>>,
    columns: Result<Columns, Reason>,
}

/// The columns of the current header.
#[derive(Clone)]
struct Columns {
    parser: Delimited,
    /// Number of columns whose name occurs again in a later column.
    duplicates: u64,
}

impl Columned {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is invalid. The error says what to use instead.
    pub fn new(
        config: DelimitedConfig,
        names: ColumnNames,
        types: Vec<(Arc<str>, Type)>,
    ) -> Result<Columned, String> {
        let mut tried = config.clone();
        if tried.fields.is_empty() && names != ColumnNames::IfPresent {
            tried.fields.push(("a".into(), None));
        }
        let positional = Columns { parser: Delimited::new(tried)?, duplicates: 0 };
        let columns = match names {
            ColumnNames::IfPresent => Ok(positional),
            ColumnNames::FieldsLine | ColumnNames::FirstLine => Err(NO_HEADER),
        };
        Ok(Columned { config, names, types, header: None, columns })
    }

    /// Returns the columns that a header names.
    fn columns(&self, header: Option<&str>) -> Result<Columns, Reason> {
        if header == Some("") {
            return Err(BAD_HEADER);
        }
        let is_fields_line = self.names != ColumnNames::FirstLine;
        let names = match header.map(|header| (header, after_fields(header, &self.config))) {
            Some((_, Some(list))) if is_fields_line => Some(listed(list, &self.config)?),
            Some((header, _)) if !is_fields_line => Some(split(header, &self.config)?),
            _ => None,
        };
        match names {
            Some(names) => self.named(names),
            None if self.names == ColumnNames::IfPresent => self.positional(),
            None => Err(NO_HEADER),
        }
    }

    /// Returns the columns in the configured order.
    fn positional(&self) -> Result<Columns, Reason> {
        let parser = Delimited::new(self.config.clone()).map_err(|_| BAD_HEADER)?;
        Ok(Columns { parser, duplicates: 0 })
    }

    /// Returns the columns with these names.
    fn named(&self, names: Vec<String>) -> Result<Columns, Reason> {
        if self.names == ColumnNames::IfPresent && self.has_names_of_its_own(&names) {
            return self.positional();
        }
        let configured = self.config.fields.iter().filter(|(name, _)| !name.is_empty());
        let is_missing = |name: &str| !names.iter().any(|of_header| of_header == name);
        let is_strict = self.config.on_missing == Unequal::Fail;
        if is_strict && configured.clone().any(|(name, _)| is_missing(name)) {
            return Err(MISSING_COLUMN);
        }
        let mut duplicates = 0;
        let mut fields = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            let is_duplicate = names[index + 1..].contains(name) && !name.is_empty();
            duplicates += u64::from(is_duplicate);
            // The last value wins, as in all other parsers.
            fields.push(if is_duplicate { ("".into(), None) } else { self.field(name) });
        }
        let config = DelimitedConfig { fields, ..self.config.clone() };
        let parser = Delimited::new(config).map_err(|_| BAD_HEADER)?;
        Ok(Columns { parser, duplicates })
    }

    /// Returns whether the configuration renames the columns: every name that occurs in both is at
    /// the same position, and at least one configured name is not in the header.
    fn has_names_of_its_own(&self, names: &[String]) -> bool {
        let fields = || self.config.fields.iter().enumerate();
        let is_known = |name: &str| names.iter().any(|of_header| of_header == name);
        let is_elsewhere = |(index, (name, _)): (usize, &(Arc<str>, Option<Type>))| {
            is_known(name) && names.get(index).map(String::as_str) != Some(&**name)
        };
        let named = || fields().filter(|(_, (name, _))| !name.is_empty());
        !named().all(|(_, (name, _))| is_known(name)) && !named().any(is_elsewhere)
    }

    /// Returns the field for a column. A column with an empty name is skipped.
    fn field(&self, name: &str) -> (Arc<str>, Option<Type>) {
        let configured = self.config.fields.iter().find(|(field, _)| &**field == name);
        if let Some(field) = configured {
            return field.clone();
        }
        if !self.config.fields.is_empty() {
            return ("".into(), None);
        }
        let kind =
            self.types.iter().find(|(column, _)| &**column == name).map(|(_, kind)| kind.clone());
        (name.into(), kind)
    }
}

/// Returns the names in a header line that begins with [`FIELDS`]; `None` for any other line.
fn after_fields<'h>(header: &'h str, config: &DelimitedConfig) -> Option<&'h str> {
    let (start, rest) = header.split_at_checked(FIELDS.len())?;
    if !start.eq_ignore_ascii_case(FIELDS) {
        return None;
    }
    let delimiter = config.delimiter.as_str();
    rest.strip_prefix(':').or(rest.strip_prefix('\t')).or(rest.strip_prefix(delimiter))
}

/// Returns the names in a list. Whitespace separates the names unless the list contains the
/// delimiter, because files with other delimiters can use either.
fn listed(list: &str, config: &DelimitedConfig) -> Result<Vec<String>, Reason> {
    let list = list.trim_matches(' ');
    let is_space = config.delimiter == " ";
    if !is_space && list.contains(&*config.delimiter) {
        let names = split(list.trim_start_matches(&*config.delimiter), config)?;
        return Ok(names.iter().map(|name| name.trim().to_owned()).collect());
    }
    checked(list.split_ascii_whitespace().map(str::to_owned).collect())
}

/// Splits a header in the same way as any other line.
fn split(header: &str, config: &DelimitedConfig) -> Result<Vec<String>, Reason> {
    let count = header.matches(&*config.delimiter).count() + 1;
    if count > COLUMNS_MAX {
        return Err(BAD_HEADER);
    }
    let fields = (0..count).map(|index| (index.to_string().into(), None)).collect();
    let config = DelimitedConfig {
        fields,
        on_extra: Unequal::Fail,
        on_missing: Unequal::Ignore,
        null_values: Vec::new(),
        ..config.clone()
    };
    let mut parser = Delimited::new(config).map_err(|_| BAD_HEADER)?;
    let cells = [Cell::new(Kind::Text, 0, header.len())];
    let block = header.as_bytes();
    let input = Input { block, own: &[], cells: &cells, runs: &[(0, 1)], read_ns: 0 };
    let mut found = Fields::new(1, &[]);
    parser.parse(&input, &mut found);
    if !found.failures().is_empty() {
        return Err(BAD_HEADER);
    }
    let name = |index: usize| {
        let cell = found.get(index, 0);
        String::from_utf8_lossy(found.bytes(block, cell)).into_owned()
    };
    let mut names: Vec<String> = (0..count).map(name).collect();
    // Delimiters within quotes were counted, although they do not separate names.
    let last = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    if has_quotes(header, &parser) {
        names.truncate(last);
    }
    checked(names)
}

fn has_quotes(header: &str, parser: &Delimited) -> bool {
    parser.config.quote.is_some_and(|quote| header.as_bytes().contains(&quote))
}

fn checked(names: Vec<String>) -> Result<Vec<String>, Reason> {
    let has_names = names.iter().any(|name| !name.is_empty());
    if has_names && names.len() <= COLUMNS_MAX { Ok(names) } else { Err(BAD_HEADER) }
}

impl Parser for Columned {
    fn set_header(&mut self, header: Option<&Arc<str>>) {
        if self.header.as_ref() != header {
            self.columns = self.columns(header.map(|header| &**header));
            self.header = header.cloned();
        }
    }

    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        match &mut self.columns {
            Ok(columns) => {
                columns.parser.parse(input, fields);
                let rows: usize = input.runs.iter().map(|(begin, end)| end - begin).sum();
                fields.duplicates += columns.duplicates * rows as u64;
            }
            Err(reason) => {
                let rows = input.runs.iter().flat_map(|(begin, end)| *begin..*end);
                rows.for_each(|row| fields.fail(row, reason, 0));
            }
        }
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columned(names: ColumnNames, delimiter: &str, fields: &[&str], strict: bool) -> Columned {
        let fields = fields.iter().map(|name| ((*name).into(), None)).collect();
        let unequal = if strict { Unequal::Fail } else { Unequal::Ignore };
        let config = DelimitedConfig {
            delimiter: delimiter.into(),
            fields,
            on_extra: unequal,
            on_missing: unequal,
            ..DelimitedConfig::default()
        };
        Columned::new(config, names, Vec::new()).unwrap()
    }

    /// Parses a line. Returns its fields, or the reason why the line does not match.
    fn parse(parser: &mut Columned, header: Option<&str>, line: &str) -> Result<String, Reason> {
        parser.set_header(header.map(Arc::from).as_ref());
        let cells = [Cell::new(Kind::Text, 0, line.len())];
        let block = line.as_bytes();
        let input = Input { block, own: &[], cells: &cells, runs: &[(0, 1)], read_ns: 0 };
        let mut fields = Fields::new(1, &[]);
        parser.parse(&input, &mut fields);
        if let Some(failure) = fields.failures().first() {
            return Err(failure.reason);
        }
        let text = |index: usize| {
            String::from_utf8_lossy(fields.bytes(block, fields.get(index, 0))).into_owned()
        };
        let values: Vec<String> = (0..fields.len()).map(text).collect();
        let names = fields.list().iter().map(|field| field.name.to_string());
        let pairs: Vec<String> =
            names.zip(values).map(|(name, value)| format!("{name}={value}")).collect();
        Ok(pairs.join(" "))
    }

    #[test]
    fn a_first_line_names_columns_as_values_are_written() {
        let mut parser = columned(ColumnNames::FirstLine, ",", &[], false);
        for (header, line, expected) in [
            ("a,b", "1,2", "a=1 b=2"),
            ("b,a", "1,2", "b=1 a=2"),
            ("\"x,y\",\"say \"\"hi\"\"\"", "1,2", "x,y=1 say \"hi\"=2"),
            ("a,,b", "1,2,3", "a=1 b=3"),
            ("a,b,a", "1,2,3", "b=2 a=3"),
            ("a", "1,2", "a=1"),
            ("a,b", "1", "a=1 b="),
        ] {
            assert_eq!(parse(&mut parser, Some(header), line).as_deref(), Ok(expected), "{header}");
        }
    }

    #[test]
    fn a_line_without_a_known_header_does_not_match() {
        for names in [ColumnNames::FirstLine, ColumnNames::FieldsLine] {
            let mut parser = columned(names, ",", &[], false);
            assert_eq!(parse(&mut parser, None, "1,2"), Err(NO_HEADER));
        }
        for names in [ColumnNames::IfPresent, ColumnNames::FieldsLine] {
            let mut parser = columned(names, ",", &["a", "b"], false);
            assert_eq!(parse(&mut parser, Some(""), "1,2"), Err(BAD_HEADER), "it was too long");
        }
        let mut parser = columned(ColumnNames::FirstLine, ",", &[], false);
        assert_eq!(parse(&mut parser, Some(""), "1,2"), Err(BAD_HEADER));
        assert_eq!(parse(&mut parser, Some("a,\"b"), "1,2"), Err(BAD_HEADER));
        let many = vec!["a"; COLUMNS_MAX + 1].join(",");
        assert_eq!(parse(&mut parser, Some(&many), "1,2"), Err(BAD_HEADER));
        assert_eq!(parse(&mut parser, Some("a,b"), "1,2").as_deref(), Ok("a=1 b=2"));
        assert_eq!(parse(&mut parser, None, "1,2"), Err(NO_HEADER), "no previous columns");
    }

    #[test]
    fn configured_fields_select_columns() {
        let mut parser = columned(ColumnNames::FirstLine, ",", &["c", "a"], false);
        assert_eq!(parse(&mut parser, Some("a,b,c"), "1,2,3").as_deref(), Ok("a=1 c=3"));
        assert_eq!(parse(&mut parser, Some("a,b"), "1,2").as_deref(), Ok("a=1"));
        let mut strict = columned(ColumnNames::FirstLine, ",", &["c", "a"], true);
        assert_eq!(parse(&mut strict, Some("a,b"), "1,2"), Err(MISSING_COLUMN));
        assert_eq!(parse(&mut strict, Some("a,b,c"), "1,2"), Err("too_few_fields"));
    }

    #[test]
    fn names_of_a_fields_line_are_separated_by_the_delimiter_or_spaces() {
        for (delimiter, header, line) in [
            (" ", "#Fields: a  b", "1 2"),
            ("\t", "#Fields: a b", "1\t2"),
            ("\t", "#fields\ta\tb", "1\t2"),
            (",", "#FIELDS: a,b", "1,2"),
            (",", "#Fields: a , b", "1,2"),
            ("|", "#fields|a|b", "1|2"),
        ] {
            let mut parser = columned(ColumnNames::FieldsLine, delimiter, &[], true);
            assert_eq!(
                parse(&mut parser, Some(header), line).as_deref(),
                Ok("a=1 b=2"),
                "{header}"
            );
        }
    }

    #[test]
    fn without_an_option_a_header_decides_if_it_has_the_configured_names() {
        let mut parser = columned(ColumnNames::IfPresent, " ", &["a", "b"], false);
        for (header, expected) in [
            (None, "a=1 b=2"),
            (Some("#Fields: a b"), "a=1 b=2"),
            (Some("#Fields: b a"), "b=1 a=2"),
            (Some("#Fields: b c"), "b=1"),
            (Some("#Fields: x y"), "a=1 b=2"),
            (Some("#Fields: a y"), "a=1 b=2"),
            (Some("b a"), "a=1 b=2"),
        ] {
            assert_eq!(parse(&mut parser, header, "1 2").as_deref(), Ok(expected), "{header:?}");
        }
    }
}
