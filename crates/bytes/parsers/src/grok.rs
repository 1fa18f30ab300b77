//! Parses lines with a pattern that is composed of named patterns:
//! `%{IP:client} %{WORD:method} %{NUMBER:seconds:float}`.
//!
//! | syntax | meaning |
//! |---|---|
//! | `%{NAME}` | matches the pattern of this name |
//! | `%{NAME:field}` | the same, and stores the match in a field |
//! | `%{NAME:field:type}` | the same, with a type: `int`, `float`, `bool`, `string` (also `long`, `double`, `boolean`) |
//! | `%{NAME:[outer][inner]}` | the field is `outer.inner` |
//! | `(?<field>...)` | a plain regex group becomes a field |
//!
//! Everything else is a regular expression over bytes, matched in linear time. Character classes
//! are ASCII unless the pattern contains non-ASCII characters. If two groups have the same field,
//! the group that participated in the match wins, or the later group if both participated.

mod patterns;
#[cfg(test)]
mod tests;

use crate::Parser;
use crate::fields::Fields;
use crate::input::Input;
use crate::regex::{Groups, compile, names};
use crate::types::Type;

/// Maximum length of an expanded pattern in bytes, because patterns that refer to each other twice
/// grow exponentially.
const EXPRESSION_BYTES_MAX: usize = 256 << 10;

/// Prefix for the names of generated groups. Field names cannot be used, because they may contain
/// any character.
const GROUP: &str = "__";

/// Options for the parser.
#[derive(Clone, Debug, Default)]
pub struct GrokConfig {
    /// A regular expression with references such as `%{NAME:field}`.
    pub pattern: String,
    /// Custom patterns by name. They override standard patterns with the same name.
    pub patterns: Vec<(String, String)>,
    /// Types of fields, which override the types in the pattern.
    pub types: Vec<(String, Type)>,
}

/// Parser for lines that match a grok pattern.
pub struct Grok(Groups);

impl Grok {
    /// Creates a parser.
    ///
    /// # Errors
    ///
    /// Returns an error if the pattern is invalid. The error says what to use instead.
    pub fn new(config: &GrokConfig) -> Result<Grok, String> {
        let mut resolved = Resolved {
            own: &config.patterns,
            text: String::new(),
            fields: Vec::new(),
            within: Vec::new(),
        };
        resolved.add(&config.pattern)?;
        let expression = compile(&resolved.text, !resolved.text.is_ascii())?;
        let groups = names(&expression).map(|(index, name)| {
            let (field, cast) = resolved.field(name);
            (index, field, cast)
        });
        let groups: Vec<_> = groups.collect();
        if groups.is_empty() {
            return Err("the pattern contains no field; name one, as in `%{IP:client}`".into());
        }
        Groups::new(expression, groups, &config.types).map(Grok)
    }
}

/// A pattern that is being expanded to a regular expression.
struct Resolved<'a> {
    own: &'a [(String, String)],
    text: String,
    /// Names and types of the fields, indexed by generated group.
    fields: Vec<(String, Option<Type>)>,
    /// The patterns that are being expanded, outermost first.
    within: Vec<&'a str>,
}

impl<'a> Resolved<'a> {
    /// Appends the expansion of a pattern.
    fn add(&mut self, pattern: &'a str) -> Result<(), String> {
        let mut rest = pattern;
        while let Some(start) = rest.find("%{") {
            self.literal(&rest[..start])?;
            let inside = &rest[start + 2..];
            let end = inside.find('}').ok_or_else(|| {
                format!(
                    "`%{{` without `}}` in `{pattern}`; close it, or use `%\\{{` for these \
                     characters"
                )
            })?;
            self.reference(&inside[..end])?;
            rest = &inside[end + 1..];
        }
        self.literal(rest)
    }

    fn literal(&mut self, text: &str) -> Result<(), String> {
        if self.text.len() + text.len() > EXPRESSION_BYTES_MAX {
            let within = self.within.first().unwrap_or(&"it");
            return Err(format!(
                "the expanded pattern exceeds {EXPRESSION_BYTES_MAX} bytes in `{within}`; use fewer patterns"
            ));
        }
        self.text.push_str(text);
        Ok(())
    }

    /// Appends the expansion of `NAME`, `NAME:field` or `NAME:field:type`.
    fn reference(&mut self, reference: &'a str) -> Result<(), String> {
        let mut parts = reference.splitn(3, ':');
        let name = parts.next().unwrap_or_default();
        let (field, cast) = (parts.next(), parts.next());
        match field {
            None => self.literal("(?:")?,
            Some(field) => {
                let cast = cast.map(|cast| type_of(cast, reference)).transpose()?;
                let field = field_name(field);
                if field.is_empty() {
                    return Err(format!(
                        "`%{{{reference}}}` has an empty field; use `%{{{name}:field}}`"
                    ));
                }
                self.literal(&format!("(?<{GROUP}{}>", self.fields.len()))?;
                self.fields.push((field, cast));
            }
        }
        let definition = self.definition(name)?;
        if self.within.contains(&name) {
            let way = self.within.join("` in `");
            return Err(format!(
                "the pattern `{name}` contains itself (`{way}`); remove the recursion"
            ));
        }
        self.within.push(name);
        self.add(definition)?;
        self.within.pop();
        self.literal(")")
    }

    fn definition(&self, name: &str) -> Result<&'a str, String> {
        let own =
            self.own.iter().find(|(own_name, _)| own_name == name).map(|(_, pattern)| &**pattern);
        own.or_else(|| patterns::find(name)).ok_or_else(|| {
            let other =
                patterns::find(&name.to_ascii_uppercase()).map(|_| name.to_ascii_uppercase());
            let advice =
                other.map_or("define it under `patterns`".into(), |other| format!("use `{other}`"));
            format!("unknown pattern `{name}`; {advice}")
        })
    }

    /// Returns the field for a group. The group is generated or named by the pattern itself.
    fn field(&self, group: &str) -> (String, Option<Type>) {
        let number = group.strip_prefix(GROUP).and_then(|number| number.parse::<usize>().ok());
        let ours = number.and_then(|number| self.fields.get(number)).cloned();
        ours.unwrap_or_else(|| (field_name(group), None))
    }
}

fn type_of(name: &str, reference: &str) -> Result<Type, String> {
    match name {
        "int" | "long" => Ok(Type::Int),
        "float" | "double" => Ok(Type::Float),
        "bool" | "boolean" => Ok(Type::Bool),
        "string" => Ok(Type::Text),
        _ => Err(format!(
            "`%{{{reference}}}`: unknown type `{name}`; use int, float, bool or string"
        )),
    }
}

/// Converts a field reference `[a][b]` to `a.b`.
fn field_name(text: &str) -> String {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inside) => inside.replace("][", "."),
        None => text.to_owned(),
    }
}

impl Parser for Grok {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.0.parse(input, fields);
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(Grok(self.0.clone_boxed()))
    }
}
