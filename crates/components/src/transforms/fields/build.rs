//! Builds the steps of the `fields` transform from their options.

use super::config::{
    Algorithm, CastType, FieldsConfig, HashConfig, JoinConfig, LookupConfig, Numbers, Query,
    SetConfig, SeverityConfig, SplitConfig, StepConfig, SubstringConfig, UrlConfig,
};
use super::constant::{Compute, Copy, Drop, Keep, Rename, Set, Value};
use super::dots::ReplaceDots;
use super::pieces::{Join, Split, SplitInto};
use super::severity::Normalize;
use super::table::{Lookup, Table};
use super::text::{Edit, Edits, Substring};
use super::typed::{Cast, Hash};
use super::url::Url;
use super::{Fields, Step};
use crate::component::{BuildCx, Component, TransformComponent};
use crate::transforms::parse::of_config;
use crate::util::condition::Formula;
use millstream_model::{BuildError, LINE, OptionError, Transform};
use millstream_parsers::SeverityScale;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

fn error(key: &str, message: impl Into<String>) -> OptionError {
    OptionError::new(key, message)
}

fn pairs(names: &BTreeMap<String, String>) -> Vec<(String, Arc<str>)> {
    names.iter().map(|(from, to)| (from.clone(), to.as_str().into())).collect()
}

fn edits(edit: Edit, fields: &[String]) -> Box<dyn Step> {
    Box::new(Edits { edit, fields: fields.iter().map(|name| name.as_str().into()).collect() })
}

/// Returns the field that a step writes; by default the field that it reads.
fn target(to: Option<&String>, field: &str) -> Arc<str> {
    to.map_or(field, String::as_str).into()
}

impl StepConfig {
    fn step(&self) -> Result<Box<dyn Step>, OptionError> {
        Ok(match self {
            StepConfig::Rename(names) => rename(names)?,
            StepConfig::Drop(names) => Box::new(Drop(names.clone())),
            StepConfig::Keep(names) => Box::new(Keep(names.clone())),
            StepConfig::Copy(names) => Box::new(Copy(pairs(names))),
            StepConfig::Set(values) => {
                let value = |(name, value): (&String, &SetConfig)| {
                    (name.as_str().into(), Value::new(value))
                };
                Box::new(Set(values.iter().map(value).collect()))
            }
            StepConfig::Compute(formulas) => {
                let formula =
                    |(name, formula): (&String, &Formula)| (name.as_str().into(), formula.clone());
                Box::new(Compute(formulas.iter().map(formula).collect()))
            }
            StepConfig::Cast(types) => Box::new(Cast(casts(types)?)),
            StepConfig::Lower(fields) => edits(Edit::Lower, fields),
            StepConfig::Upper(fields) => edits(Edit::Upper, fields),
            StepConfig::Trim(fields) => edits(Edit::Trim, fields),
            StepConfig::Substring(SubstringConfig { field, from, length, to }) => {
                let to = target(to.as_ref(), field);
                Box::new(Substring { field: field.clone(), to, from: *from, length: *length })
            }
            StepConfig::Split(split) => split.step()?,
            StepConfig::Join(JoinConfig { fields, delimiter, to }) => {
                let (fields, delimiter) = (fields.clone(), delimiter.clone());
                Box::new(Join { fields, delimiter, to: to.as_str().into() })
            }
            StepConfig::Lookup(lookup) => lookup.step()?,
            StepConfig::Hash(hash) => hash.step()?,
            StepConfig::Url(UrlConfig { field, prefix, query }) => {
                let parameters = *query == Query::Fields;
                Box::new(Url { field: field.clone(), prefix: prefix.clone(), parameters })
            }
            StepConfig::Severity(severity) => severity.step()?,
            StepConfig::ReplaceDots(with) => replace_dots(with)?,
        })
    }

    /// Returns the fields that the step changes or removes.
    fn changed(&self) -> Vec<&String> {
        match self {
            StepConfig::Copy(names) => names.values().collect(),
            StepConfig::Substring(one) => vec![one.to.as_ref().unwrap_or(&one.field)],
            StepConfig::Split(one) => one.to.iter().flatten().chain(&one.into).collect(),
            StepConfig::Join(one) => vec![&one.to],
            StepConfig::Lookup(one) => vec![one.to.as_ref().unwrap_or(&one.field)],
            StepConfig::Hash(one) => vec![one.to.as_ref().unwrap_or(&one.field)],
            StepConfig::Severity(one) => vec![&one.to, &one.number],
            StepConfig::Url(_) | StepConfig::ReplaceDots(_) => Vec::new(),
            _ => self.names(),
        }
    }

    /// Returns the fields that the step names.
    fn names(&self) -> Vec<&String> {
        match self {
            StepConfig::Rename(names) | StepConfig::Copy(names) => {
                names.iter().flat_map(|(a, b)| [a, b]).collect()
            }
            StepConfig::Drop(names) | StepConfig::Keep(names) => names.iter().collect(),
            StepConfig::Lower(names) | StepConfig::Upper(names) | StepConfig::Trim(names) => {
                names.iter().collect()
            }
            StepConfig::Set(values) => values.keys().collect(),
            StepConfig::Compute(formulas) => formulas.keys().collect(),
            StepConfig::Cast(types) => types.keys().collect(),
            StepConfig::Substring(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Split(one) => std::iter::once(&one.field)
                .chain(one.to.iter().flatten())
                .chain(&one.into)
                .collect(),
            StepConfig::Join(one) => one.fields.iter().chain([&one.to]).collect(),
            StepConfig::Lookup(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Hash(one) => std::iter::once(&one.field).chain(&one.to).collect(),
            StepConfig::Url(one) => vec![&one.field],
            StepConfig::Severity(one) => one.fields.iter().chain([&one.to, &one.number]).collect(),
            StepConfig::ReplaceDots(_) => Vec::new(),
        }
    }
}

fn rename(names: &BTreeMap<String, String>) -> Result<Box<dyn Step>, OptionError> {
    let mut new: Vec<&String> = names.values().collect();
    new.sort_unstable();
    match new.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(error(
            "/rename",
            format!("two fields are renamed to `{}`; use distinct names", twice[0]),
        )),
        None => Ok(Box::new(Rename(pairs(names)))),
    }
}

fn replace_dots(with: &str) -> Result<Box<dyn Step>, OptionError> {
    let is_usable = |c: char| c.is_alphanumeric() || "_-:/@".contains(c);
    match !with.is_empty() && with.chars().all(is_usable) {
        true => Ok(Box::new(ReplaceDots(with.to_owned()))),
        false => Err(error("/replace_dots", "cannot replace a dot in a name; use, for example, _")),
    }
}

fn casts(
    types: &BTreeMap<String, CastType>,
) -> Result<Vec<(Arc<str>, millstream_parsers::Type)>, OptionError> {
    let cast = |(name, kind): (&String, &CastType)| match name.as_str() {
        "message" => {
            Err(error("/cast/message", "a message is always text; copy it to a field first"))
        }
        _ => Ok((name.as_str().into(), of_config(kind, &format!("/cast/{name}"))?)),
    };
    types.iter().map(cast).collect()
}

impl SplitConfig {
    fn step(&self) -> Result<Box<dyn Step>, OptionError> {
        let (field, delimiter) = (self.field.clone(), self.delimiter.clone());
        if delimiter.is_empty() {
            return Err(error("/split/delimiter", "is empty; use, for example, \"/\""));
        }
        match (&self.to, &self.into) {
            (Some(to), None) if !to.is_empty() => {
                let to = to.iter().map(|name| name.as_str().into()).collect();
                Ok(Box::new(Split { field, delimiter, to }))
            }
            (None, Some(into)) => {
                Ok(Box::new(SplitInto { field, delimiter, into: into.as_str().into() }))
            }
            _ => Err(error("/split", "needs one of `to` and `into`; use, for example, to: [a, b]")),
        }
    }
}

impl LookupConfig {
    fn step(&self) -> Result<Box<dyn Step>, OptionError> {
        let mut table = Table::default();
        if let Some(path) = &self.file {
            table.read(path).map_err(|message| error("/lookup/file", message))?;
        }
        if self.table.is_empty() && self.file.is_none() {
            return Err(error("/lookup", "has no table; set `table` or `file`"));
        }
        self.table.iter().for_each(|(key, value)| table.add(key.as_bytes(), value));
        let default = self.default.as_ref().map(|value| table.value(value));
        let to = target(self.to.as_ref(), &self.field);
        Ok(Box::new(Lookup { field: self.field.clone(), to, table, default }))
    }
}

impl HashConfig {
    fn step(&self) -> Result<Box<dyn Step>, OptionError> {
        if self.key.is_some() && self.algorithm == Algorithm::Xxh3 {
            return Err(error("/hash/key", "xxh3 cannot protect a secret; use algorithm: sha256"));
        }
        if self.key.as_ref().is_some_and(String::is_empty) {
            return Err(error("/hash/key", "is empty; use, for example, key: ${HASH_KEY}"));
        }
        let to = target(self.to.as_ref(), &self.field);
        let key = self.key.as_ref().map(|key| key.as_bytes().to_vec());
        Ok(Box::new(Hash { field: self.field.clone(), to, algorithm: self.algorithm, key }))
    }
}

impl SeverityConfig {
    fn step(&self) -> Result<Box<dyn Step>, OptionError> {
        if self.fields.is_empty() {
            return Err(error("/severity/fields", "is empty; use, for example, [level]"));
        }
        if self.to == self.number {
            return Err(error("/severity/number", "is the same field as `to`; use another name"));
        }
        let scale = match self.numbers {
            Numbers::Auto => SeverityScale::Auto,
            Numbers::Python => SeverityScale::Python,
            Numbers::Otel => SeverityScale::Otel,
        };
        Ok(Box::new(Normalize {
            fields: self.fields.clone(),
            scale,
            level: self.to.as_str().into(),
            number: self.number.as_str().into(),
        }))
    }
}

impl FieldsConfig {
    fn steps(&self) -> (Vec<Box<dyn Step>>, Vec<OptionError>) {
        let (mut steps, mut errors) = (Vec::new(), Vec::new());
        for (index, step) in self.steps.iter().enumerate() {
            if step.names().iter().any(|name| name.is_empty()) {
                let message = "has a field with an empty name; enter the name";
                errors.push(OptionError::new(format!("/steps/{index}"), message));
            }
            if step.changed().iter().any(|name| *name == LINE) {
                let message = "`meta.line` is the log line, which a step cannot change; copy the \
                               line to a field first";
                errors.push(OptionError::new(format!("/steps/{index}"), message));
            }
            match step.step() {
                Ok(step) => steps.push(step),
                Err(error) => errors.push(error.below(&format!("/steps/{index}"))),
            }
        }
        (steps, errors)
    }
}

impl Component for FieldsConfig {
    fn contents(&self) -> Vec<PathBuf> {
        let file = |step: &StepConfig| match step {
            StepConfig::Lookup(lookup) => lookup.file.clone(),
            _ => None,
        };
        self.steps.iter().filter_map(file).collect()
    }

    fn makes_metrics(&self) -> bool {
        true
    }

    fn check(&self) -> Vec<OptionError> {
        self.steps().1
    }

    fn outputs(&self) -> Vec<String> {
        self.on_error.outputs()
    }
}

impl TransformComponent for FieldsConfig {
    fn build(&self, _: &BuildCx<'_>) -> Result<Transform, BuildError> {
        let (steps, errors) = self.steps();
        if let Some(error) = errors.into_iter().next() {
            return Err(error.into());
        }
        let names: Arc<[String]> = self.steps.iter().flat_map(StepConfig::names).cloned().collect();
        let (steps, on_error): (Arc<[Box<dyn Step>]>, _) = (steps.into(), self.on_error);
        let make = move || Fields { steps: steps.clone(), names: names.clone(), on_error };
        Ok(Transform::Map(Arc::new(move || Box::new(make()))))
    }
}
