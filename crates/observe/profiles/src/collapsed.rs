//! The collapsed format. Each line contains one stack, root first, with semicolons between frames,
//! followed by a space and the number of samples.

use crate::Profile;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the stacks of a profile in collapsed format, sorted.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_collapsed(profile: &Profile, output: &mut impl Write) -> io::Result<()> {
    let mut lines = BTreeMap::<String, u64>::new();
    for (stack, samples) in profile.stacks() {
        let names: Vec<String> = stack.iter().map(|id| plain(&profile.get(*id).name)).collect();
        let sum = lines.entry(names.join(";")).or_default();
        *sum = sum.saturating_add(samples);
    }
    lines.iter().try_for_each(|(stack, samples)| writeln!(output, "{stack} {samples}"))
}

/// Replaces the characters that would end a frame or a line.
fn plain(name: &str) -> String {
    let plain = |char: char| match char {
        ';' => ':',
        char if char.is_control() => ' ',
        char => char,
    };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Frame, FrameKind};

    #[test]
    fn each_stack_is_a_line_and_names_cannot_break_it() {
        let mut profile = Profile::new(About::default());
        let root = profile.frame(Frame::named("app", FrameKind::Component));
        let array = profile.frame(Frame::named("<[u8; 4]>::f\nx", FrameKind::Rust));
        let line = Frame { line: Some(3), ..Frame::named("g", FrameKind::Rust) };
        let [first, second] =
            [line.clone(), Frame { line: Some(4), ..line }].map(|frame| profile.frame(frame));
        profile.add(&[root, array], 2);
        profile.add(&[root, first], 1);
        profile.add(&[root, second], 4);
        let mut text = Vec::new();
        write_collapsed(&profile, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), "app;<[u8: 4]>::f x 2\napp;g 5\n");
    }
}
