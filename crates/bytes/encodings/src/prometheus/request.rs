//! Remote write requests of either protocol version, which can be split between events.

use super::accumulator::{Collector, Point};
use super::distribution::Histogram;
use super::write1::WriteRequest;
use super::write2::{self, UsedSymbols, WriteRequest2};
use bytes::Bytes;

/// Version of the remote write protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// `prometheus.WriteRequest`, which every back end supports.
    #[default]
    One,
    /// `io.prometheus.write.v2.Request`, which is smaller and adds types and creation timestamps.
    Two,
}

impl Version {
    /// Returns the value of the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Version::One => "application/x-protobuf",
            Version::Two => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
        }
    }

    /// Returns the value of the `X-Prometheus-Remote-Write-Version` header.
    pub fn number(self) -> &'static str {
        match self {
            Version::One => "0.1.0",
            Version::Two => "2.0.0",
        }
    }
}

/// A complete, uncompressed request.
#[derive(Clone, Debug)]
pub struct Body {
    /// The protocol version.
    pub version: Version,
    /// The symbol table, if the version is 2.
    table: Bytes,
    series: Bytes,
    /// End offset of each event's series in `series`.
    ends: Vec<u32>,
}

impl Body {
    /// Returns an empty version 2 request. If a back end's response to the request includes
    /// statistics, the back end supports version 2.
    pub fn probe() -> Body {
        // The symbol table is empty, so the seed is irrelevant.
        RequestBuilder::new(Version::Two, 0).take()
    }

    /// Returns the number of events.
    pub fn events(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Returns the bytes of the request as consecutive parts.
    pub fn parts(&self) -> [Bytes; 2] {
        [self.table.clone(), self.series.clone()]
    }

    /// Splits the request in half between events and keeps the order. Returns `None` if the request
    /// has fewer than two events or is invalid. Each half keeps only the symbols that its series
    /// use, because a half with the full table might still be too large.
    pub fn split(&self) -> Option<[Body; 2]> {
        if self.ends.len() < 2 {
            return None;
        }
        let (first, second) = self.ends.split_at(self.ends.len() / 2);
        let middle = *first.last()?;
        let half = |series: Bytes, ends: Vec<u32>| Body { series, ends, ..self.clone() };
        let before = half(self.series.slice(..middle as usize), first.to_vec());
        let ends = second.iter().map(|end| end - middle).collect();
        let after = half(self.series.slice(middle as usize..), ends);
        Some([before.with_used_symbols()?, after.with_used_symbols()?])
    }

    /// Returns the request with a table that contains only the symbols used by its series. Returns
    /// `None` if the request is invalid.
    fn with_used_symbols(self) -> Option<Body> {
        if self.version == Version::One {
            return Some(self);
        }
        let mut symbols = UsedSymbols::new(write2::symbols(&self.table)?);
        let (series, ends) = self.reencode(|event, out| symbols.push_series(event, out))?;
        Some(Body { version: self.version, table: symbols.into_table().into(), series, ends })
    }

    /// Re-encodes the series of each event with `push`. Returns the series and the end offsets;
    /// `None` if `push` returns `None`.
    fn reencode(
        &self,
        mut push: impl FnMut(&[u8], &mut Vec<u8>) -> Option<()>,
    ) -> Option<(Bytes, Vec<u32>)> {
        let (mut series, mut ends) = (Vec::with_capacity(self.series.len()), Vec::new());
        let mut begin = 0;
        for end in &self.ends {
            push(&self.series[begin..*end as usize], &mut series)?;
            ends.push(series.len() as u32);
            begin = *end as usize;
        }
        Some((series.into(), ends))
    }

    /// Converts the request to version 1, which drops types and creation timestamps. Returns `None`
    /// if the version is already 1 or the request is invalid.
    pub fn to_version_1(&self) -> Option<Body> {
        if self.version == Version::One {
            return None;
        }
        let symbols = write2::symbols(&self.table)?;
        let (series, ends) =
            self.reencode(|event, out| write2::push_version_1(event, &symbols, out))?;
        Some(Body { version: Version::One, table: Bytes::new(), series, ends })
    }
}

/// Collects series into requests.
pub struct RequestBuilder {
    version: Version,
    one: WriteRequest,
    two: WriteRequest2,
    ends: Vec<u32>,
}

impl RequestBuilder {
    /// Creates a builder for requests of `version`. `seed` is
    /// [`Options::seed`](super::Options::seed).
    pub fn new(version: Version, seed: u64) -> RequestBuilder {
        let (one, two) = (WriteRequest::default(), WriteRequest2::new(seed));
        RequestBuilder { version, one, two, ends: Vec::new() }
    }

    /// Changes the version of the requests. Has no effect while a request is in progress.
    pub fn set_version(&mut self, version: Version) {
        if self.ends.is_empty() {
            self.version = version;
        }
    }

    /// Ends an event. The event consists of all samples since the last call.
    pub fn end_event(&mut self) {
        let end = match self.version {
            Version::One => self.one.bytes(),
            Version::Two => self.two.series_bytes(),
        };
        self.ends.push(end as u32);
    }

    /// Returns the number of events in the request so far.
    pub fn events(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Returns the approximate size of the request so far, in bytes.
    pub fn bytes(&self) -> usize {
        match self.version {
            Version::One => self.one.bytes(),
            Version::Two => self.two.bytes(),
        }
    }

    /// Returns the request and starts the next one.
    pub fn take(&mut self) -> Body {
        let (table, series) = match self.version {
            Version::One => (Vec::new(), self.one.take()),
            Version::Two => self.two.take(),
        };
        let ends = std::mem::take(&mut self.ends);
        Body { version: self.version, table: table.into(), series: series.into(), ends }
    }
}

impl Collector for RequestBuilder {
    #[inline]
    fn number(&mut self, labels: &[u8], point: &Point) {
        match self.version {
            Version::One => self.one.number(labels, point),
            Version::Two => self.two.number(labels, point),
        }
    }

    fn histogram(&mut self, labels: &[u8], histogram: &Histogram, point: &Point) {
        match self.version {
            Version::One => self.one.histogram(labels, histogram, point),
            Version::Two => self.two.histogram(labels, histogram, point),
        }
    }
}
