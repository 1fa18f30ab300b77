//! Merge transforms, and the sources of what sinks make.

use super::{Blueprint, FeedPart, Feeder, IsKept, SinkPart};
use crate::buffer::Buffer;
use crate::core::SourceSlot;
use millstream_model::{Kind, SourceInfo, Transform};

/// Index of a sink's side output for what it refused.
const REJECTED: usize = 1;

impl Blueprint {
    /// Turns each merge transform into a sink and the source of its results, and each output
    /// `rejected` of a sink that is read into a source.
    pub(crate) fn with_feeds(mut self) -> Blueprint {
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
            let (kind, id, type_name) = (Kind::Transform, part.id, part.type_name);
            let feeder = Feeder { kind, id: id.as_str().into() };
            self.feeds.push(FeedPart { info: info(&id), type_name, feeder });
            let (inputs, buffer) = (part.inputs, Buffer::default());
            self.sinks.push(SinkPart { id, type_name, kind, inputs, buffer, sink });
        }
        for index in 0..self.sinks.len() {
            let SinkPart { kind, type_name, .. } = self.sinks[index];
            let id = self.sinks[index].id.clone();
            let rejected = format!("{id}.rejected");
            if kind == Kind::Sink && self.rename_input((&id, REJECTED), &rejected) {
                let feeder = Feeder { kind, id: id.as_str().into() };
                self.feeds.push(FeedPart { info: info(&rejected), type_name, feeder });
            }
        }
        self
    }

    /// Whether a source that runs stays when this blueprint replaces its own.
    pub(crate) fn keeps(&self, slot: &SourceSlot, kept: &IsKept<'_>) -> bool {
        let is_fed = || self.feeds.iter().any(|feed| *feed.info.id == *slot.id);
        slot.is_kept(kept) && (slot.fed.is_none() || is_fed())
    }

    /// Renames an input wherever it is read; returns whether it is.
    fn rename_input(&mut self, (id, output): (&str, usize), name: &str) -> bool {
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
