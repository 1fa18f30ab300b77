//! Measures searches for many literals alone, which is the minimum cost of a condition on whole
//! lines.

use super::lines::{Block, Load, literal};
use super::vectorscan::Vectorscan;
use crate::measure::{Samples, progress, thread_cpu_seconds};
use crate::report::Table;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{RegexSet, RegexSetBuilder};
use std::io;

/// Maximum memory, in bytes, for a compiled set of regular expressions and its cached states.
const REGEX_BYTES_MAX: usize = 256 << 20;

/// A search that counts the literals in a line.
enum Search {
    AhoCorasick(AhoCorasick),
    RegexSet(RegexSet),
    Vectorscan(Vectorscan),
}

impl Search {
    fn all(literals: &[String]) -> io::Result<[Option<Search>; 3]> {
        let mut builder = AhoCorasick::builder();
        let search = builder.kind(Some(AhoCorasickKind::DFA)).build(literals);
        let search = search.map_err(io::Error::other)?;
        let mut builder = RegexSetBuilder::new(literals);
        let set = builder.size_limit(REGEX_BYTES_MAX).dfa_size_limit(REGEX_BYTES_MAX).build();
        Ok([
            Some(Search::AhoCorasick(search)),
            Some(Search::RegexSet(set.map_err(io::Error::other)?)),
            Vectorscan::new(literals)?.map(Search::Vectorscan),
        ])
    }

    fn count(&self, line: &[u8]) -> usize {
        match self {
            Search::AhoCorasick(search) => search.find_overlapping_iter(line).count(),
            Search::RegexSet(set) => set.matches(line).iter().count(),
            Search::Vectorscan(search) => search.count(line),
        }
    }

    /// Returns the ns per line of one pass, and the number of literals found.
    fn pass(&self, blocks: &[Block]) -> (f64, usize) {
        let (mut found, lines) = (0, blocks.iter().map(|block| block.rows).sum::<usize>());
        let start = thread_cpu_seconds();
        for block in blocks {
            found += block.lines().map(|line| self.count(line)).sum::<usize>();
        }
        ((thread_cpu_seconds() - start) * 1e9 / lines as f64, found)
    }
}

/// Measures the searches for the literals of [`Load::Contains`].
pub fn table(numbers: &[usize], repetitions: usize) -> io::Result<Table> {
    let columns = ["literals", "aho-corasick", "regex::RegexSet", "Vectorscan", "found per line"];
    let mut table = Table::new(
        "rules_searches",
        "The literals of (c) alone, millions of lines per second",
        &columns,
    );
    for number in numbers {
        progress(&format!("rules: {number} literals"));
        let literals: Vec<String> = (0..*number).map(literal).collect();
        let blocks = Load::Contains.blocks(*number);
        let searches = Search::all(&literals)?;
        let measured = searches
            .each_ref()
            .map(|search| search.as_ref().map(|search| measure(search, &blocks, repetitions)));
        let speed = |of: &Option<(f64, usize)>| {
            of.map_or("not installed".to_owned(), |(ns, _)| format!("{:.3}", 1e3 / ns))
        };
        let found: Vec<usize> = measured.iter().flatten().map(|(_, found)| *found).collect();
        assert!(found.iter().all(|of| *of == found[0]), "the searches differ: {found:?}");
        let lines: usize = blocks.iter().map(|block| block.rows).sum();
        let [aho_corasick, regex_set, vectorscan] = measured.each_ref().map(speed);
        let per_line = format!("{:.2}", found[0] as f64 / lines as f64);
        table.row(vec![number.to_string(), aho_corasick, regex_set, vectorscan, per_line]);
    }
    table.note(format!(
        "Only the search, line by line: aho-corasick as a DFA with overlapping matches, RegexSet \
         with up to {} MiB, Vectorscan by its C interface with one match per literal (Debian's \
         libvectorscan5).",
        REGEX_BYTES_MAX >> 20
    ));
    Ok(table)
}

/// Returns the median of the ns per line, and the number of literals found in a pass.
fn measure(search: &Search, blocks: &[Block], repetitions: usize) -> (f64, usize) {
    let mut samples = Samples::default();
    let (_, found) = search.pass(blocks);
    (0..repetitions).for_each(|_| samples.push(search.pass(blocks).0));
    (samples.median(), found)
}
