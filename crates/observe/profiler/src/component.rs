//! The component for which a thread is working.

use parking_lot::Mutex;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of component names in a process. Configurations have hundreds of components, and
/// reloads can add more names.
const COMPONENTS_MAX: usize = 4096;

/// The ids of all components so far. A component's number is the position of its id plus one.
static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// Number of the component for which this thread is working. The variable must not have a
    /// destructor or lazy initialization, because signal handlers read it.
    static CURRENT: AtomicU32 = const { AtomicU32::new(0) };
}

/// A component for which threads work. In profiles, its id is the root of the stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Component(u32);

impl Component {
    /// No component.
    pub const NONE: Component = Component(0);

    /// Returns the component with an id. Equal ids yield equal components. Returns
    /// [`Component::NONE`] for a new id if the process already has 4096 different ids.
    pub fn named(id: &str) -> Component {
        let mut names = NAMES.lock();
        let found = names.iter().position(|name| name == id);
        let index = match found {
            Some(index) => index,
            None if names.len() >= COMPONENTS_MAX => return Component::NONE,
            None => {
                names.push(id.to_owned());
                names.len() - 1
            }
        };
        Component(index as u32 + 1)
    }

    /// Makes this the component of the calling thread until the returned guard is dropped.
    #[inline]
    pub fn enter(self) -> Entered {
        let former = CURRENT.with(|current| {
            let former = current.load(Ordering::Relaxed);
            current.store(self.0, Ordering::Relaxed);
            former
        });
        Entered { former, of_this_thread: PhantomData }
    }
}

/// A guard that restores the thread's previous component when it is dropped.
#[derive(Debug)]
#[must_use = "the component is left as soon as this is dropped"]
pub struct Entered {
    former: u32,
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        CURRENT.with(|current| current.store(self.former, Ordering::Relaxed));
    }
}

/// Returns the component number of the calling thread. Safe in signal handlers.
pub(crate) fn current() -> u32 {
    CURRENT.with(|current| current.load(Ordering::Relaxed))
}

/// Returns the ids of all components, indexed by component number. Number 0 means no component, and
/// its id is empty.
pub(crate) fn names() -> Vec<String> {
    let names = NAMES.lock();
    std::iter::once(String::new()).chain(names.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Component, current, names};

    #[test]
    fn an_id_has_one_number() {
        let (access, other) = (Component::named("access"), Component::named("other"));
        assert_eq!(Component::named("access"), access);
        assert_ne!(other, access);
        assert_ne!(access, Component::NONE);
        assert_eq!(names()[access.0 as usize], "access");
        assert_eq!(names()[0], "");
    }

    #[test]
    fn guards_nest_and_restore() {
        let (outer, inner) = (Component::named("outer"), Component::named("inner"));
        {
            let _outer = outer.enter();
            assert_eq!(current(), outer.0);
            {
                let _inner = inner.enter();
                assert_eq!(current(), inner.0);
                std::thread::spawn(|| assert_eq!(current(), 0)).join().unwrap();
            }
            assert_eq!(current(), outer.0);
        }
        assert_eq!(current(), 0);
    }
}
