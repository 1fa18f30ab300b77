//! Line filter: keeps or drops lines by their content before any transform sees them.

use memchr::memmem::Finder;
use millstream_model::{Batch, Selection};
use regex::bytes::RegexSet;

/// A condition on a line: the line contains one of the strings or matches one of the regular
/// expressions.
#[derive(Clone, Debug, Default)]
pub struct LineFilter {
    /// Strings, compared byte by byte.
    pub contains: Vec<String>,
    /// Regular expressions.
    pub regex: Vec<String>,
}

/// A compiled condition on lines.
struct Matcher {
    texts: Vec<Finder<'static>>,
    patterns: RegexSet,
}

/// A source's `keep_lines` and `drop_lines` filters.
pub struct LineFilters {
    keep: Option<Matcher>,
    drop: Option<Matcher>,
}

impl LineFilters {
    /// Compiles the filters.
    ///
    /// # Errors
    /// Returns an error if a regular expression is invalid.
    pub fn new(
        keep: Option<&LineFilter>,
        drop: Option<&LineFilter>,
    ) -> Result<LineFilters, String> {
        Ok(LineFilters {
            keep: keep.map(Matcher::new).transpose()?,
            drop: drop.map(Matcher::new).transpose()?,
        })
    }

    /// Deselects the lines that the filters exclude; returns the number of lines deselected.
    pub fn apply(&self, batch: &mut Batch) -> u64 {
        if self.keep.is_none() && self.drop.is_none() {
            return 0;
        }
        let before = batch.events();
        let all = || vec![true; batch.rows()];
        let mut selected = self.keep.as_ref().map_or_else(all, |keep| keep.rows(batch));
        if let Some(drop) = &self.drop {
            for (is_selected, is_dropped) in selected.iter_mut().zip(drop.rows(batch)) {
                *is_selected &= !is_dropped;
            }
        }
        batch.select(Selection::from(selected));
        (before - batch.events()) as u64
    }
}

impl Matcher {
    fn new(filter: &LineFilter) -> Result<Matcher, String> {
        let patterns = RegexSet::new(&filter.regex).map_err(|error| error.to_string())?;
        let texts =
            filter.contains.iter().map(|text| Finder::new(text.as_bytes()).into_owned()).collect();
        Ok(Matcher { texts, patterns })
    }

    /// Returns for each row whether it meets the condition.
    fn rows(&self, batch: &Batch) -> Vec<bool> {
        let mut hits = vec![false; batch.rows()];
        for text in &self.texts {
            find(text, batch, &mut hits);
        }
        if !self.patterns.is_empty() {
            for (row, hit) in hits.iter_mut().enumerate().filter(|(_, hit)| !**hit) {
                *hit = self.patterns.is_match(batch.text(row));
            }
        }
        hits
    }
}

/// Marks the rows that contain `text`. Searches the whole block instead of each line, so that a
/// rare text costs only one pass over the memory. After a match, the search continues after the
/// line that contains it.
fn find(text: &Finder<'_>, batch: &Batch, hits: &mut [bool]) {
    let starts = &batch.starts[..];
    let mut from = 0;
    while let Some(hit) = text.find(&batch.block[from..]).map(|at| at + from) {
        let row = starts.partition_point(|start| *start as usize <= hit).saturating_sub(1);
        let Some(&start) = starts.get(row) else { return };
        // A match in the truncated part of a line, or across a line ending, does not count.
        let end = start as usize + batch.text_len(row);
        hits[row] |= hit >= start as usize && hit + text.needle().len() <= end;
        from = if hit >= end || !hits[row] { hit + 1 } else { end };
    }
}

#[cfg(test)]
mod tests;
