//! Messages of metric clients to points: those of DogStatsD and of the metric server. No I/O,
//! no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A message is a datagram, or what one frame of a stream holds. A parser calls a [`Visit`] with
//! what the message has, in its order: points, events, service checks, and what of it is at fault.
//! All of it is views into the message; nothing is copied, and nothing allocated for a point.
//! Whatever the bytes are, parsing takes time that grows with their number only, and never fails:
//! what cannot be read is told as a [`Fault`], the rest is read. The rest is all other lines or
//! points, and on a line of several values all other values: `a:1:x:3|d` is one fault and two
//! values. A fault in another field of such a line leaves out all of its values.
//!
//! ```
//! use millstream_points::dogstatsd::{Options, parse};
//! use millstream_points::{Event, Extra, Fault, Note, ServiceCheck, Visit};
//! use millstream_series::{Point, Values};
//!
//! #[derive(Default)]
//! struct Told(Vec<(String, Values<'static>)>, Vec<&'static str>);
//!
//! impl Visit<'static> for Told {
//!     fn point(&mut self, point: Point<'static>, _: &Extra<'static>) {
//!         self.0.push((String::from_utf8_lossy(point.name).into(), point.values));
//!     }
//!     fn packed(&mut self, _: &Point<'_>, _: &Extra<'static>) {}
//!     fn event(&mut self, _: &Event<'static>) {}
//!     fn service_check(&mut self, _: &ServiceCheck<'static>) {}
//!     fn fault(&mut self, fault: Fault, _: &'static [u8]) {
//!         self.1.push(fault.name());
//!     }
//!     fn note(&mut self, _: Note, _: &'static [u8]) {}
//! }
//!
//! let mut told = Told::default();
//! parse(b"requests:1|c|#env:prod\nusers:x|g\nload:0.5|g", Options::default(), 1, &mut told);
//! assert_eq!(told.0, [("requests".into(), Values::Number(1.0)), ("load".into(), Values::Number(0.5))]);
//! assert_eq!(told.1, ["bad_value"]);
//! ```

#![forbid(unsafe_code)]

pub mod dogstatsd;
mod grouped;
pub mod metricserver;
mod number;
mod visit;

pub use grouped::Grouped;
pub use visit::{Event, Extra, Fault, Note, ServiceCheck, Visit};
