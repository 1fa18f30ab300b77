//! Batches of web log lines, as an operator gets them.

use crate::weblog::WebLog;
use millstream_columns::{Cell, Kind};
use millstream_jvm::{Input, InputColumn, InputSegment, Operator};
use std::io;

/// Maximum size of an operator's output in bytes: more than any benchmark operator writes.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// Lines with their cells, as the input of an operator.
pub struct Batch {
    block: Vec<u8>,
    cells: Vec<Cell>,
    selected: Vec<u32>,
}

impl Batch {
    /// Creates a batch with a number of rows.
    pub fn new(rows: usize) -> io::Result<Batch> {
        let (mut log, mut block) = (WebLog::new(1), Vec::new());
        let mut cells = Vec::with_capacity(rows);
        for _ in 0..rows {
            let start = block.len();
            log.write(1, &mut block)?;
            cells.push(Cell::new(Kind::Text, start, block.len() - start - 1));
        }
        Ok(Batch { block, cells, selected: (0..rows as u32).collect() })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.selected.len() as u64
    }

    /// Calls an operator. Returns an error if a row fails.
    pub fn call(&self, operator: &Operator) -> io::Result<()> {
        let rows = self.cells.len();
        let columns = [InputColumn { name: "message", cells: &self.cells, own: &[] }];
        let segments = [InputSegment { first_row: 0, rows, constants: &[("meta.host", "h1")] }];
        let answer = operator.call(&Input {
            block: &self.block,
            rows,
            selected: &self.selected,
            columns: &columns,
            times: None,
            read_ns: 0,
            segments: &segments,
            output_bytes_max: OUTPUT_BYTES_MAX,
            deadline: None,
        });
        let failed = answer.map_err(io::Error::other)?.failed.len();
        if failed == 0 { Ok(()) } else { Err(io::Error::other(format!("{failed} rows failed"))) }
    }
}
