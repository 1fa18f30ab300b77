//! The resources that the program provides to components.
//!
//! The module that owns a resource defines its kind, its type, and a default for a program that
//! does not provide it. The component contract does not depend on any kind of resource.

use std::any::{Any, TypeId};
use std::collections::BTreeMap;

/// A resource that a component uses while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRequest {
    /// Kind of the resource, a constant of the module that owns the resource.
    pub kind: &'static str,
    /// Name of the instance; `None` for the default instance of the kind.
    pub instance: Option<String>,
}

/// The resources that the program provides, at most one value of each type.
#[derive(Default)]
pub struct Resources(BTreeMap<TypeId, Box<dyn Any + Send + Sync>>);

impl Resources {
    /// Returns a map without resources.
    pub const fn new() -> Resources {
        Resources(BTreeMap::new())
    }

    /// Adds a resource, and replaces a resource of the same type.
    pub fn insert<T: Any + Send + Sync>(&mut self, resource: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(resource));
    }

    /// Returns the resource of this type; `None` if the program does not provide it.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::Resources;

    #[test]
    fn a_resource_is_found_by_its_type() {
        let mut resources = Resources::new();
        assert_eq!(resources.get::<u32>(), None);
        resources.insert(1_u32);
        resources.insert("one");
        resources.insert(2_u32);
        assert_eq!(resources.get::<u32>(), Some(&2));
        assert_eq!(resources.get::<&str>(), Some(&"one"));
        assert_eq!(resources.get::<u64>(), None);
    }
}
