//! Tables on the terminal, and the same with plots and the host's description in the results folder.

use plotters::prelude::*;
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
    /// An empty table; `name` is what the CSV calls it.
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

    /// As Markdown whose columns also line up as plain text.
    fn markdown(&self) -> String {
        let cells =
            |index: usize| std::iter::once(&self.columns).chain(&self.rows).map(move |row| &row[index]);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|index| cells(index).map(|cell| cell.chars().count()).max().unwrap_or(0))
            .collect();
        let line = |row: &[String]| {
            let cells =
                row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} |")).collect::<String>();
            format!("|{cells}\n")
        };
        let rule = widths.iter().map(|width| format!("{}|", "-".repeat(width + 2))).collect::<String>();
        let rows = self.rows.iter().map(|row| line(row)).collect::<String>();
        let notes = self.notes.iter().map(|note| format!("\n{note}\n")).collect::<String>();
        format!("## {}\n\n{}|{rule}\n{rows}{notes}", self.title, line(&self.columns))
    }

    /// One line for each cell: table, row, column, value.
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
        self.rows.iter().flat_map(|row| (1..row.len()).map(move |column| cell(row, column))).collect()
    }
}

/// One line of a plot.
pub struct Series {
    /// Its legend.
    pub label: String,
    /// Points (x, y).
    pub points: Vec<(f64, f64)>,
}

/// One bar of every group of a bar plot.
pub struct Bars {
    /// Its legend.
    pub label: &'static str,
    /// Its height in each group.
    pub values: Vec<f64>,
}

/// What a plot says beside its lines.
pub struct Axes<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Below the x axis.
    pub x: &'a str,
    /// Beside the y axis.
    pub y: &'a str,
    /// How a value of x is written.
    pub x_label: &'a dyn Fn(&f64) -> String,
}

/// The results folder of one run: `RESULTS/<date>-<host>/`.
pub struct Report {
    folder: PathBuf,
    name: &'static str,
    markdown: String,
    csv: String,
}

impl Report {
    /// Creates the folder, and begins `name.md` and `name.csv` with the description of the host.
    pub fn new(results: &Path, name: &'static str) -> io::Result<Self> {
        let date = command_line("date", &["+%F"]);
        let host = read_first_line("/proc/sys/kernel/hostname");
        let folder = results.join(format!("{date}-{host}"));
        fs::create_dir_all(&folder)?;
        let markdown = format!("# Results of {date} on {host}\n\n{}", host_description());
        println!("{markdown}");
        Ok(Report { folder, name, markdown, csv: "table,row,column,value\n".to_owned() })
    }

    /// Prints the table and writes it at once: a run that is broken off keeps what it has measured.
    pub fn add(&mut self, table: Table) -> io::Result<()> {
        crate::measure::progress_end();
        let markdown = table.markdown();
        println!("{markdown}");
        io::stdout().flush()?;
        self.markdown += &format!("\n{markdown}");
        self.csv += &table.csv();
        self.write()
    }

    /// Draws the series into `name.svg` and shows it in the results.
    pub fn plot(&mut self, name: &str, axes: &Axes, series: &[Series]) -> io::Result<()> {
        draw(&self.folder.join(format!("{name}.svg")), axes, series).map_err(io::Error::other)?;
        self.markdown += &format!("\n![{}]({name}.svg)\n", axes.title);
        self.write()
    }

    /// Draws one group of bars for each label, a bar for each series, into `name.svg`. NaN is no bar.
    pub fn bars(&mut self, name: &str, title: &str, labels: &[String], series: &[Bars]) -> io::Result<()> {
        let path = self.folder.join(format!("{name}.svg"));
        draw_bars(&path, title, labels, series).map_err(io::Error::other)?;
        self.markdown += &format!("\n![{title}]({name}.svg)\n");
        self.write()
    }

    /// Where the results are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn write(&self) -> io::Result<()> {
        fs::write(self.folder.join(format!("{}.md", self.name)), &self.markdown)?;
        fs::write(self.folder.join(format!("{}.csv", self.name)), &self.csv)
    }
}

fn draw(path: &Path, axes: &Axes, series: &[Series]) -> Result<(), String> {
    let text = |error: DrawingAreaErrorKind<_>| error.to_string();
    let points = || series.iter().flat_map(|series| &series.points);
    let x_min = points().map(|point| point.0).fold(f64::MAX, f64::min);
    let x_max = points().map(|point| point.0).fold(f64::MIN, f64::max);
    let y_max = points().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    let area = SVGBackend::new(path, (900, 540)).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.title, ("sans-serif", 20))
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(x_min..x_max, 0.0..y_max)
        .map_err(text)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_desc(axes.x)
        .y_desc(axes.y)
        .x_label_formatter(axes.x_label)
        .x_labels(20)
        .draw()
        .map_err(text)?;
    for (index, series) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let line = LineSeries::new(series.points.iter().copied(), color.stroke_width(2)).point_size(3);
        let drawn = chart.draw_series(line).map_err(text)?;
        drawn
            .label(&series.label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    let legend = SeriesLabelPosition::UpperLeft;
    chart
        .configure_series_labels()
        .position(legend)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()
        .map_err(text)?;
    area.present().map_err(text)
}

fn draw_bars(path: &Path, title: &str, labels: &[String], series: &[Bars]) -> Result<(), String> {
    let text = |error: DrawingAreaErrorKind<_>| error.to_string();
    let y_max = series.iter().flat_map(|series| &series.values).copied().fold(0.0, f64::max) * 1.15;
    let area = SVGBackend::new(path, (900, 420)).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..labels.len() as f64, 0.0..y_max)
        .map_err(text)?;
    chart.configure_mesh().disable_x_mesh().x_labels(0).light_line_style(TRANSPARENT).draw().map_err(text)?;
    let width = 0.8 / series.len() as f64;
    for (index, Bars { label, values }) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let left = |group: usize| group as f64 + 0.1 + index as f64 * width;
        let bar = |(group, value): (usize, &f64)| {
            Rectangle::new([(left(group), 0.0), (left(group) + width, *value)], color.filled())
        };
        let bars = values.iter().enumerate().filter(|(_, value)| value.is_finite()).map(bar);
        let legend = move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled());
        chart.draw_series(bars).map_err(text)?.label(*label).legend(legend);
    }
    let name = |(group, label): (usize, &String)| {
        Text::new(label.clone(), (group as f64 + 0.1, y_max * 0.97), ("sans-serif", 14))
    };
    chart.draw_series(labels.iter().enumerate().map(name)).map_err(text)?;
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw().map_err(text)?;
    area.present().map_err(text)
}

fn host_description() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = |key: &str| {
        let value = cpuinfo.lines().find(|line| line.starts_with(key)).and_then(|line| line.split_once(": "));
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
    let output =
        Command::new(program).args(arguments).output().map(|output| output.stdout).unwrap_or_default();
    match String::from_utf8_lossy(&output).trim() {
        "" => "unknown".to_owned(),
        text => text.to_owned(),
    }
}

fn read_first_line(path: &str) -> String {
    fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned)).unwrap_or_default()
}
