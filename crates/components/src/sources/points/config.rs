//! Options that all sources of metric points share, and the code that opens these sources.

use super::flusher::Flusher;
use super::origin::{OriginTag, OriginTags};
use super::point_handler::{PointHandler, Protocol};
use super::round_counts::RoundCounts;
use super::swap_slot::SwapSlot;
use crate::component::random_u64;
use crate::util::sockets;
use millstream_model::{BuildError, Expiry, Interval, OptionError, Size, Source, SourceOpen};
use millstream_receiver::{Address, Framing, Listen, Options, Receiver};
use millstream_series::{Limits, Shard, Store, Summaries};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Longest period.
const PERIOD_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum configurable size of a series' tags, in bytes. Tags of this size fit into a block even
/// as JSON, which takes up to six times the space.
const TAGS_SIZE_MAX: u64 = 32 * 1024;

/// Maximum configurable size of a name, in bytes.
const NAME_MAX: u64 = 4 * 1024;

/// Maximum configurable message size, in bytes.
const MESSAGE_MAX: u64 = 1024 * 1024;

/// Format of emitted timers, histograms and distributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distributions {
    /// Several events, such as the maximum and percentiles.
    #[default]
    Numbers,
    /// One event with the whole distribution. Many values become buckets.
    Sketch,
}

/// Options that all point sources share.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PointOptions {
    /// Addresses to listen on, or names of presets. The default depends on the source.
    #[schemars(length(min = 1))]
    pub listen: Option<Vec<String>>,
    /// Permissions for Unix sockets, in octal. The default allows all users to send.
    pub mode: String,
    /// Aggregation period: whole seconds, 1s to 1d. Periods are aligned to the clock. The default
    /// depends on the source.
    pub period: Option<Interval>,
    /// Requested size of the kernel's receive buffer for each UDP socket or connection. The log
    /// shows the granted size. Raise it if the kernel drops datagrams.
    pub receive_buffer: Size,
    /// Number of threads that receive and parse, 1 to 64. Raise it if one thread saturates a core.
    #[schemars(range(min = 1, max = 64))]
    pub receivers: usize,
    /// Whether to receive frequent small datagrams in groups, which takes less CPU time and adds up
    /// to 1 ms of delay.
    pub merge: bool,
    /// Maximum size of a datagram, or of a message in a stream, 1KiB to 1MiB.
    pub max_message: Size,
    /// Maximum number of concurrent connections; at most half of the process's limit on open files.
    #[schemars(range(min = 1, max = 65536))]
    pub max_connections: usize,
    /// Tags that the source adds to each point to identify its sender. The default is none because
    /// each tag multiplies the number of series.
    pub origin_tags: Vec<OriginTag>,
    /// Maximum number of series per receiver; points in additional series are counted together. The
    /// limit bounds the source's memory use.
    #[schemars(range(min = 1, max = 100_000_000))]
    pub max_series: usize,
    /// Maximum number of tags per series, up to 1,024.
    #[schemars(range(min = 1, max = 1024))]
    pub max_tags: usize,
    /// Maximum size of a name, up to 4KiB.
    pub max_name: Size,
    /// Maximum size of a point's tags, up to 32KiB.
    pub max_tags_size: Size,
    /// Idle time after which a series is removed, or `never`.
    pub expire: Expiry,
    /// Format of emitted timers, histograms and distributions: several `numbers`, or one `sketch`.
    pub distributions: Distributions,
}

impl Default for PointOptions {
    fn default() -> Self {
        let limits = Limits::default();
        PointOptions {
            listen: None,
            mode: "0722".into(),
            period: None,
            receive_buffer: Size(8 << 20),
            receivers: 1,
            merge: true,
            max_message: Size(64 << 10),
            max_connections: 1024,
            origin_tags: Vec::new(),
            max_series: limits.series,
            max_tags: limits.tags,
            max_name: Size(limits.name_bytes as u64),
            max_tags_size: Size(limits.tags_bytes as u64),
            expire: Expiry::After(Interval(Duration::from_secs(600))),
            distributions: Distributions::Numbers,
        }
    }
}

/// Properties that differ between the sources of metric points.
pub struct Kind {
    /// Default address to listen on.
    pub listen: &'static str,
    /// Default period.
    pub period: Duration,
    /// Supported URI schemes.
    pub schemes: &'static [&'static str],
    /// Presets: names of common addresses, with the addresses.
    pub presets: &'static [(&'static str, &'static str)],
    /// How messages are delimited on TCP.
    pub tcp: Framing,
}

impl Kind {
    fn address<'a>(&self, text: &'a str) -> &'a str {
        let preset = self.presets.iter().find(|(name, _)| *name == text);
        preset.map_or(text, |(_, address)| address)
    }

    fn check_address(&self, text: &str) -> Result<(), String> {
        let address = self.address(text);
        let names: Vec<&str> = self.presets.iter().map(|(name, _)| *name).collect();
        if !address.contains("://") {
            let names = names.join(", ");
            return Err(format!(
                "'{text}' is neither an address nor a preset ({names}); use, for example, {}",
                self.listen
            ));
        }
        sockets::check_address(address, self.schemes)
    }
}

impl PointOptions {
    /// Returns the addresses, with presets resolved.
    fn addresses(&self, kind: &Kind) -> Vec<String> {
        match &self.listen {
            None => vec![kind.listen.to_owned()],
            Some(list) => list.iter().map(|text| kind.address(text).to_owned()).collect(),
        }
    }

    /// Checks one of the configured addresses, and that no earlier address is the same.
    fn check_listed(&self, kind: &Kind, index: usize, text: &str) -> Result<(), String> {
        kind.check_address(text)?;
        let before = self.listen.iter().flatten().take(index);
        match before.map(|text| kind.address(text)).any(|before| before == kind.address(text)) {
            true => Err(format!("'{text}' is listed twice; list it once")),
            false => Ok(()),
        }
    }

    fn period(&self, kind: &Kind) -> Duration {
        self.period.map_or(kind.period, |period| period.0)
    }

    /// Returns errors that the schema cannot express, as (JSON pointer, message).
    pub fn check(&self, kind: &Kind) -> Vec<OptionError> {
        let mut errors: Vec<_> = check_period(self.period(kind)).into_iter().collect();
        let mut error =
            |key: &str, message: String| errors.push(OptionError::new(key.to_owned(), message));
        for (index, text) in self.listen.iter().flatten().enumerate() {
            if let Err(message) = self.check_listed(kind, index, text) {
                error(&format!("/listen/{index}"), message);
            }
        }
        for (index, tag) in self.origin_tags.iter().enumerate() {
            if self.origin_tags[..index].contains(tag) {
                error(&format!("/origin_tags/{index}"), "is listed twice; list it once".into());
            }
        }
        if let Err(message) = sockets::parse_mode(&self.mode) {
            error("/mode", message);
        }
        let sizes = [
            ("/max_message", self.max_message, 1024, MESSAGE_MAX, "1KiB to 1MiB"),
            ("/max_name", self.max_name, 1, NAME_MAX, "1B to 4KiB"),
            ("/max_tags_size", self.max_tags_size, 1, TAGS_SIZE_MAX, "1B to 32KiB"),
            ("/receive_buffer", self.receive_buffer, 4096, 1 << 30, "4KiB to 1GiB"),
        ];
        for (key, size, least, most, range) in sizes {
            if !(least..=most).contains(&size.0) {
                error(key, format!("out of range; use {range}"));
            }
        }
        errors
    }

    /// Returns names for the sockets, which two components cannot share. Sockets with port 0 are
    /// omitted, because each of them binds a different free port.
    pub fn claims(&self, kind: &Kind) -> Vec<String> {
        sockets::claims(&self.addresses(kind))
    }

    fn limits(&self) -> Limits {
        Limits {
            series: self.max_series,
            aliases: self.max_series,
            tags: self.max_tags,
            name_bytes: self.max_name.0 as usize,
            tags_bytes: self.max_tags_size.0 as usize,
            ..Limits::default()
        }
    }

    fn receiver(&self, kind: &Kind) -> Result<Receiver, BuildError> {
        let mode = Some(sockets::parse_mode(&self.mode).map_err(BuildError::Options)?);
        let listen = |text: &String| -> Result<Listen, BuildError> {
            let address: Address = text.parse().map_err(BuildError::Options)?;
            let framing =
                if matches!(address, Address::Tcp(_)) { kind.tcp } else { Framing::Length };
            Ok(Listen { address, mode, framing, tls: None })
        };
        let listen = self.addresses(kind).iter().map(listen).collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            shares: self.receivers,
            receive_buffer: self.receive_buffer.0 as usize,
            message_bytes_max: self.max_message.0 as usize,
            connections_max: sockets::connections_max(self.max_connections, &listen),
            truncates: false,
            credentials: !self.origin_tags.is_empty(),
            addresses: false,
            idle_timeout: None,
            message_timeout: None,
            merge: self.merge,
        };
        Receiver::open(&listen, &options).map_err(|error| BuildError::Listen(error.to_string()))
    }

    /// Returns whether distributions are emitted as sketches, in which case the options for
    /// aggregates have no effect.
    pub fn has_sketches(&self) -> bool {
        self.distributions == Distributions::Sketch
    }

    /// Opens the sockets, starts the receiver threads, and returns the source that flushes their
    /// shards. The source emits distributions as `summaries`, unless it emits sketches.
    ///
    /// # Errors
    /// Returns an error if a socket cannot be opened or a thread cannot be started.
    pub fn open(
        &self,
        kind: &Kind,
        protocol: Protocol,
        summaries: Summaries,
        open: SourceOpen,
    ) -> Result<Box<dyn Source>, BuildError> {
        let receiver = self.receiver(kind)?;
        let (limits, style) = (self.limits(), protocol.tag_style());
        let seed = random_u64()?;
        let swap_slot = |_| Arc::new(SwapSlot::new(open.wake.clone()));
        let swap_slots: Vec<Arc<SwapSlot>> = (0..self.receivers).map(swap_slot).collect();
        let point_handler = |swap_slot: &Arc<SwapSlot>| {
            let shard = Shard::new(style, &limits, seed);
            let origin = OriginTags::new(self.origin_tags.clone(), style);
            let counts = RoundCounts::new(open.info.id.clone(), open.counters.clone());
            let pressure = open.pressure.clone();
            let slot = swap_slot.clone();
            Box::new(PointHandler::new(protocol, shard, slot, origin, counts, pressure)) as _
        };
        let handlers = swap_slots.iter().map(point_handler).collect();
        let period = self.period(kind);
        let store = Store::new(self.receivers, self.idle_max(period), seed);
        open.counters.register_drop_reasons(&["kernel", "truncated"]);
        open.counters.set_series(0);
        let receiving = receiver.start(&open.info.id, handlers).map_err(BuildError::Thread)?;
        let summaries = (!self.has_sketches()).then_some(summaries);
        Ok(Box::new(Flusher::new(&open, receiving, swap_slots, store, period, summaries)?))
    }

    /// Returns the number of periods without points after which a series is removed.
    fn idle_max(&self, period: Duration) -> u32 {
        let never = u32::MAX;
        let duration = self.expire.duration().map(|expire| expire.as_secs());
        let periods = duration.map(|seconds| seconds.div_ceil(period.as_secs()));
        periods.map_or(never, |periods| u32::try_from(periods).unwrap_or(never))
    }
}

/// Returns the error for a period, if the period is invalid.
pub fn check_period(period: Duration) -> Option<OptionError> {
    let is_good = period.subsec_nanos() == 0 && period <= PERIOD_MAX;
    (!is_good).then(|| {
        let message = "must be a whole number of seconds up to 1d; use, for example, 10s";
        OptionError::new("/period", message)
    })
}
