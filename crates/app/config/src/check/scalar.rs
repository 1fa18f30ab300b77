//! Scalars: enumerations, bounds and formats.

use serde_json::{Number, Value as Json};
use std::ops::RangeInclusive;

use super::super::fault::Fault;
use super::super::node::{Data, Node, Scalar};
use super::super::secret::{advice, masked, masked_advice, subject};
use super::super::suggest;
use super::{Checker, Spot, allowed_values};

impl<'a> Checker<'a> {
    pub(super) fn scalar(&mut self, node: &Node, scalar: &Scalar, leaf: &'a Json, spot: Spot<'_>) {
        let allowed = allowed_values(leaf);
        let fault = if !allowed.is_empty() {
            (!allowed.contains(&&node.to_json())).then(|| unknown_value(node, &allowed, spot))
        } else {
            match scalar.data {
                Data::Int(value) => whole_fault(node, value, leaf, spot),
                Data::Float(value) => number_fault(node, value, leaf, spot),
                Data::Text => self.text_fault(node, &scalar.text, leaf, spot),
                Data::Null | Data::Bool(_) => None,
            }
        };
        self.faults.extend(fault);
    }

    fn text_fault(&self, node: &Node, text: &str, leaf: &Json, spot: Spot<'_>) -> Option<Fault> {
        let length = text.chars().count() as u64;
        let bound = |name| leaf.get(name).and_then(Json::as_u64);
        if let Some(least) = bound("minLength").filter(|least| length < *least) {
            let (state, advice) = match length {
                0 => ("empty", "enter a value, or remove the key".into()),
                _ => ("too short", format!("use at least {least} characters")),
            };
            return Some(Fault::new(
                &node.place,
                format!("{}the text is {state}", spot.prefix()),
                advice,
            ));
        }
        if let Some(most) = bound("maxLength").filter(|most| length > *most) {
            let what = format!("{}the text is too long", spot.prefix());
            return Some(Fault::new(&node.place, what, format!("use at most {most} characters")));
        }
        let format = leaf.get("format").and_then(Json::as_str)?;
        let message = self.format_check(format)?(text).err()?;
        let fault = Fault::from_message(&node.place, "", &message);
        let own = node.all_substituted();
        let what = format!("{}{}", subject(node, spot.key), masked(&fault.what, &own, &[]));
        Some(Fault::new(&node.place, what, advice(node, masked_advice(&fault.advice, &own, &[]))))
    }
}

/// Returns the error for a value that is not in an enumeration.
pub(super) fn unknown_value(node: &Node, allowed: &[&Json], spot: Spot<'_>) -> Fault {
    let names: Vec<String> = allowed.iter().map(|value| value_text(value)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let near = if node.template.is_none() { suggest::nearest(node.shown(), &names) } else { None };
    let advice = match (near, names.as_slice()) {
        (Some(name), _) => format!("did you mean `{name}`?"),
        (None, names) => format!("use {}", suggest::listed(names, "or")),
    };
    Fault::new(&node.place, format!("{}unknown value {}", spot.prefix(), node.quoted()), advice)
}

fn value_text(value: &Json) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn whole_fault(node: &Node, value: i128, leaf: &Json, spot: Spot<'_>) -> Option<Fault> {
    let (least, most) = whole_range(leaf.get("format").and_then(Json::as_str).unwrap_or_default());
    let bound = |name| leaf.get(name).and_then(Json::as_number).and_then(Number::as_i128);
    let least = bound("minimum").unwrap_or(least).max(least);
    let most = bound("maximum").unwrap_or(most).min(most);
    range_fault(node, value, least..=most, spot)
}

fn number_fault(node: &Node, value: f64, leaf: &Json, spot: Spot<'_>) -> Option<Fault> {
    let bound = |name| leaf.get(name).and_then(Json::as_f64);
    let least = bound("minimum").unwrap_or(f64::MIN);
    let most = bound("maximum").unwrap_or(f64::MAX);
    range_fault(node, value, least..=most, spot)
}

fn range_fault<N>(node: &Node, value: N, range: RangeInclusive<N>, spot: Spot<'_>) -> Option<Fault>
where
    N: PartialOrd + std::fmt::Display,
{
    let (size, instead) = if value < *range.start() {
        ("small", format!("use at least {}", range.start()))
    } else if value > *range.end() {
        ("large", format!("use at most {}", range.end()))
    } else {
        return None;
    };
    let shown =
        node.template.as_ref().map_or(node.shown().to_owned(), |template| format!("`{template}`"));
    Some(Fault::new(&node.place, format!("{}{shown} is too {size}", spot.prefix()), instead))
}

/// Returns the range of an integer type by its name in schemas, because a derived schema does not
/// always contain `minimum` and `maximum`.
fn whole_range(format: &str) -> (i128, i128) {
    match format {
        "int8" => (i8::MIN.into(), i8::MAX.into()),
        "int16" => (i16::MIN.into(), i16::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        "int64" | "int" => (i64::MIN.into(), i64::MAX.into()),
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint" => (0, u64::MAX.into()),
        _ => (i128::MIN, i128::MAX),
    }
}
