//! Draws plots as SVG files.

use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// One line of a plot.
pub struct Series {
    /// Name of the line in the legend.
    pub label: String,
    /// Points (x, y).
    pub points: Vec<(f64, f64)>,
}

/// One bar in every group of a bar plot.
pub struct Bars {
    /// Name of the bar in the legend.
    pub label: &'static str,
    /// Height of the bar in each group.
    pub values: Vec<f64>,
}

/// The captions of a plot.
pub struct Axes<'a> {
    /// Caption above the plot.
    pub title: &'a str,
    /// Caption below the x axis.
    pub x: &'a str,
    /// Caption beside the y axis.
    pub y: &'a str,
    /// Formats a value of x.
    pub x_label: &'a dyn Fn(&f64) -> String,
}

/// Draws the series as lines.
pub fn lines(path: &Path, axes: &Axes, series: &[Series]) -> Result<(), String> {
    let area = SVGBackend::new(path, (900, 540)).into_drawing_area();
    area.fill(&WHITE).map_err(message)?;
    let (x, y) = ranges(series);
    let mut chart = ChartBuilder::on(&area)
        .caption(axes.title, ("sans-serif", 20))
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)
        .map_err(message)?;
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(TRANSPARENT).x_desc(axes.x).y_desc(axes.y).x_labels(20);
    mesh.x_label_formatter(axes.x_label)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()
        .map_err(message)?;
    for (index, Series { label, points }) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let line = LineSeries::new(points.iter().copied(), color.stroke_width(2)).point_size(3);
        let legend = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2));
        chart.draw_series(line).map_err(message)?.label(label).legend(legend);
    }
    let mut labels = chart.configure_series_labels();
    labels.position(label_position(series)).border_style(BLACK).background_style(WHITE);
    labels.draw().map_err(message)?;
    area.present().map_err(message)
}

/// Returns the upper corner without lines: on the right if the lines fall.
fn label_position(series: &[Series]) -> SeriesLabelPosition {
    let falls = |points: &[(f64, f64)]| {
        points.first().zip(points.last()).is_some_and(|(first, last)| first.1 > last.1)
    };
    match series.iter().all(|series| falls(&series.points)) {
        true => SeriesLabelPosition::UpperRight,
        false => SeriesLabelPosition::UpperLeft,
    }
}

/// Returns the ranges of x, between the first and the last x of all points, and of y, from 0 to
/// slightly above the maximum y.
fn ranges(series: &[Series]) -> (Range<f64>, Range<f64>) {
    let points = || series.iter().flat_map(|series| &series.points);
    let x_min = points().map(|point| point.0).fold(f64::MAX, f64::min);
    let x_max = points().map(|point| point.0).fold(f64::MIN, f64::max);
    (x_min..x_max, 0.0..points().map(|point| point.1).fold(0.0, f64::max) * 1.05)
}

fn message<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> String {
    error.to_string()
}

/// Draws one group of bars per label, with one bar per series. With a single series the values
/// stand on the bars, and there is no legend.
pub fn bars(path: &Path, title: &str, labels: &[String], series: &[Bars]) -> Result<(), String> {
    let y_max = series.iter().flat_map(|series| &series.values).copied().fold(0.0, f64::max) * 1.4;
    let area = SVGBackend::new(path, (900, 420)).into_drawing_area();
    area.fill(&WHITE).map_err(message)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..labels.len() as f64, 0.0..y_max)
        .map_err(message)?;
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().x_labels(0).light_line_style(TRANSPARENT).draw().map_err(message)?;
    let width = 0.8 / series.len() as f64;
    for (index, Bars { label, values }) in series.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let left = |group: usize| group as f64 + 0.1 + index as f64 * width;
        let bar = |(group, value): (usize, &f64)| {
            Rectangle::new([(left(group), 0.0), (left(group) + width, *value)], color.filled())
        };
        let bars = values.iter().enumerate().filter(|(_, value)| value.is_finite()).map(bar);
        let legend = move |(x, y)| Rectangle::new([(x, y - 4), (x + 12, y + 4)], color.filled());
        chart.draw_series(bars).map_err(message)?.label(*label).legend(legend);
    }
    chart.draw_series(texts(labels.iter().cloned(), |_| y_max * 0.97)).map_err(message)?;
    if let [Bars { values, .. }] = series {
        let above = |group: usize| values[group] + y_max * 0.05;
        let numbers = values.iter().map(|value| format!("{value:.0}"));
        chart.draw_series(texts(numbers, above)).map_err(message)?;
        return area.present().map_err(message);
    }
    let mut legend = chart.configure_series_labels();
    legend.position(SeriesLabelPosition::UpperRight).border_style(BLACK).background_style(WHITE);
    legend.draw().map_err(message)?;
    area.present().map_err(message)
}

/// Draws a label to the left of each group, at the height that `y` returns.
fn texts(
    texts: impl Iterator<Item = String>,
    y: impl Fn(usize) -> f64,
) -> impl Iterator<Item = Text<'static, (f64, f64), String>> {
    texts.enumerate().map(move |(group, text)| {
        let at = (group as f64 + 0.1, y(group));
        Text::new(text, at, ("sans-serif", 14).into_font())
    })
}
