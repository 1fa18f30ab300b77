//! Stacks of frames.

use std::collections::HashMap;
use std::sync::Arc;

/// The kind of a frame, which determines its color in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::VariantArray)]
pub enum FrameKind {
    /// A component of the agent.
    Component,
    /// A thread.
    Thread,
    /// A Rust function.
    Rust,
    /// A C, C++ or assembly function.
    C,
    /// A kernel function.
    Kernel,
    /// A JVM method.
    Java,
    /// Anything else.
    Unknown,
}

impl FrameKind {
    /// All kinds, in numeric order.
    pub const ALL: &[FrameKind] = <FrameKind as strum::VariantArray>::VARIANTS;

    /// Returns the display name.
    pub fn name(self) -> &'static str {
        match self {
            FrameKind::Component => "component",
            FrameKind::Thread => "thread",
            FrameKind::Rust => "Rust",
            FrameKind::C => "C",
            FrameKind::Kernel => "kernel",
            FrameKind::Java => "Java",
            FrameKind::Unknown => "unknown",
        }
    }
}

/// A function call in a stack, or a root of a stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Name of the function.
    pub name: String,
    /// Kind of the frame.
    pub kind: FrameKind,
    /// Whether the compiler has inlined the function into its caller.
    pub is_inlined: bool,
    /// Name of the file that contains the function's code.
    pub module: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file, counted from 1.
    pub line: Option<u32>,
    /// Address of the instruction.
    pub address: Option<u64>,
}

impl Frame {
    /// Creates a frame that has only a name and a kind.
    pub fn named(name: &str, kind: FrameKind) -> Frame {
        let name = name.to_owned();
        Frame { name, kind, is_inlined: false, module: None, file: None, line: None, address: None }
    }
}

/// The id of a frame within its profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(u32);

impl FrameId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The description of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// Name of the profiled program.
    pub title: String,
    /// The sampled event, such as `cpu`.
    pub event: String,
    /// Time between two samples in nanoseconds.
    pub interval_ns: u64,
    /// Duration of sampling in nanoseconds.
    pub duration_ns: u64,
    /// Start of the profile in nanoseconds since 1970.
    pub start_unix_ns: u64,
    /// Notes that a reader needs to interpret the profile, as sentences.
    pub notes: Vec<String>,
}

impl About {
    /// Returns whether each sample represents one interval of time.
    pub(crate) fn has_time(&self) -> bool {
        self.interval_ns > 0 && matches!(self.event.as_str(), "cpu" | "wall")
    }
}

/// Stacks of frames and their sample counts.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    about: About,
    frames: Vec<Arc<Frame>>,
    by_frame: HashMap<Arc<Frame>, FrameId>,
    stacks: Vec<(Arc<[FrameId]>, u64)>,
    by_stack: HashMap<Arc<[FrameId]>, usize>,
}

impl Profile {
    /// Creates a profile without samples.
    pub fn new(about: About) -> Profile {
        Profile { about, ..Profile::default() }
    }

    /// Returns the description of the profile.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Returns the id of a frame, and adds the frame if it is new. Equal frames have the same id.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(id) = self.by_frame.get(&frame) {
            return *id;
        }
        let id = FrameId(self.frames.len() as u32);
        let frame = Arc::new(frame);
        self.frames.push(Arc::clone(&frame));
        self.by_frame.insert(frame, id);
        id
    }

    /// Adds samples of a stack, whose first frame is the root. The samples of equal stacks are
    /// added up.
    pub fn add(&mut self, stack: &[FrameId], samples: u64) {
        if samples == 0 {
            return;
        }
        if let Some(at) = self.by_stack.get(stack) {
            let sum = &mut self.stacks[*at].1;
            *sum = sum.saturating_add(samples);
            return;
        }
        let stack: Arc<[FrameId]> = stack.into();
        self.by_stack.insert(Arc::clone(&stack), self.stacks.len());
        self.stacks.push((stack, samples));
    }

    /// Returns the total number of samples.
    pub fn samples(&self) -> u64 {
        self.stacks.iter().fold(0, |sum, (_, samples)| sum.saturating_add(*samples))
    }

    /// Returns the stacks, root first, and the number of samples for each stack.
    pub fn stacks(&self) -> impl Iterator<Item = (&[FrameId], u64)> {
        self.stacks.iter().map(|(stack, samples)| (&stack[..], *samples))
    }

    /// Returns a frame of this profile.
    ///
    /// # Panics
    ///
    /// Panics if the profile has no frame with this id. Do not pass the id of another profile.
    pub fn get(&self, id: FrameId) -> &Frame {
        &self.frames[id.index()]
    }

    /// Returns all frames in numeric order.
    pub(crate) fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().map(|frame| &**frame)
    }
}

/// Returns a one-line summary of the event and the duration, for use below a title.
pub(crate) fn summary(profile: &Profile) -> String {
    let about = profile.about();
    let mut parts = vec![format!("{} samples of {}", profile.samples(), about.event)];
    if about.duration_ns > 0 {
        parts.push(format!("in {:.1} s", about.duration_ns as f64 / 1e9));
    }
    if about.has_time() {
        parts.push(format!("every {} ms", about.interval_ns as f64 / 1e6));
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_frames_and_equal_stacks_are_kept_once() {
        let mut profile = Profile::new(About::default());
        let [a, again, b] =
            ["a", "a", "b"].map(|name| profile.frame(Frame::named(name, FrameKind::C)));
        assert_eq!(a, again);
        profile.add(&[a, b], 2);
        profile.add(&[a], 3);
        profile.add(&[a, b], u64::MAX);
        profile.add(&[b], 0);
        let stacks: Vec<_> = profile.stacks().collect();
        assert_eq!(stacks, [(&[a, b][..], u64::MAX), (&[a][..], 3)]);
        assert_eq!(profile.samples(), u64::MAX, "sums do not overflow");
        assert_eq!(profile.get(b).name, "b");
    }
}
