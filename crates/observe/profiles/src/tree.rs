//! Stacks merged into a tree of functions, from which graphs are drawn.

use crate::{FrameId, FrameKind, Profile};
use std::collections::BTreeMap;

/// The number of samples before and after. A graph of a single profile has only samples after.
pub type Pair = [u64; 2];

/// A tree in depth-first order, in which each node precedes its children.
pub struct Tree<'a> {
    /// The distinct names and kinds of nodes, sorted.
    pub names: Vec<(&'a str, FrameKind)>,
    pub nodes: Vec<Node>,
    /// The total number of samples.
    pub total: Pair,
    /// The maximum depth of a node. A root has depth 0.
    pub depth: u32,
}

/// A function at one position in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// Index in [`Tree::names`].
    pub name: u32,
    pub depth: u32,
    /// Number of samples (after) to the left of the node.
    pub start: u64,
    /// Number of samples in the node, including the functions that it calls.
    pub samples: Pair,
}

type Stacks = BTreeMap<Vec<u32>, Pair>;

impl<'a> Tree<'a> {
    /// Merges the stacks of a profile.
    pub fn of(profile: &'a Profile) -> Tree<'a> {
        Tree::build(&[None, Some(profile)])
    }

    /// Merges the stacks of two profiles. Frames that occur only in `before` have no width.
    pub fn of_both(before: &'a Profile, after: &'a Profile) -> Tree<'a> {
        Tree::build(&[Some(before), Some(after)])
    }

    fn build(profiles: &[Option<&'a Profile>; 2]) -> Tree<'a> {
        let names = names(profiles);
        let (mut stacks, mut total) = (Stacks::new(), Pair::default());
        for (side, profile) in profiles.iter().enumerate() {
            let Some(profile) = profile else { continue };
            let numbers = numbers(profile, &names);
            for (stack, samples) in profile.stacks() {
                let stack = stack.iter().map(|id: &FrameId| numbers[id.index()]).collect();
                let sum = &mut stacks.entry(stack).or_default()[side];
                *sum = sum.saturating_add(samples);
                total[side] = total[side].saturating_add(samples);
            }
        }
        let nodes = nodes(&stacks);
        let depth = nodes.iter().map(|node| node.depth).max().unwrap_or(0);
        Tree { names, nodes, total, depth }
    }
}

fn names<'a>(profiles: &[Option<&'a Profile>; 2]) -> Vec<(&'a str, FrameKind)> {
    let frames = profiles.iter().flatten().flat_map(|profile| profile.frames());
    let mut names: Vec<_> = frames.map(|frame| (frame.name.as_str(), frame.kind)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the index of each frame's name.
fn numbers(profile: &Profile, names: &[(&str, FrameKind)]) -> Vec<u32> {
    let number = |(name, kind): (&str, FrameKind)| {
        names.partition_point(|known| *known < (name, kind)) as u32
    };
    profile.frames().map(|frame| number((&frame.name, frame.kind))).collect()
}

/// Returns the nodes for sorted stacks. Neighboring stacks share the nodes of their common prefix.
fn nodes(stacks: &Stacks) -> Vec<Node> {
    let (mut nodes, mut open) = (Vec::<Node>::new(), Vec::<usize>::new());
    let (mut last, mut start): (&[u32], u64) = (&[], 0);
    for (stack, samples) in stacks {
        let shared = last.iter().zip(stack).take_while(|(a, b)| a == b).count();
        open.truncate(shared);
        for (depth, name) in stack.iter().enumerate().skip(shared) {
            open.push(nodes.len());
            nodes.push(Node { name: *name, depth: depth as u32, start, samples: [0, 0] });
        }
        for at in &open {
            let sums = &mut nodes[*at].samples;
            *sums = [0, 1].map(|side| sums[side].saturating_add(samples[side]));
        }
        start = start.saturating_add(samples[1]);
        last = stack;
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Frame};

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::new(About::default());
        for (stack, samples) in stacks {
            let frames = stack.split(';').map(|name| Frame::named(name, FrameKind::Rust));
            let ids: Vec<FrameId> = frames.map(|frame| profile.frame(frame)).collect();
            profile.add(&ids, *samples);
        }
        profile
    }

    fn shown(tree: &Tree<'_>) -> Vec<(String, u32, u64, Pair)> {
        let shown = |node: &Node| {
            let name = tree.names[node.name as usize].0.to_owned();
            (name, node.depth, node.start, node.samples)
        };
        tree.nodes.iter().map(shown).collect()
    }

    #[test]
    fn equal_beginnings_are_one_node() {
        let profile = profile(&[("a;b;c", 2), ("a;b", 1), ("a;d", 4), ("b", 8), ("a;b;c;b", 16)]);
        let tree = Tree::of(&profile);
        let node =
            |name: &str, depth, start, samples| (name.to_owned(), depth, start, [0, samples]);
        let expected = [
            node("a", 0, 0, 23),
            node("b", 1, 0, 19),
            node("c", 2, 1, 18),
            node("b", 3, 3, 16),
            node("d", 1, 19, 4),
            node("b", 0, 23, 8),
        ];
        assert_eq!(shown(&tree), expected);
        assert_eq!((tree.total, tree.depth), ([0, 31], 3));
    }

    #[test]
    fn two_profiles_share_nodes() {
        let (before, after) =
            (profile(&[("a;b", 3), ("a;x", 1)]), profile(&[("a;b", 1), ("c", 1)]));
        let tree = Tree::of_both(&before, &after);
        let shown = shown(&tree).into_iter();
        let samples: Vec<_> = shown.map(|(name, _, start, counts)| (name, start, counts)).collect();
        let expected = [("a", 0, [4, 1]), ("b", 0, [3, 1]), ("x", 1, [1, 0]), ("c", 1, [0, 1])];
        assert_eq!(samples, expected.map(|(name, start, counts)| (name.to_owned(), start, counts)));
    }

    #[test]
    fn without_samples_there_is_no_node() {
        let empty = Profile::new(About::default());
        assert!(Tree::of(&empty).nodes.is_empty());
    }
}
