//! Text tables. The first column is left-aligned; all other columns are right-aligned.

/// A table.
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(heading: &[&str]) -> Table {
        Table { heading: heading.iter().map(|cell| (*cell).to_owned()).collect(), rows: Vec::new() }
    }

    /// Adds a row with as many cells as the heading.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Returns at most this number of rows after an empty line; returns an empty string if there
    /// are no rows.
    pub fn render(&self, rows_max: usize) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let shown: Vec<&Vec<String>> = [&self.heading].into_iter().chain(&self.rows).collect();
        let shown = &shown[..shown.len().min(rows_max + 1)];
        let width = |column: usize| {
            shown.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let mut text = String::from("\n");
        for row in shown {
            let cells = row.iter().zip(&widths).enumerate();
            let cells: Vec<String> = cells
                .map(|(column, (cell, width))| match column {
                    0 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                })
                .collect();
            text += &format!("  {}\n", cells.join("  ").trim_end());
        }
        if self.rows.len() > rows_max {
            text += &format!("  and {} more\n", self.rows.len() - rows_max);
        }
        text
    }
}
