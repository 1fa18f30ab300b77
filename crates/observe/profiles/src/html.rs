//! Flame graphs as HTML pages. A page is a single file with the data, the style and the script.

use crate::profile::summary;
use crate::tree::{Node, Tree};
use crate::{FrameKind, Profile};
use serde::Serialize;
use std::io::{self, Write};

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
const BODY: &str = include_str!("html/body.html");

/// The data in a page.
#[derive(Serialize)]
struct Data<'a> {
    title: &'a str,
    about: Vec<String>,
    kinds: Vec<&'static str>,
    /// The name and kind of each function.
    names: Vec<(&'a str, u8)>,
    /// For each frame: depth, name, start, samples, and samples before. The frames are
    /// concatenated.
    nodes: Vec<u64>,
    /// Total samples after and before. The total before is 0 if the page shows a single profile.
    total: [u64; 2],
    /// Whether colors show changes.
    compares: bool,
}

/// Writes a page with a flame graph that can be searched and zoomed.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_html(profile: &Profile, output: &mut impl Write) -> io::Result<()> {
    write(&Tree::of(profile), profile, None, output)
}

/// Writes a page with the flame graph of `after`, colored by the change in each frame's share.
///
/// # Errors
///
/// Returns the output's error.
pub fn write_diff_html(
    before: &Profile,
    after: &Profile,
    output: &mut impl Write,
) -> io::Result<()> {
    write(&Tree::of_both(before, after), after, Some(before), output)
}

fn write(
    tree: &Tree<'_>,
    profile: &Profile,
    before: Option<&Profile>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut about = vec![summary(profile)];
    about.extend(before.map(|before| format!("compared with {}", summary(before))));
    about.extend(profile.about().notes.iter().cloned());
    let data = Data {
        title: &profile.about().title,
        about,
        kinds: FrameKind::ALL.iter().map(|kind| kind.name()).collect(),
        names: tree.names.iter().map(|(name, kind)| (*name, *kind as u8)).collect(),
        nodes: tree.nodes.iter().filter(|node| node.samples[1] > 0).flat_map(fields).collect(),
        total: [tree.total[1], tree.total[0]],
        compares: before.is_some(),
    };
    // In a script, `<` could end the script element.
    let data = serde_json::to_string(&data).map_err(io::Error::other)?.replace('<', "\\u003c");
    write!(
        output,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>Flame graph</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n{BODY}\
         <script type=\"application/json\" id=\"data\">{data}</script>\n\
         <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn fields(node: &Node) -> [u64; 5] {
    let [before, after] = node.samples;
    [u64::from(node.depth), u64::from(node.name), node.start, after, before]
}
