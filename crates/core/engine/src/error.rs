//! Engine errors: the reasons why the engine rejects a topology.

use crate::limits::CUTS_MAX;
use millstream_model::BuildError;
use millstream_model::limits::SINKS_MAX;
use millstream_spool::SpoolError;
use std::path::PathBuf;
use std::time::Duration;

/// A topology that cannot be built, or cannot replace the running one.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The topology has more sinks than a [`millstream_model::SinkSet`] holds.
    #[error("the configuration contains {0} sinks, but an agent can have at most {SINKS_MAX}")]
    TooManySinks(usize),
    /// The new sinks, together with the removed sinks with data in flight, do not fit into a
    /// [`millstream_model::SinkSet`].
    #[error("more than {SINKS_MAX} sinks")]
    NoFreeSinkIndex,
    /// The transforms have no topological order.
    #[error("the transforms form a cycle or have an unknown input")]
    NoTransformOrder,
    /// The compressors and groups of `sinks` need more than their share of memory.
    #[error(
        "limits.memory is too small: the compressors and groups of {sinks} need {need_mib}MiB, but \
         can use only a quarter of the memory; raise limits.memory to {least_mib}MiB, or lower \
         compression_level or memory"
    )]
    CompressorMemory {
        /// Ids of the sinks, separated by commas.
        sinks: String,
        /// Memory that the sinks need, in MiB.
        need_mib: u64,
        /// Minimum sufficient value of `limits.memory`, in MiB.
        least_mib: u64,
    },
    /// One batch per worker does not fit into the memory.
    #[error(
        "limits.memory is too small: {threads} threads with these transforms and sinks need at \
         least {least_mib}MiB; raise limits.memory or lower limits.threads"
    )]
    BatchMemory {
        /// Number of workers.
        threads: usize,
        /// Minimum sufficient value of `limits.memory`, in MiB.
        least_mib: u64,
    },
    /// The memory that is not reserved for a runtime inside the process is too small.
    #[error(
        "{error} ({reserved_mib}MiB of it are reserved for the JVM; jvm.heap and jvm.threads \
         change this amount)"
    )]
    Reserved {
        /// The error without the reservation, with the limits raised by `reserved_mib`.
        #[source]
        error: Box<EngineError>,
        /// The reserved memory, in MiB.
        reserved_mib: u64,
    },
    /// The sinks' buffers need more than their share of the memory.
    #[error(
        "limits.memory is too small for the `buffer` options of the sinks; raise limits.memory to \
         {least_mib}MiB, or lower buffer.max"
    )]
    BufferMemory {
        /// Minimum sufficient value of `limits.memory`, in MiB.
        least_mib: u64,
    },
    /// A source cannot be opened.
    #[error("source {id}: {error}")]
    Source {
        /// Id of the source.
        id: String,
        /// Reason why the source cannot be opened.
        #[source]
        error: BuildError,
    },
    /// A source's chain has more cuts than the engine supports.
    #[error(
        "source {source_id}: {cuts} transforms in the chain work in order or on separate threads, \
         but the maximum is {CUTS_MAX}; remove some of them"
    )]
    TooManyCuts {
        /// Id of the source at the start of the chain.
        source_id: String,
        /// Number of serial and offload transforms.
        cuts: usize,
    },
    /// Tickets in progress are not released in time, so the running topology cannot be replaced.
    #[error("events have been waiting for more than {timeout:?} at {}", .holders.join(", "))]
    Barrier {
        /// The components where events are waiting.
        holders: Vec<String>,
        /// How long the engine has waited.
        timeout: Duration,
    },
    /// A disk buffer cannot be opened.
    #[error("sink {id}: {error}")]
    DiskBuffer {
        /// Id of the sink.
        id: String,
        /// Reason why the disk buffer cannot be opened.
        #[source]
        error: SpoolError,
    },
    /// The position of a disk buffer cannot be read.
    #[error("sink {id}: cannot read the position of the disk buffer: {error}")]
    DiskBufferPosition {
        /// Id of the sink.
        id: String,
        /// Reason why the position cannot be read.
        #[source]
        error: std::io::Error,
    },
    /// The entries in a disk buffer were encoded for another configuration of the sink, and the
    /// current sink cannot send them.
    #[error(
        "sink {id}: the disk buffer holds {events} events in the format `{found}`, but the \
         configured sink sends `{format}`; restore the previous options until `millstream spool \
         ls` shows no events, use another id for the sink, or move {} away", .folder.display()
    )]
    DiskBufferFormat {
        /// Id of the sink.
        id: String,
        /// Number of events in the buffer.
        events: u64,
        /// Format of these events.
        found: String,
        /// Format that the sink sends.
        format: String,
        /// Folder of the disk buffer.
        folder: PathBuf,
    },
    /// The checkpoints of the running topology cannot be written, so nothing can replace it.
    #[error("cannot write checkpoints: {0}")]
    Checkpoints(#[source] std::io::Error),
}

impl EngineError {
    /// Whether only a change to the configuration helps. Otherwise the state of the host is the
    /// reason, so a later attempt may succeed.
    pub fn is_configuration(&self) -> bool {
        match self {
            EngineError::Source { error, .. } => error.is_configuration(),
            EngineError::Barrier { .. }
            | EngineError::DiskBuffer { .. }
            | EngineError::DiskBufferPosition { .. }
            | EngineError::Checkpoints(_) => false,
            _ => true,
        }
    }

    /// Returns the same error for an agent that reserves `reserved_mib` of memory. The minimum
    /// limit in the error rises by this amount.
    pub(crate) fn beside(mut self, reserved_mib: u64) -> EngineError {
        match &mut self {
            EngineError::CompressorMemory { least_mib, .. }
            | EngineError::BatchMemory { least_mib, .. }
            | EngineError::BufferMemory { least_mib }
                if reserved_mib > 0 =>
            {
                *least_mib += reserved_mib
            }
            _ => return self,
        }
        EngineError::Reserved { error: Box::new(self), reserved_mib }
    }
}
