//! Parses messages from metric clients into points: DogStatsD, and the metric server's protocol. No
//! I/O and no clock.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! A message is a datagram, or one frame of a stream. A parser calls a [`Visit`] with the contents
//! of the message in order: points, events, service checks, and errors. All of them borrow from the
//! message. Nothing is copied, and points do not allocate memory. Parsing never fails as a whole,
//! and takes time linear in the number of bytes for any input. Each part that cannot be parsed is
//! reported as a [`Fault`], and all other lines or points are parsed. If a value or field of a line
//! is invalid, all values of the line are rejected: `a:1:x:3|d` is one fault.
//!
//! ```
//! use millstream_points::dogstatsd::{Options, parse};
//! use millstream_points::{Event, Extra, Fault, Note, ServiceCheck, Visit};
//! use millstream_series::{Point, Values};
//!
//! #[derive(Default)]
//! struct Recorder(Vec<(String, Values<'static>)>, Vec<&'static str>);
//!
//! impl Visit<'static> for Recorder {
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
//! let mut recorder = Recorder::default();
//! parse(b"requests:1|c|#env:prod\nusers:x|g\nload:0.5|g", Options::default(), 1, &mut recorder);
//! assert_eq!(recorder.0, [("requests".into(), Values::Number(1.0)), ("load".into(), Values::Number(0.5))]);
//! assert_eq!(recorder.1, ["bad_value"]);
//! ```

#![forbid(unsafe_code)]

pub mod dogstatsd;
mod grouped;
pub mod metricserver;
mod number;
mod visit;

pub use grouped::Grouped;
pub use visit::{Event, Extra, Fault, Log, Note, ServiceCheck, Visit};
