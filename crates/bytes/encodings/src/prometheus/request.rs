//! Requests of either version, that can be cut between events.

use super::accumulator::{Collector, Point};
use super::distribution::Histogram;
use super::write1::WriteRequest;
use super::write2::{self, UsedTexts, WriteRequest2};
use bytes::Bytes;

/// Version of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// `prometheus.WriteRequest`: every back-end takes it.
    #[default]
    One,
    /// `io.prometheus.write.v2.Request`: smaller, with types and creation times.
    Two,
}

impl Version {
    /// What the header `Content-Type` says of it.
    pub fn content_type(self) -> &'static str {
        match self {
            Version::One => "application/x-protobuf",
            Version::Two => "application/x-protobuf;proto=io.prometheus.write.v2.Request",
        }
    }

    /// What the header `X-Prometheus-Remote-Write-Version` says of it.
    pub fn number(self) -> &'static str {
        match self {
            Version::One => "0.1.0",
            Version::Two => "2.0.0",
        }
    }
}

/// A request that is ready, not compressed.
#[derive(Clone, Debug)]
pub struct Body {
    /// The version it is of.
    pub version: Version,
    /// The table of texts of version 2.
    table: Bytes,
    series: Bytes,
    /// Where the series of each event end.
    ends: Vec<u32>,
}

impl Body {
    /// A request of version 2 that says nothing. What answers it with statistics knows that
    /// version.
    pub fn probe() -> Body {
        // Its table is empty: no seed matters.
        RequestBuilder::new(Version::Two, 0).take()
    }

    /// Events in it.
    pub fn events(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Its bytes, in order.
    pub fn parts(&self) -> [Bytes; 2] {
        [self.table.clone(), self.series.clone()]
    }

    /// Two requests that say the same together, in order; the series of an event stay together.
    /// `None` if there is only one event. Each has only the texts of its own series: with all of
    /// them it could stay too large.
    pub fn halves(&self) -> Option<[Body; 2]> {
        if self.ends.len() < 2 {
            return None;
        }
        let (first, second) = self.ends.split_at(self.ends.len() / 2);
        let middle = *first.last()?;
        let half = |series: Bytes, ends: Vec<u32>| Body { series, ends, ..self.clone() };
        let before = half(self.series.slice(..middle as usize), first.to_vec());
        let ends = second.iter().map(|end| end - middle).collect();
        let behind = half(self.series.slice(middle as usize..), ends);
        Some([before.with_used_texts()?, behind.with_used_texts()?])
    }

    /// The same with a table of only those texts that its series have.
    fn with_used_texts(self) -> Option<Body> {
        if self.version == Version::One {
            return Some(self);
        }
        let mut texts = UsedTexts::new(write2::symbols(&self.table)?);
        let (series, ends) = self.rewrite(|event, out| texts.push_series(event, out))?;
        Some(Body { version: self.version, table: texts.into_table().into(), series, ends })
    }

    /// The series of each event, as `push` writes them anew, and where they end.
    fn rewrite(
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

    /// The same as version 1, without types and creation times. `None` if it is that already.
    pub fn to_version_1(&self) -> Option<Body> {
        if self.version == Version::One {
            return None;
        }
        let symbols = write2::symbols(&self.table)?;
        let (series, ends) =
            self.rewrite(|event, out| write2::push_version_1(event, &symbols, out))?;
        Some(Body { version: Version::One, table: Bytes::new(), series, ends })
    }
}

/// Collects series to a request.
pub struct RequestBuilder {
    version: Version,
    one: WriteRequest,
    two: WriteRequest2,
    ends: Vec<u32>,
}

impl RequestBuilder {
    /// For requests of a version. `seed` is that of [`Options`](super::Options).
    pub fn new(version: Version, seed: u64) -> RequestBuilder {
        let (one, two) = (WriteRequest::default(), WriteRequest2::new(seed));
        RequestBuilder { version, one, two, ends: Vec::new() }
    }

    /// Changes the version of requests, if none is begun.
    pub fn set_version(&mut self, version: Version) {
        if self.ends.is_empty() {
            self.version = version;
        }
    }

    /// What was told since the last call is one event.
    pub fn end_event(&mut self) {
        let end = match self.version {
            Version::One => self.one.bytes(),
            Version::Two => self.two.series_bytes(),
        };
        self.ends.push(end as u32);
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.ends.len() as u64
    }

    /// About as many bytes as the request has so far.
    pub fn bytes(&self) -> usize {
        match self.version {
            Version::One => self.one.bytes(),
            Version::Two => self.two.bytes(),
        }
    }

    /// The request; the next one begins.
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
