//! `--once`: prints the components of one interval as plain text.

use super::data::{Data, Polled};
use super::poll;
use super::table::Table;
use super::views::View;
use crate::client::Client;
use crate::exit::{DONE, FAILED};
use crate::output::{self, print_error};
use crate::text;
use std::time::Duration;

/// Prints the table; returns the exit status.
pub fn print(client: &Client, interval: Duration) -> u8 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let taken = runtime
        .map_err(|error| format!("cannot start the async runtime: {error}"))
        .and_then(|runtime| runtime.block_on(measure(client, interval)));
    match taken {
        Ok(data) => output::print(&lines(&View::Components.table(&data)), DONE),
        Err(message) => {
            print_error(text::plain(&message));
            FAILED
        }
    }
}

async fn measure(client: &Client, interval: Duration) -> Result<Data, String> {
    let mut data = Data::default();
    data.take(Polled { snapshot: Some(Ok(poll::snapshot(client).await?)), ..Polled::default() });
    tokio::time::sleep(interval).await;
    let snapshot = Some(Ok(poll::snapshot(client).await?));
    let diagnosis = Some(poll::diagnosis(client).await?);
    data.take(Polled { snapshot, diagnosis, ..Polled::default() });
    Ok(data)
}

/// Returns a table with all columns, and numbers without units.
fn lines(table: &Table) -> String {
    let headings: Vec<String> = table.columns.iter().map(|column| column.name.to_owned()).collect();
    let rows = table.rows.iter().map(|row| row.cells.iter().map(|cell| cell.exact()).collect());
    let rows: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| text::width(&row[column])).max().unwrap_or(0);
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let mut out = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(table.columns).map(|((cell, width), column)| {
            let blanks = " ".repeat(width - text::width(cell));
            if column.is_number { blanks + cell } else { cell.clone() + &blanks }
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
}
