//! Reference implementation of [`parse`](super::parse()), which works byte by byte and uses only
//! the standard library.

use super::{Options, event, line::Line, service_check, typed_values};
use crate::{Fault, Visit};

/// Reference implementation of [`super::parse()`].
pub fn parse<'a>(message: &'a [u8], options: Options, arrived: u64, visit: &mut impl Visit<'a>) {
    let mut at = 0;
    while at < message.len() {
        let rest = &message[at..];
        let len = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let text = rest[..len].strip_suffix(b"\r").unwrap_or(&rest[..len]);
        let consumed = match text {
            [] => Ok(len),
            _ if text.starts_with(event::PREFIX) => event::parse(rest, arrived, visit),
            _ if text.starts_with(service_check::PREFIX) => {
                service_check::parse(rest, arrived, visit)
            }
            _ => parse_metric(text, options, arrived, visit).map(|()| len),
        };
        if let Err(fault) = consumed {
            visit.fault(fault, text);
        }
        at += consumed.unwrap_or(len) + 1;
    }
}

fn parse_metric<'a>(
    text: &'a [u8],
    options: Options,
    arrived: u64,
    visit: &mut impl Visit<'a>,
) -> Result<(), Fault> {
    let mut fields = text.split(|byte| *byte == b'|');
    let head = fields.next().unwrap_or_default();
    let colon = head.iter().position(|byte| *byte == b':').unwrap_or(head.len());
    let (name, value) = (&head[..colon], head.get(colon + 1..).unwrap_or_default());
    if name.is_empty() {
        return Err(Fault::NoName);
    }
    if value.is_empty() {
        return Err(Fault::NoValue);
    }
    let kind = fields.next().ok_or(Fault::NoType)?;
    let line = Line::new(name, kind, arrived).and_then(|mut line| {
        fields.try_for_each(|field| line.set(field))?;
        Ok(line)
    });
    match line {
        Err(Fault::UnknownType | Fault::BadRate) => {
            typed_values::parse(name, &text[colon + 1..], options, arrived, visit)
        }
        line => line?.emit(value, value.len(), options, visit),
    }
}
