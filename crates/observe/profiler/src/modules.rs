//! The loaded objects of the process: the modules of a profile, and the unwind rules for their
//! code.

use crate::maps::{CodeMapping, Maps};
use crate::objects::{self, Changes};
use crate::profile::Module;
use crate::rows::Code;
use std::ops::Range;
use std::sync::Arc;

/// All modules so far, and the unwind rules of the modules that are currently loaded.
#[derive(Default)]
pub(crate) struct Modules {
    /// All mappings so far, including mappings of objects that were unloaded.
    pub all: Vec<Module>,
    /// The unwind rules of loaded objects, in ascending order of their addresses.
    pub code: Vec<Arc<Code>>,
    /// The build ids of loaded objects, and their addresses.
    build_ids: Vec<(Range<u64>, String)>,
    changes: Changes,
}

impl Modules {
    /// Returns whether objects were loaded or unloaded since the last update.
    pub fn has_changed(&self) -> bool {
        objects::changes() != self.changes
    }

    /// Adds objects that were loaded since the last update, and drops the rules of unloaded
    /// objects.
    pub fn update(&mut self, maps: &Maps) {
        if self.has_changed() {
            // Read the change counters before the list, so that the next round finds objects that
            // are loaded in the meantime.
            self.changes = objects::changes();
            self.update_code();
        }
        for mapping in &maps.code {
            let is_known = self.all.iter().any(|module| is_of(module, mapping));
            if !is_known {
                self.all.push(self.module(mapping));
            }
        }
    }

    fn update_code(&mut self) {
        let known = |code: &Range<u64>| self.code.iter().any(|known| known.addresses == *code);
        let (loaded, new) = objects::loaded(known);
        self.code.retain(|code| loaded.contains(&code.addresses));
        self.build_ids.retain(|(addresses, _)| loaded.contains(addresses));
        for object in new {
            self.code.push(Arc::new(Code::of(&object)));
            self.build_ids.extend(object.build_id.map(|build_id| (object.code, build_id)));
        }
        self.code.sort_by_key(|code| code.addresses.start);
    }

    fn module(&self, mapping: &CodeMapping) -> Module {
        let Range { start, end } = mapping.addresses;
        // The first address of an object is within the first page of its mapping.
        let is_of = |code: &Range<u64>| code.start < end && start < code.end;
        let found = self.build_ids.iter().find(|(addresses, _)| is_of(addresses));
        Module {
            path: mapping.path.clone(),
            build_id: found.map(|(_, build_id)| build_id.clone()),
            start,
            end,
            file_offset: mapping.file_offset,
        }
    }
}

fn is_of(module: &Module, mapping: &CodeMapping) -> bool {
    (module.start..module.end) == mapping.addresses
        && module.file_offset == mapping.file_offset
        && module.path == mapping.path
}
