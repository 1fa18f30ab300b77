//! Sets of rows.

/// A set with one bit per row.
#[derive(Debug, Default)]
pub struct Bits(Vec<u64>);

impl Bits {
    /// Removes all rows and makes room for `rows` rows.
    pub fn reset(&mut self, rows: usize) {
        self.0.clear();
        self.0.resize(rows.div_ceil(64), 0);
    }

    #[inline(always)]
    pub fn has(&self, row: u32) -> bool {
        self.0[row as usize / 64] >> (row % 64) & 1 == 1
    }

    /// Adds a row. Returns whether the row is new.
    #[inline(always)]
    pub fn add(&mut self, row: u32) -> bool {
        let word = &mut self.0[row as usize / 64];
        let bit = 1 << (row % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Appends the rows in the set to `out` in ascending order.
    pub fn collect(&self, out: &mut Vec<u32>) {
        for (at, word) in self.0.iter().enumerate() {
            let mut word = *word;
            while word != 0 {
                out.push(at as u32 * 64 + word.trailing_zeros());
                word &= word - 1;
            }
        }
    }
}
