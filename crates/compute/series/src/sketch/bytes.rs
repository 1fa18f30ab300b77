//! Conversion of sketches to and from bytes, for snapshots.

use super::{PAGE_BUCKETS, Page, Sketch, place_of, saturating};
use crate::limits::{EXACT_VALUES_MAX, PAGES_MAX};

/// Maximum absolute page number, which is the exponent of the largest float.
const PAGE_NUMBER_MAX: i32 = 0x7FE;

/// Maximum relative difference between the totals and the stored values. The totals are rounded for
/// every value; the error of ten trillion values stays below this limit.
const TOTALS_ERROR_MAX: f64 = 1e-3;

impl Sketch {
    /// Appends the sketch to `out` without loss. The format is little endian: weight, sum, minimum,
    /// maximum and misplaced weight; the number of individual values in one byte, and each value
    /// with its weight; the number of pages in one byte, and for each page its number in four
    /// bytes, eight bytes with one bit per bucket that is set if the bucket has a weight, and these
    /// weights.
    pub fn write(&self, out: &mut Vec<u8>) {
        let floats = |floats: &[f64], out: &mut Vec<u8>| {
            floats.iter().for_each(|float| out.extend_from_slice(&float.to_le_bytes()));
        };
        floats(&[self.weight, self.sum, self.min, self.max, self.misplaced], out);
        out.push(self.values.len() as u8);
        self.values.iter().for_each(|(value, weight)| floats(&[*value, *weight], out));
        out.push(self.pages.len() as u8);
        for Page { number, weights } in &self.pages {
            let bits = weights.iter().rev().fold(0, |bits, w| bits << 1 | u64::from(*w != 0.0));
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&bits.to_le_bytes());
            weights.iter().filter(|weight| **weight != 0.0).for_each(|w| floats(&[*w], out));
        }
    }

    /// Takes a sketch that [`Sketch::write`] wrote from the front of `bytes`. Returns `None` if the
    /// sketch is damaged, or if its totals contradict its values.
    pub fn read(bytes: &mut &[u8]) -> Option<Sketch> {
        let [weight, sum, min, max, misplaced] = floats(bytes)?;
        let mut sketch = Sketch { weight, sum, min, max, misplaced, ..Sketch::default() };
        let [values] = array(bytes)?;
        for _ in 0..values {
            let [value, weight] = floats(bytes)?;
            sketch.values.push((value, (weight > 0.0).then_some(weight)?));
        }
        let [pages] = array(bytes)?;
        for _ in 0..pages {
            let page = page(bytes)?;
            let is_ascending = sketch.pages.last().is_none_or(|last| last.number < page.number);
            sketch.pages.reserve_exact(1);
            sketch.pages.push(is_ascending.then_some(page)?);
        }
        let is_one_form = values == 0 || pages == 0;
        let fits = usize::from(values) <= EXACT_VALUES_MAX && usize::from(pages) <= PAGES_MAX;
        (is_one_form && fits && sketch.agrees()).then_some(sketch)
    }

    /// Returns whether the totals are consistent with the values.
    fn agrees(&self) -> bool {
        let Sketch { values, pages, weight, sum, min, max, misplaced, .. } = self;
        if values.is_empty() && pages.is_empty() {
            return [weight, sum, min, max, misplaced].iter().all(|total| **total == 0.0);
        }
        let all = values.iter().map(|(_, weight)| weight);
        let all = all.chain(pages.iter().flat_map(|page| &page.weights));
        let all = all.fold(0.0, |sum, weight| saturating(sum + weight));
        let error = TOTALS_ERROR_MAX * all;
        let largest = saturating(all * min.abs().max(max.abs()));
        let is_between = sum.abs() <= saturating(largest * (1.0 + TOTALS_ERROR_MAX));
        let is_in_pages = *misplaced >= 0.0 && *misplaced <= all + error;
        (all - weight).abs() <= error && is_between && is_in_pages && self.has_its_ends()
    }

    /// Returns whether minimum and maximum are consistent with the values.
    fn has_its_ends(&self) -> bool {
        let ends = (self.min, self.max);
        if !self.values.is_empty() {
            let values = self.values.iter().map(|(value, _)| *value);
            let found = (values.clone().fold(f64::MAX, f64::min), values.fold(f64::MIN, f64::max));
            return found == ends && self.misplaced == 0.0;
        }
        let places = self.pages.iter().flat_map(|page| {
            let buckets = page.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0);
            buckets.map(|(bucket, _)| (page.number, bucket))
        });
        let found = (places.clone().min(), places.max());
        // A misplaced value is in a bucket whose range does not include the value.
        let is_misplaced = self.misplaced > 0.0;
        is_misplaced && self.min <= self.max
            || found == (Some(place_of(self.min)), Some(place_of(self.max)))
    }

    /// Returns the number of bytes that the sketch has allocated.
    pub fn memory_bytes(&self) -> usize {
        self.values.capacity() * size_of::<(f64, f64)>() + self.pages.capacity() * size_of::<Page>()
    }
}

fn page(bytes: &mut &[u8]) -> Option<Page> {
    let number = i32::from_le_bytes(array(bytes)?);
    let bits = u64::from_le_bytes(array(bytes)?);
    let mut weights = [0.0; PAGE_BUCKETS];
    for weight in (0..PAGE_BUCKETS).filter(|at| bits >> at & 1 == 1) {
        let [read] = floats(bytes)?;
        weights[weight] = (read > 0.0).then_some(read)?;
    }
    let is_valid = number.unsigned_abs() <= PAGE_NUMBER_MAX as u32 && bits != 0;
    is_valid.then_some(Page { number, weights })
}

/// Takes floats. Returns `None` if one of them is not finite.
fn floats<const N: usize>(bytes: &mut &[u8]) -> Option<[f64; N]> {
    let mut floats = [0.0; N];
    for float in &mut floats {
        *float = Some(f64::from_le_bytes(array(bytes)?)).filter(|float| float.is_finite())?;
    }
    Some(floats)
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::TestSize;

    /// Returns an empty sketch, an exact sketch, and a sketch with buckets.
    fn sketches() -> [Sketch; 3] {
        [0, 40, 3000].map(|values| {
            let mut sketch = Sketch::default();
            for at in 0..values {
                let value = f64::from(at - 20) * 1.7_f64.powi(at % 90 - 40);
                sketch.add(value, 1.0 + f64::from(at % 3));
            }
            sketch
        })
    }

    fn written(sketch: &Sketch) -> Vec<u8> {
        let mut out = Vec::new();
        sketch.write(&mut out);
        out
    }

    #[test]
    fn a_sketch_is_read_as_it_was_written() {
        for sketch in sketches() {
            let bytes = [written(&sketch), vec![7]].concat();
            let mut rest = &bytes[..];
            let read = Sketch::read(&mut rest).unwrap();
            assert_eq!(rest, [7]);
            assert_eq!(written(&read), written(&sketch));
            let parts = [0.0, 0.1, 0.5, 0.99, 1.0];
            assert_eq!(read.quantiles(parts), sketch.quantiles(parts));
            assert_eq!(read.weight(), sketch.weight());
        }
    }

    #[test]
    fn totals_that_are_not_those_of_the_values_are_refused() {
        for sketch in sketches() {
            let (weight, sum) = (sketch.weight + 10.0, sketch.sum + 1e300);
            let contradictions = [
                Sketch { weight: sketch.weight * 2.0 + 1.0, ..sketch.clone() },
                Sketch { weight, sum, min: -1.0, max: 1.0, ..Sketch::default() },
                Sketch { sum: 1e300, ..sketch.clone() },
                Sketch { min: sketch.min - 1e300, ..sketch.clone() },
                Sketch { max: sketch.max + 1e300, ..sketch.clone() },
                Sketch { misplaced: weight * 3.0, ..sketch.clone() },
            ];
            for (at, contradiction) in contradictions.iter().enumerate() {
                let bytes = written(contradiction);
                assert!(Sketch::read(&mut &bytes[..]).is_none(), "{at} of {}", sketch.weight);
            }
        }
    }

    #[test]
    fn a_sketch_of_many_values_is_read_whatever_they_are() {
        let values = [f64::MAX, f64::MIN, 1e-320, -0.0, 5.0, f64::MIN_POSITIVE, -1e-320];
        for count in 1..200 {
            let mut sketch = Sketch::default();
            for at in 0..count {
                let far = f64::from_bits(0x0010_0000_0000_0000 * (1 + at as u64 * 9));
                let value = if at % 3 == 0 { far } else { values[at % values.len()] };
                sketch.add(value, if at % 5 == 0 { 1e300 } else { 0.1 });
                let mut merged = Sketch::default();
                merged.merge(&sketch);
                merged.merge(&sketch);
                for sketch in [&sketch, &merged] {
                    let bytes = written(sketch);
                    assert!(Sketch::read(&mut &bytes[..]).is_some(), "{at} of {count}");
                }
            }
        }
    }

    /// Distance between two damaged bytes.
    const DAMAGED: TestSize = TestSize { gate: 7, long: 1 };

    #[test]
    fn damaged_bytes_are_refused_or_read_as_another_sketch() {
        for sketch in sketches() {
            let bytes = written(&sketch);
            for at in (0..bytes.len()).step_by(DAMAGED.per_case() as usize) {
                assert!(Sketch::read(&mut &bytes[..at]).is_none(), "{at} bytes");
                for bit in 0..8 {
                    let mut bytes = bytes.clone();
                    bytes[at] ^= 1 << bit;
                    if let Some(mut read) = Sketch::read(&mut &bytes[..]) {
                        read.quantiles([0.0, 0.5, 1.0]);
                        read.merge(&sketch);
                        read.points(&mut Vec::new());
                    }
                }
            }
        }
    }
}
