//! Prints tables on the terminal, and writes them with plots and the host's description to the
//! results folder.

use crate::plot::{self, Axes, Bars, Series};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A table of results. The first column names the row.
pub struct Table {
    name: &'static str,
    title: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// Creates an empty table; `name` is its name in the CSV.
    pub fn new(name: &'static str, title: &'static str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Table { name, title, columns, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row, one cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.columns.len(), "{}: {cells:?}", self.name);
        self.rows.push(cells);
    }

    /// Adds a sentence below the table.
    pub fn note(&mut self, note: String) {
        self.notes.push(note);
    }

    /// Formats the table as Markdown whose columns are also aligned as plain text.
    fn markdown(&self) -> String {
        let cells = |index: usize| {
            std::iter::once(&self.columns).chain(&self.rows).map(move |row| &row[index])
        };
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| cells(index).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        let line = |row: &[String]| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!(" {cell:<width$} |"))
                .collect::<String>();
            format!("|{cells}\n")
        };
        let rule =
            widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect::<String>();
        let rows = self.rows.iter().map(|row| line(row)).collect::<String>();
        let notes = self.notes.iter().map(|note| format!("\n{note}\n")).collect::<String>();
        format!("## {}\n\n{}|{rule}\n{rows}{notes}", self.title, line(&self.columns))
    }

    /// Formats one line per cell: table, row, column, value.
    fn csv(&self) -> String {
        let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let cell = |row: &[String], column: usize| {
            format!(
                "{},{},{},{}\n",
                self.name,
                quote(&row[0]),
                quote(&self.columns[column]),
                quote(&row[column])
            )
        };
        self.rows
            .iter()
            .flat_map(|row| (1..row.len()).map(move |column| cell(row, column)))
            .collect()
    }
}

/// Results folder of one run: `RESULTS/<date>-<host>/`.
pub struct Report {
    folder: PathBuf,
    name: &'static str,
    markdown: String,
    csv: String,
}

impl Report {
    /// Creates the folder, and prepares `name.md`, which begins with the description of the host,
    /// and `name.csv`.
    pub fn new(results: &Path, name: &'static str) -> io::Result<Self> {
        let date = command_line("date", &["+%F"]);
        let host = read_first_line("/proc/sys/kernel/hostname");
        let folder = results.join(format!("{date}-{host}"));
        fs::create_dir_all(&folder)?;
        let markdown = format!("# Results of {date} on {host}\n\n{}", host_description());
        println!("{markdown}");
        Ok(Report { folder, name, markdown, csv: "table,row,column,value\n".to_owned() })
    }

    /// Prints the table and writes it to the results at once, so that an aborted run keeps its
    /// measurements.
    pub fn add(&mut self, table: Table) -> io::Result<()> {
        crate::measure::progress_end();
        let markdown = table.markdown();
        println!("{markdown}");
        io::stdout().flush()?;
        self.markdown += &format!("\n{markdown}");
        self.csv += &table.csv();
        self.write()
    }

    /// Draws the series into `name.svg` and embeds it in the results.
    pub fn plot(&mut self, name: &str, axes: &Axes, series: &[Series]) -> io::Result<()> {
        plot::lines(&self.folder.join(format!("{name}.svg")), axes, series)
            .map_err(io::Error::other)?;
        self.markdown += &format!("\n![{}]({name}.svg)\n", axes.title);
        self.write()
    }

    /// Draws one group of bars per label, with one bar per series, into `name.svg`. NaN draws no
    /// bar.
    pub fn bars(
        &mut self,
        name: &str,
        title: &str,
        labels: &[String],
        series: &[Bars],
    ) -> io::Result<()> {
        let path = self.folder.join(format!("{name}.svg"));
        plot::bars(&path, title, labels, series).map_err(io::Error::other)?;
        self.markdown += &format!("\n![{title}]({name}.svg)\n");
        self.write()
    }

    /// Returns the path of the results folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn write(&self) -> io::Result<()> {
        fs::write(self.folder.join(format!("{}.md", self.name)), &self.markdown)?;
        fs::write(self.folder.join(format!("{}.csv", self.name)), &self.csv)
    }
}

fn host_description() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = |key: &str| {
        let value = cpuinfo
            .lines()
            .find(|line| line.starts_with(key))
            .and_then(|line| line.split_once(": "));
        value.map_or("unknown", |(_, value)| value).to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = read_first_line("/proc/meminfo");
    let lines = [
        format!(
            "CPU: {} (family {}, model {}), {cores} cores",
            cpu("model name"),
            cpu("cpu family"),
            cpu("model\t")
        ),
        format!("memory: {}", memory.trim_start_matches("MemTotal:").trim()),
        format!("kernel: {}", command_line("uname", &["-sr"])),
        format!("compiler: {}", command_line("rustc", &["--version"])),
        format!("scan kernel: {}", millstream_scan::kernel()),
        format!("load average at the start: {}", read_first_line("/proc/loadavg")),
    ];
    lines.iter().map(|line| format!("- {line}\n")).collect()
}

fn command_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map(|output| output.stdout)
        .unwrap_or_default();
    match String::from_utf8_lossy(&output).trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    }
}

fn read_first_line(path: &str) -> String {
    fs::read_to_string(path)
        .ok()
        .and_then(|text| text.lines().next().map(str::to_owned))
        .unwrap_or_default()
}
