//! The parts of a topology: the parts of a blueprint, with each merge transform turned into a sink,
//! and the sources for the events that sinks create.

use super::memory::{check_buffers, check_states, grant_bytes, mebibytes};
use super::{Blueprint, Settings, SinkPart, SourcePart, TransformPart};
use crate::buffer::Buffer;
use crate::core::{Feeder, IsKept, SourceSlot};
use crate::error::EngineError;
use millstream_model::limits::SINKS_MAX;
use millstream_model::{Kind, SourceInfo, Transform};

/// Index of a sink's side output for rejected events.
const REJECTED: usize = 1;

/// The parts of a topology. Source ids are unique, and so are the ids of transforms and sinks.
pub(crate) struct Parts {
    pub sources: Vec<SourcePart>,
    /// All transforms except merge transforms, in any order.
    pub transforms: Vec<TransformPart>,
    /// Sinks and merge transforms.
    pub sinks: Vec<SinkPart>,
    /// Sources for the events that sinks create.
    pub feeds: Vec<FeedPart>,
}

/// The source for the events that a sink creates: a merge transform's results, or rejected events.
pub(crate) struct FeedPart {
    /// Properties that the events share, including the source id, which is the transform's id or
    /// `SINK.rejected`.
    pub info: SourceInfo,
    pub type_name: &'static str,
    pub feeder: Feeder,
}

impl Parts {
    /// Turns each merge transform into a sink and a source for its results. Each sink's `rejected`
    /// output becomes a source if a component reads it.
    pub fn of(blueprint: Blueprint) -> Parts {
        let Blueprint { sources, transforms, sinks } = blueprint;
        Parts { sources, transforms, sinks, feeds: Vec::new() }.with_feeds()
    }

    fn with_feeds(mut self) -> Parts {
        let host = self.sources.first().map_or(String::new(), |source| source.info.host.clone());
        let info = |id: &str| SourceInfo {
            id: id.to_owned(),
            host: host.clone(),
            ..SourceInfo::default()
        };
        let merges =
            self.transforms.extract_if(.., |part| matches!(part.transform, Transform::Merge(_)));
        for part in merges {
            let Transform::Merge(sink) = part.transform else { continue };
            let kind = Kind::Transform;
            let id = part.id;
            let type_name = part.type_name;
            let feeder = Feeder { kind, id: id.as_str().into() };
            self.feeds.push(FeedPart { info: info(&id), type_name, feeder });
            let inputs = part.inputs;
            let buffer = Buffer::default();
            self.sinks.push(SinkPart { id, type_name, inputs, buffer, sink });
        }
        for index in 0..self.sinks.len() {
            let id = self.sinks[index].id.clone();
            let type_name = self.sinks[index].type_name;
            let kind = self.kind_of(&id);
            let rejected = format!("{id}.rejected");
            if kind == Kind::Sink && self.rename_input(&id, REJECTED, &rejected) {
                let feeder = Feeder { kind, id: id.as_str().into() };
                self.feeds.push(FeedPart { info: info(&rejected), type_name, feeder });
            }
        }
        self
    }

    /// Returns `Kind::Transform` if a sink in these parts is a merge transform, and otherwise
    /// `Kind::Sink`.
    pub fn kind_of(&self, sink: &str) -> Kind {
        let is_merge =
            |feed: &FeedPart| feed.feeder.kind == Kind::Transform && *feed.feeder.id == *sink;
        if self.feeds.iter().any(is_merge) { Kind::Transform } else { Kind::Sink }
    }

    /// Checks the parts against these settings without opening anything.
    pub fn check(&self, settings: &Settings) -> Result<(), EngineError> {
        if self.sinks.len() > SINKS_MAX {
            return Err(EngineError::TooManySinks(self.sinks.len()));
        }
        let checked = self.check_shares(settings);
        checked.map_err(|error| error.beside(mebibytes(settings.reserved_bytes)))
    }

    /// Rejects parts that need more than their share of the memory.
    fn check_shares(&self, settings: &Settings) -> Result<(), EngineError> {
        check_states(&self.sinks, settings)?;
        let grant_bytes = grant_bytes(settings);
        check_buffers(&self.sinks, grant_bytes / 2)?;
        self.check_memory(grant_bytes, settings.threads)
    }

    /// Returns whether a running source stays when these parts replace the running topology.
    pub fn keeps(&self, slot: &SourceSlot, kept: &IsKept<'_>) -> bool {
        let is_fed = || self.feeds.iter().any(|feed| *feed.info.id == *slot.id);
        slot.is_kept(kept) && (slot.fed.is_none() || is_fed())
    }

    /// Renames an input wherever it is read; returns whether any component reads it.
    fn rename_input(&mut self, id: &str, output: usize, name: &str) -> bool {
        let transforms = self.transforms.iter_mut().flat_map(|part| &mut part.inputs);
        let sinks = self.sinks.iter_mut().flat_map(|part| &mut part.inputs);
        let mut is_read = false;
        for input in transforms.chain(sinks).filter(|input| (&*input.0, input.1) == (id, output)) {
            *input = (name.to_owned(), 0);
            is_read = true;
        }
        is_read
    }
}
