//! The division of `limits.memory`, and the errors for configurations that need more.

use super::{Parts, Settings, SinkPart, TransformPart};
use crate::error::EngineError;
use crate::limits::{GRANT_PERCENT, STATE_PERCENT};
use millstream_model::Transform;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES, ROW_BYTES};

/// Returns the bytes of `limits.memory` that are not reserved for a runtime.
fn own_bytes(settings: &Settings) -> u64 {
    settings.memory_bytes.saturating_sub(settings.reserved_bytes)
}

/// Returns the bytes for data in flight.
pub fn grant_bytes(settings: &Settings) -> u64 {
    own_bytes(settings) * GRANT_PERCENT / 100
}

/// The division of memory within a topology.
pub struct MemoryShares {
    /// Bytes for a sink's state in addition to the minimum that the sink needs.
    pub state_bytes: u64,
    /// Bytes available for the queue of one sink.
    pub sink_bytes: u64,
    /// Bytes that tickets from all sources may keep at one cut.
    pub cut_bytes: u64,
    /// Bytes that tickets from one source may keep at one cut.
    pub source_cut_bytes: u64,
}

impl MemoryShares {
    /// Divides the memory among these parts. `grant_bytes` is the part of the memory for data in
    /// flight.
    pub fn new(parts: &Parts, settings: &Settings, grant_bytes: u64) -> MemoryShares {
        let sinks = parts.sinks.len().max(1) as u64;
        let sources = (parts.sources.len() + parts.feeds.len()).max(1) as u64;
        let cut_bytes = cut_bytes(grant_bytes, &parts.transforms);
        MemoryShares {
            state_bytes: spare_state_bytes(&parts.sinks, settings),
            sink_bytes: grant_bytes / (2 * sinks),
            cut_bytes,
            source_cut_bytes: cut_bytes / sources,
        }
    }
}

/// Returns the total bytes for the states of all sinks.
fn state_bytes(settings: &Settings) -> u64 {
    own_bytes(settings) * STATE_PERCENT / 100
}

/// Returns the bytes that each sink with a state gets in addition to its minimum.
fn spare_state_bytes(sinks: &[SinkPart], settings: &Settings) -> u64 {
    let needs = sinks.iter().map(|part| part.sink.state_bytes_min());
    let (count, need) = needs
        .filter(|bytes| *bytes > 0)
        .fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    state_bytes(settings).saturating_sub(need) / count.max(1)
}

/// Rejects sinks whose compressors need more than a quarter of the memory.
pub fn check_states(sinks: &[SinkPart], settings: &Settings) -> Result<(), EngineError> {
    let with_state = sinks.iter().filter(|part| part.sink.state_bytes_min() > 0);
    let need: u64 = with_state.clone().map(|part| part.sink.state_bytes_min()).sum();
    if need <= state_bytes(settings) {
        return Ok(());
    }
    let ids: Vec<&str> = with_state.map(|part| part.id.as_str()).collect();
    Err(EngineError::CompressorMemory {
        sinks: ids.join(", "),
        need_mib: mebibytes(need),
        least_mib: mebibytes((need * 100).div_ceil(STATE_PERCENT)),
    })
}

/// Rejects buffers that together need more than `bytes_max`.
pub fn check_buffers(sinks: &[SinkPart], bytes_max: u64) -> Result<(), EngineError> {
    let asked: u64 = sinks.iter().filter_map(|sink| sink.buffer.bytes_max).sum();
    if asked <= bytes_max {
        return Ok(());
    }
    let least_mib = (asked * 2 * 100).div_ceil(GRANT_PERCENT).div_ceil(1 << 20);
    Err(EngineError::BufferMemory { least_mib })
}

/// Returns a number of bytes in MiB, rounded up.
pub fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

/// Returns the maximum bytes that a chain to `sinks` produces from one block.
fn expansion(sinks: &[SinkPart]) -> u64 {
    let rows = BATCH_ROWS_MAX as u64;
    let payload = |s: &SinkPart| s.sink.payload_bytes_max(BLOCK_BYTES as u64, rows);
    sinks.iter().map(payload).sum::<u64>() + rows * ROW_BYTES as u64
}

/// Returns the maximum bytes that tickets on their way to one cut may occupy. All cuts together get
/// a quarter of the grant.
fn cut_bytes(grant_bytes: u64, transforms: &[TransformPart]) -> u64 {
    let is_cut = |part: &&TransformPart| !matches!(part.transform, Transform::Map(_));
    let cuts = transforms.iter().filter(is_cut).count();
    grant_bytes / 4 / cuts.max(1) as u64
}

/// Returns the maximum bytes that a transform produces from one block.
fn output_bytes(part: &TransformPart) -> u64 {
    match &part.transform {
        Transform::Offload(offload) => offload.output_bytes_max(),
        _ => BLOCK_BYTES as u64,
    }
}

impl Parts {
    /// Returns the bytes needed for one batch per worker and for the sources' queues.
    pub(super) fn least_bytes(&self, threads: usize) -> u64 {
        let columns: u64 = self.transforms.iter().map(output_bytes).sum();
        let queues: u64 = self.sources.iter().map(|part| part.queue_bytes).sum();
        let batch = BLOCK_BYTES as u64 + columns + expansion(&self.sinks);
        batch * threads.max(1) as u64 + queues
    }

    /// Returns the minimum size of the grant: the bytes that stuck sinks and transforms may keep,
    /// plus the bytes that working sinks and transforms need.
    pub(super) fn grant_bytes_min(&self, settings: &Settings) -> u64 {
        let grant_bytes = grant_bytes(settings);
        let sinks = self.sinks.len() as u64 * settings.sink_bytes_max;
        let cut = cut_bytes(grant_bytes, &self.transforms);
        let is_cut = |part: &&TransformPart| !matches!(part.transform, Transform::Map(_));
        let cuts = self.transforms.iter().filter(is_cut).count() as u64 * cut;
        self.least_bytes(settings.threads) + sinks.min(grant_bytes / 2) + cuts
    }

    /// Rejects a memory limit that leaves too little for one batch per worker.
    pub(super) fn check_memory(&self, grant_bytes: u64, threads: usize) -> Result<(), EngineError> {
        let need = self.least_bytes(threads);
        if need <= grant_bytes {
            return Ok(());
        }
        let least_mib = mebibytes((need * 100).div_ceil(GRANT_PERCENT));
        Err(EngineError::BatchMemory { threads, least_mib })
    }
}
