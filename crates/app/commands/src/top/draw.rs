//! Draws the model.

use super::api::Part;
use super::details::{Line, details};
use super::keys::HELP;
use super::model::{Model, Pane};
use super::table::{Level, Table, cell};
use super::views::View;
use crate::text;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// The smallest window with a table.
const WINDOW_MIN: (u16, u16) = (30, 8);

/// Lines above the heading of the table: the agent, the bottleneck, the views.
const HEAD_LINES: u16 = 3;

/// Draws the screen. `has_color` is false if the user wants no color.
pub fn draw(frame: &mut Frame<'_>, model: &mut Model, has_color: bool) {
    let area = frame.area();
    let buffer = frame.buffer_mut();
    if area.width < WINDOW_MIN.0 || area.height < WINDOW_MIN.1 {
        return too_small(buffer, area);
    }
    let mut canvas = Canvas { buffer, width: area.width, has_color };
    canvas.head(model);
    let body = Rect { y: HEAD_LINES, height: area.height - HEAD_LINES - 1, ..area };
    match model.pane {
        Pane::None => canvas.table(model, body),
        Pane::Details(_) | Pane::Help(_) => canvas.pane(model, body),
    }
    canvas.foot(model, area.height - 1);
}

/// Draws a message that there is no space for a table, on as many lines as necessary.
fn too_small(buffer: &mut Buffer, area: Rect) {
    let columns = usize::from(area.width);
    let fits = |text: &&str| text::wrap(text, columns).len() <= usize::from(area.height);
    let texts = ["window too small", "too small"];
    let text = texts.iter().copied().find(fits).unwrap_or(texts[0]);
    for (y, line) in (0..area.height).zip(text::wrap(text, columns)) {
        buffer.set_stringn(0, y, line, columns, Style::default());
    }
}

struct Canvas<'a> {
    buffer: &'a mut Buffer,
    width: u16,
    has_color: bool,
}

impl Canvas<'_> {
    /// Writes `text`, truncated at the right border, and fills the remaining columns with blanks.
    fn line(&mut self, y: u16, text: &str, style: Style) {
        let columns = usize::from(self.width);
        let text = text::cut(text, columns);
        let blanks = " ".repeat(columns.saturating_sub(text::width(&text)));
        self.buffer.set_stringn(0, y, text + &blanks, columns, style);
    }

    fn style(&self, level: Level, is_stale: bool) -> Style {
        let style = if is_stale { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
        match level {
            Level::Good => style,
            Level::Warning if self.has_color => style.fg(Color::Yellow),
            Level::Bad if self.has_color => style.fg(Color::Red),
            Level::Warning | Level::Bad => style.add_modifier(Modifier::BOLD),
        }
    }

    fn head(&mut self, model: &Model) {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        self.line(0, &agent(model), bold);
        match &model.data.failure {
            Some(failure) => {
                let text = format!("not connected: {}, retrying", text::plain(failure));
                let style = self.style(Level::Bad, false).add_modifier(Modifier::BOLD);
                self.line(1, &text, style);
            }
            None => self.line(1, &bottleneck(model), Style::new()),
        }
        let mut x = 0;
        for (index, view) in View::ALL.iter().enumerate() {
            let is_shown = *view == model.view;
            let style = if is_shown { bold.add_modifier(Modifier::REVERSED) } else { Style::new() };
            let name = format!(" {} {} ", index + 1, view.name());
            let columns = usize::from(self.width.saturating_sub(x));
            self.buffer.set_stringn(x, 2, &name, columns, style);
            x += name.len() as u16;
        }
        let filter = text::plain(&model.filter);
        if !filter.is_empty() && x < self.width {
            let columns = usize::from(self.width - x);
            let text = text::cut(&format!(" filter: {filter}"), columns);
            self.buffer.set_stringn(x, 2, text, columns, Style::new());
        }
    }

    fn table(&mut self, model: &mut Model, area: Rect) {
        let table = model.table();
        let note_lines = u16::from(table.note.is_some());
        let page = usize::from(area.height - 1 - note_lines);
        let offset = model.scroll(&table, page);
        let selected = model.select(&table);
        let fitted = table.fit(usize::from(self.width), model.sort().column);
        self.heading(&table, &fitted, model, area.y);
        let is_stale = model.data.failure.is_some();
        for (at, row) in table.rows.iter().enumerate().skip(offset).take(page) {
            let mut style = self.style(row.level, is_stale);
            if at == selected {
                style = style.add_modifier(Modifier::REVERSED);
            }
            let y = area.y + 1 + (at - offset) as u16;
            self.line(y, "", style);
            let texts = fitted.iter().map(|(column, columns)| {
                cell(&row.cells[*column], *columns, table.columns[*column].is_number)
            });
            self.cells(y, &fitted, texts, style);
        }
        self.hint(offset, table.rows.len().saturating_sub(offset + page));
        if let Some(note) = &table.note {
            let y = area.y + area.height - 1;
            self.line(y, &text::plain(note), Style::new().add_modifier(Modifier::ITALIC));
        }
    }

    /// Writes how many rows are off the screen, at the right end of the line above the table.
    fn hint(&mut self, above: usize, below: usize) {
        let text = match (above, below) {
            (0, 0) => return,
            (0, below) => format!("  {below} more below"),
            (above, 0) => format!("  {above} more above"),
            (above, below) => format!("  {above} above, {below} below"),
        };
        let columns = text.len().min(usize::from(self.width));
        let x = self.width - columns as u16;
        self.buffer.set_stringn(x, HEAD_LINES - 1, text, columns, Style::new());
    }

    fn heading(&mut self, table: &Table, fitted: &[(usize, usize)], model: &Model, y: u16) {
        let sort = model.sort();
        let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        self.line(y, "", bold);
        let texts = fitted.iter().map(|(column, columns)| {
            let definition = table.columns[*column];
            let mark = match sort.is_reversed {
                _ if sort.column != Some(*column) => "",
                true => "^",
                false => "v",
            };
            let text = text::cut(&format!("{}{mark}", definition.name), *columns);
            let blanks = " ".repeat(columns.saturating_sub(text::width(&text)));
            if definition.is_number { blanks + &text } else { text + &blanks }
        });
        self.cells(y, fitted, texts, bold);
    }

    /// Writes the cells of a row. The position of a cell does not depend on the width of other
    /// strings.
    fn cells(
        &mut self,
        y: u16,
        fitted: &[(usize, usize)],
        texts: impl Iterator<Item = String>,
        style: Style,
    ) {
        let mut x = 0;
        for ((_, columns), text) in fitted.iter().zip(texts) {
            let left = usize::from(self.width).saturating_sub(x);
            if left == 0 {
                return;
            }
            self.buffer.set_stringn(x as u16, y, text, (*columns).min(left), style);
            x += columns + 1;
        }
    }

    fn pane(&mut self, model: &mut Model, area: Rect) {
        let columns = usize::from(self.width);
        let (title, lines) = contents(model);
        let wrapped: Vec<Line> = lines
            .into_iter()
            .flat_map(|line| {
                let level = line.level;
                text::wrap(&line.text, columns).into_iter().map(move |text| Line { text, level })
            })
            .collect();
        let page = usize::from(area.height - 1);
        model.page = page;
        let last = wrapped.len().saturating_sub(page);
        let (Pane::Details(from) | Pane::Help(from)) = &mut model.pane else { return };
        *from = (*from).min(last);
        let from = *from;
        let more = if from < last { "  (more below)" } else { "" };
        let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        self.line(area.y, &format!("{title}{more}"), bold);
        for (at, line) in wrapped.iter().skip(from).take(page).enumerate() {
            let style = self.style(line.level, false);
            self.line(area.y + 1 + at as u16, &line.text, style);
        }
    }

    fn foot(&mut self, model: &Model, y: u16) {
        let keys = match model.pane {
            _ if model.is_typing => {
                let filter = text::plain(&model.filter);
                return self.line(
                    y,
                    &format!("/{filter}_  Enter keeps it, Esc removes it"),
                    Style::new(),
                );
            }
            Pane::None => {
                "? help  Tab view  < > sort  r reverse  / filter  Enter details  p pause  q quit"
            }
            Pane::Details(_) | Pane::Help(_) => "arrows scroll  Esc close  q quit",
        };
        self.line(y, keys, Style::new().add_modifier(Modifier::REVERSED));
    }
}

/// Returns the title and the lines of the open pane.
fn contents(model: &mut Model) -> (String, Vec<Line>) {
    if let Pane::Help(_) = model.pane {
        let line = |text: &&str| Line { text: (*text).to_owned(), level: Level::Good };
        return ("keys and columns".to_owned(), HELP.iter().map(line).collect());
    }
    let table = model.table();
    let selected = model.select(&table);
    match table.rows.get(selected) {
        Some(row) => {
            let title = text::plain(&row.cells[0].shown());
            (title, details(model.view, &model.data, row))
        }
        None => ("details".to_owned(), Vec::new()),
    }
}

/// Returns a summary of the agent.
fn agent(model: &Model) -> String {
    let mut parts = Vec::new();
    if model.is_paused {
        parts.push("PAUSED".to_owned());
    }
    let Some(snapshot) = model.data.snapshot.as_ref().map(|snapshot| &snapshot.value) else {
        parts.push("millstream  no response yet".to_owned());
        return parts.join("  ");
    };
    let version =
        snapshot.version.as_deref().map_or(String::new(), |v| format!(" {}", text::plain(v)));
    parts.push(format!("millstream{version}"));
    parts.push(format!("up {}", text::seconds(snapshot.uptime_seconds.floor())));
    if let Some(cpu) = model.data.cpu {
        parts.push(format!("CPU {:.0}%", cpu * 100.0));
    }
    let memory = &snapshot.memory;
    let resident = text::bytes(memory.resident_bytes as f64);
    let limit = text::bytes(memory.limit_bytes as f64);
    parts.push(format!("memory {resident}/{limit} {}", text::plain(&memory.pressure)));
    parts.push(match (model.data.late_sources(), &model.data.diagnosis) {
        (Some(late), _) => format!("late sources {late}"),
        (None, Part::Missing) => "late sources ?".to_owned(),
        (None, _) => String::new(),
    });
    parts.retain(|part| !part.is_empty());
    parts.join("  ")
}

fn bottleneck(model: &Model) -> String {
    let known = match &model.data.bottleneck {
        Part::Known(known) => known,
        Part::Missing => {
            return "bottleneck: not available because the agent is an older release".to_owned();
        }
        Part::Unknown => return String::new(),
    };
    let reason = known.reason.as_deref().unwrap_or("no reason given");
    let sure =
        known.confidence.map_or(String::new(), |sure| format!(" ({:.0}% sure)", sure * 100.0));
    let text = match &known.component {
        Some(component) => format!("bottleneck: {component}: {reason}{sure}"),
        None => format!("bottleneck: none: {reason}"),
    };
    text::plain(&text)
}
