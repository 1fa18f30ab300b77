//! Flame graphs as static SVG images, with the root at the bottom.

use crate::profile::summary;
use crate::tree::{Node, Tree};
use crate::{FrameKind, Profile};
use std::io::{self, Write};

/// Width of the image and the margin, in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;

/// Height of a frame, and of the area above all frames, in pixels.
const ROW: f64 = 17.0;
const HEAD: f64 = 54.0;

/// Minimum width of a frame in pixels. Narrower frames are omitted.
const NARROWEST: f64 = 0.1;

/// Approximate width of a character in pixels.
const CHARACTER: f64 = 6.9;

/// Minimum width in pixels of a frame that has a label.
const NARROWEST_TEXT: f64 = 28.0;

/// Chooses the color of a frame.
type Color<'a> = dyn Fn(&Node, FrameKind) -> [u8; 3] + 'a;

/// Writes a flame graph.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_svg(profile: &Profile, output: &mut impl Write) -> io::Result<()> {
    let color = |node: &Node, kind| shaded(base_color(kind), node.name);
    write(&Tree::of(profile), profile, None, &color, output)
}

/// Writes a flame graph of `after`, colored by the change in each frame's share.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_diff_svg(
    before: &Profile,
    after: &Profile,
    output: &mut impl Write,
) -> io::Result<()> {
    let tree = Tree::of_both(before, after);
    let total = tree.total;
    let color = |node: &Node, _| change_color(change(node, total));
    write(&tree, after, Some(before), &color, output)
}

fn write(
    tree: &Tree<'_>,
    profile: &Profile,
    before: Option<&Profile>,
    color: &Color<'_>,
    output: &mut impl Write,
) -> io::Result<()> {
    let height = HEAD + (f64::from(tree.depth) + 1.0) * ROW + MARGIN;
    let scale = (WIDTH - 2.0 * MARGIN) / tree.total[1].max(1) as f64;
    let shown = tree.nodes.iter().filter(|node| node.samples[1] > 0);
    let (wide, narrow): (Vec<&Node>, Vec<&Node>) =
        shown.partition(|node| node.samples[1] as f64 * scale >= NARROWEST);
    let about = about(profile, before, narrow.len());
    writeln!(
        output,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"ui-monospace, Menlo, Consolas, monospace\" \
         font-size=\"11.5\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"24\" font-size=\"16\">{}</text>\n\
         <text x=\"{MARGIN}\" y=\"42\" fill=\"#555\">{}</text>",
        escaped(&profile.about().title),
        escaped(&about),
    )?;
    for node in wide {
        let y = height - MARGIN - (f64::from(node.depth) + 1.0) * ROW;
        write_frame(tree, node, scale, y, color, output)?;
    }
    writeln!(output, "</svg>")
}

/// Returns the line below the title.
fn about(profile: &Profile, before: Option<&Profile>, narrow: usize) -> String {
    let mut parts = vec![summary(profile)];
    parts.extend(before.map(|before| format!("compared with {}", summary(before))));
    parts.extend((narrow > 0).then(|| format!("{narrow} narrower frames are not shown")));
    parts.extend(profile.about().notes.iter().cloned());
    parts.join("; ")
}

fn write_frame(
    tree: &Tree<'_>,
    node: &Node,
    scale: f64,
    y: f64,
    color: &Color<'_>,
    output: &mut impl Write,
) -> io::Result<()> {
    let (name, kind) = tree.names[node.name as usize];
    let x = MARGIN + node.start as f64 * scale;
    let width = node.samples[1] as f64 * scale;
    let [r, g, b] = color(node, kind);
    let share = 100.0 * node.samples[1] as f64 / tree.total[1].max(1) as f64;
    let (title, kind, samples) = (escaped(name), kind.name(), node.samples[1]);
    write!(output, "<g><title>{title} ({kind}): {samples} samples, {share:.2}%")?;
    if tree.total[0] > 0 {
        write!(output, ", change {:+.2}%", 100.0 * change(node, tree.total))?;
    }
    let row = ROW - 1.0;
    writeln!(
        output,
        "</title><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{row}\" rx=\"1\" \
         fill=\"#{r:02x}{g:02x}{b:02x}\"/>{}</g>",
        label(name, x, y, width)
    )
}

/// Returns the label of a frame, truncated to the frame's width. Returns an empty string for a
/// narrow frame.
fn label(name: &str, x: f64, y: f64, width: f64) -> String {
    if width < NARROWEST_TEXT {
        return String::new();
    }
    let fits = ((width - 6.0) / CHARACTER) as usize;
    let mut text: String = name.chars().take(fits).collect();
    if text.len() < name.len() {
        text = name.chars().take(fits.saturating_sub(1)).chain(['\u{2026}']).collect();
    }
    format!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 12.0, escaped(&text))
}

/// Returns the change in a node's share of all samples.
fn change(node: &Node, total: [u64; 2]) -> f64 {
    let [before, after] = [0, 1].map(|side| node.samples[side] as f64 / total[side].max(1) as f64);
    after - before
}

fn base_color(kind: FrameKind) -> [u8; 3] {
    match kind {
        FrameKind::Component => [0x8f, 0xb8, 0xde],
        FrameKind::Thread => [0xc3, 0xc7, 0xcf],
        FrameKind::Rust => [0xf2, 0xa6, 0x5a],
        FrameKind::C => [0xe8, 0xd1, 0x6b],
        FrameKind::Kernel => [0xd9, 0x8c, 0xb3],
        FrameKind::Java => [0x8f, 0xc9, 0x8a],
        FrameKind::Unknown => [0xd8, 0xd8, 0xd8],
    }
}

/// Returns one of a few shades of a color, so that neighboring frames differ.
fn shaded(color: [u8; 3], name: u32) -> [u8; 3] {
    let shade = name.wrapping_mul(2_654_435_761) >> 28;
    color.map(|part| part.saturating_add(shade as u8))
}

/// Returns red for an increase and blue for a decrease. The color is saturated at a change of ten
/// percentage points.
fn change_color(change: f64) -> [u8; 3] {
    let strength = (change.abs() * 10.0).min(1.0).sqrt();
    let faded = (235.0 - 150.0 * strength) as u8;
    if change > 0.0 { [235, faded, faded] } else { [faded, faded, 235] }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML does not allow control characters or these code points.
            char if char.is_control() || matches!(char, '\u{fffe}' | '\u{ffff}') => {
                escaped.push('\u{fffd}')
            }
            char => escaped.push(char),
        }
    }
    escaped
}
