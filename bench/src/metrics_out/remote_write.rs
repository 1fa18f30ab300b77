//! State of a Prometheus server after remote write: the last value of each series.

use std::collections::HashMap;
use std::io;

/// Last value of each series, by its encoded labels.
#[derive(Default)]
pub struct Series(HashMap<Vec<u8>, Sample>);

#[derive(Clone, Copy, Default)]
struct Sample {
    value: f64,
    millis: i64,
}

impl Series {
    /// Reads an uncompressed remote write 1.0 request.
    pub fn add(&mut self, request: &[u8]) -> io::Result<()> {
        Fields(request).each(|number, series, _| match number {
            1 => self.add_series(series),
            _ => Ok(()),
        })
    }

    fn add_series(&mut self, series: &[u8]) -> io::Result<()> {
        let (mut labels, mut samples) = (Vec::new(), Vec::new());
        Fields(series).each(|number, bytes, _| {
            match number {
                1 => labels.extend_from_slice(bytes),
                2 => samples.push(Sample::read(bytes)?),
                _ => {}
            }
            Ok(())
        })?;
        let known = self.0.entry(labels).or_default();
        if let Some(last) = samples.into_iter().rfind(|sample| sample.millis >= known.millis) {
            *known = last;
        }
        Ok(())
    }

    /// Returns the number of series whose labels contain `text`, and the sum of their values.
    pub fn sum(&self, text: &str) -> (usize, f64) {
        let found = self
            .0
            .iter()
            .filter(|(labels, _)| memchr::memmem::find(labels, text.as_bytes()).is_some());
        found.fold((0, 0.0), |(count, sum), (_, sample)| (count + 1, sum + sample.value))
    }
}

impl Sample {
    fn read(bytes: &[u8]) -> io::Result<Sample> {
        let mut sample = Sample::default();
        Fields(bytes).each(|number, _, value| {
            match number {
                1 => sample.value = f64::from_bits(value),
                2 => sample.millis = value as i64,
                _ => {}
            }
            Ok(())
        })?;
        Ok(sample)
    }
}

/// The fields of a Protocol Buffers message.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Calls `each` with the number of each field, and its bytes or its value.
    fn each(
        mut self,
        mut each: impl FnMut(u64, &'a [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        while !self.0.is_empty() {
            let key = self.varint()?;
            let (bytes, value): (&[u8], u64) = match key & 7 {
                0 => (&[], self.varint()?),
                1 => {
                    let bytes = self.take(8)?;
                    (bytes, bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
                }
                2 => {
                    let len = self.varint()?;
                    (self.take(len as usize)?, 0)
                }
                kind => return Err(io::Error::other(format!("a field of kind {kind}"))),
            };
            each(key >> 3, bytes, value)?;
        }
        Ok(())
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(io::Error::other("a number that is too long"))
    }

    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(len)
            .ok_or_else(|| io::Error::other("a message that is cut"))?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a message field of up to 127 bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }

    fn series(name: &str, samples: &[(f64, u8)]) -> Vec<u8> {
        let label = [field(1, b"__name__"), field(2, name.as_bytes())].concat();
        let mut series = field(1, &label);
        for (value, millis) in samples {
            series.extend(field(2, &[&[9][..], &value.to_le_bytes(), &[16, *millis]].concat()));
        }
        field(1, &series)
    }

    #[test]
    fn the_last_value_of_each_series_counts() {
        let mut all = Series::default();
        all.add(&[series("a_total", &[(1.0, 1), (5.0, 2)]), series("b", &[(7.0, 1)])].concat())
            .unwrap();
        all.add(&series("a_total", &[(8.5, 9)])).unwrap();
        all.add(&series("a_total", &[(3.0, 4)])).unwrap();
        assert_eq!(all.sum("_total"), (1, 8.5));
        assert_eq!(all.sum("__name__"), (2, 15.5));
    }

    #[test]
    fn a_request_that_is_cut_is_refused() {
        let request = series("a_total", &[(1.0, 1)]);
        assert!(Series::default().add(&request[..request.len() - 1]).is_err());
    }
}
