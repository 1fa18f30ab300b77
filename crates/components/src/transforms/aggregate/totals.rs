//! Totals of a group, and how they are written.

/// Bytes of a number.
const NUMBER_BYTES: usize = 32;

/// What is known of the values of one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Events whose field is a number.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The least of them.
    pub min: f64,
    /// The largest of them.
    pub max: f64,
}

impl Default for Number {
    fn default() -> Number {
        Number { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Number {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn merge(&mut self, other: &Number) {
        self.count += other.count;
        self.sum += other.sum;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// The totals of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals {
    /// Number of events.
    pub events: u64,
    /// A number for each field that is aggregated.
    pub numbers: Box<[Number]>,
}

impl Totals {
    /// Creates the totals of no event.
    pub fn new(fields: usize) -> Totals {
        Totals { events: 0, numbers: vec![Number::default(); fields].into() }
    }

    /// Adds the totals of other events of the group.
    pub fn merge(&mut self, other: &Totals) {
        self.events += other.events;
        self.numbers.iter_mut().zip(&other.numbers).for_each(|(to, from)| to.merge(from));
    }

    /// Appends a group with these totals: the length of the key, the key, the events, and count,
    /// sum, least and largest value of each number, all little endian.
    pub fn write(&self, key: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(key);
        out.extend_from_slice(&self.events.to_le_bytes());
        for Number { count, sum, min, max } in &self.numbers {
            out.extend_from_slice(&count.to_le_bytes());
            [sum, min, max].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        }
    }

    /// Reads a group with this number of fields from the front of `bytes`; `None` if they end
    /// before it does.
    pub fn read<'b>(bytes: &mut &'b [u8], fields: usize) -> Option<(&'b [u8], Totals)> {
        let length = u32::from_le_bytes(array(bytes)?);
        let (key, rest) = bytes.split_at_checked(length as usize)?;
        *bytes = rest;
        let events = u64::from_le_bytes(array(bytes)?);
        if bytes.len() < fields.checked_mul(NUMBER_BYTES)? {
            return None;
        }
        let numbers: Option<Vec<Number>> = (0..fields).map(|_| number(bytes)).collect();
        Some((key, Totals { events, numbers: numbers?.into() }))
    }
}

fn number(bytes: &mut &[u8]) -> Option<Number> {
    Some(Number {
        count: u64::from_le_bytes(array(bytes)?),
        sum: f64::from_le_bytes(array(bytes)?),
        min: f64::from_le_bytes(array(bytes)?),
        max: f64::from_le_bytes(array(bytes)?),
    })
}

/// Takes an array from the front of `bytes`.
pub fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}
