//! The state of the screen: view, selection, filter and order. This module does not depend on a
//! terminal.

use super::data::{Data, Polled};
use super::table::{Sort, Table};
use super::views::View;

/// A user action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// End the program.
    Quit,
    /// Stop the process until the shell continues it.
    Suspend,
    /// Show a view.
    Show(View),
    /// Show the next view, or the previous one.
    Turn(isize),
    /// Move the selection by this many rows.
    Move(isize),
    /// Move the selection by this many screens.
    Page(isize),
    /// Select the first row.
    First,
    /// Select the last row.
    Last,
    /// Sort by the column this many positions to the right.
    SortBy(isize),
    /// Sort in the other direction.
    Reverse,
    /// Start to type a filter.
    Filter,
    /// Add a character to the filter.
    Type(char),
    /// Remove the last character of the filter.
    Erase,
    /// Keep the filter, or show the details of the selected row.
    Enter,
    /// Close the open pane, or remove the filter.
    Escape,
    /// Pause, or continue.
    Pause,
    /// Show the help.
    Help,
}

/// The state of a view's table.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Key of the selected row.
    selected: Option<String>,
    /// Index of the selected row at the last drawing, in case the row is gone.
    place: usize,
    /// The first visible row.
    pub offset: usize,
    /// The order.
    pub sort: Sort,
}

/// The pane over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pane {
    /// No pane.
    #[default]
    None,
    /// The details of the selected row, starting at this line.
    Details(usize),
    /// The help, starting at this line.
    Help(usize),
}

/// Maximum characters of a filter.
const FILTER_CHARS_MAX: usize = 100;

/// The whole state.
#[derive(Debug, Default)]
pub struct Model {
    /// The values of the agent.
    pub data: Data,
    /// The view.
    pub view: View,
    shown: [Shown; 5],
    /// Text that visible rows contain.
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    /// Pane over the table.
    pub pane: Pane,
    /// Whether polling of the agent is paused.
    pub is_paused: bool,
    /// Whether the user wants to quit.
    pub is_over: bool,
    /// Number of table rows that fit on the screen, when it was last drawn.
    pub page: usize,
}

impl Model {
    /// Processes responses from the agent.
    pub fn take(&mut self, polled: Polled) {
        self.data.take(polled);
    }

    /// Returns the state of the view's table.
    pub fn shown(&mut self) -> &mut Shown {
        &mut self.shown[self.view.index()]
    }

    /// Returns the order of the view's rows.
    pub fn sort(&self) -> Sort {
        self.shown[self.view.index()].sort
    }

    /// Returns the rows of the view, filtered and sorted.
    pub fn table(&self) -> Table {
        let mut table = self.view.table(&self.data);
        table.filter(&self.filter);
        table.sort(self.sort());
        table
    }

    /// Returns the index of the selected row, and remembers the row. A row stays selected when it
    /// moves, and the neighbor of a removed row is selected.
    pub fn select(&mut self, table: &Table) -> usize {
        let last = table.rows.len().saturating_sub(1);
        let shown = self.shown();
        let found = table.rows.iter().position(|row| Some(&row.key) == shown.selected.as_ref());
        shown.place = found.unwrap_or(shown.place.min(last));
        shown.place
    }

    /// Moves the visible part so that it contains the selected row. Returns its first row.
    pub fn scroll(&mut self, table: &Table, page: usize) -> usize {
        let place = self.select(table);
        self.page = page;
        let shown = self.shown();
        let last_offset = table.rows.len().saturating_sub(page);
        let least = (place + 1).saturating_sub(page);
        shown.offset = shown.offset.clamp(least.min(place), place).min(last_offset.max(least));
        shown.offset
    }

    /// Performs an action. The caller performs actions that concern the terminal.
    pub fn act(&mut self, action: Action) {
        match action {
            Action::Quit => self.is_over = true,
            Action::Show(view) => self.show(view),
            Action::Turn(by) => {
                let count = View::ALL.len() as isize;
                let next = (self.view.index() as isize + by).rem_euclid(count);
                self.show(View::ALL[next as usize]);
            }
            Action::Move(by) => self.move_by(by),
            Action::Page(by) => self.move_by(by.saturating_mul(self.page.max(1) as isize)),
            Action::First => self.move_by(isize::MIN),
            Action::Last => self.move_by(isize::MAX),
            Action::SortBy(by) => self.sort_by(by),
            Action::Reverse => self.shown().sort.is_reversed ^= true,
            Action::Filter => self.is_typing = true,
            Action::Type(c) if self.filter.chars().count() < FILTER_CHARS_MAX => {
                self.filter.push(c);
            }
            Action::Erase => _ = self.filter.pop(),
            Action::Enter => self.enter(),
            Action::Escape => self.escape(),
            Action::Pause => self.is_paused ^= true,
            Action::Help => {
                self.pane = match self.pane {
                    Pane::Help(_) => Pane::None,
                    Pane::None | Pane::Details(_) => Pane::Help(0),
                };
            }
            Action::Type(_) | Action::Suspend => {}
        }
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.pane = Pane::None;
    }

    fn move_by(&mut self, by: isize) {
        if let Pane::Details(line) | Pane::Help(line) = &mut self.pane {
            *line = line.saturating_add_signed(by);
            return;
        }
        let table = self.table();
        let place = self.select(&table);
        let place = place.saturating_add_signed(by).min(table.rows.len().saturating_sub(1));
        let shown = self.shown();
        shown.place = place;
        shown.selected = table.rows.get(place).map(|row| row.key.clone());
    }

    /// Cycles through the columns, and the order of the agent before the first column.
    fn sort_by(&mut self, by: isize) {
        let places = self.view.table(&self.data).columns.len() as isize + 1;
        let shown = self.shown();
        let place = shown.sort.column.map_or(0, |column| column as isize + 1);
        let next = (place + by).rem_euclid(places);
        shown.sort.column = usize::try_from(next - 1).ok();
    }

    fn enter(&mut self) {
        if self.is_typing {
            self.is_typing = false;
            return;
        }
        let is_empty = self.table().rows.is_empty();
        self.pane = match self.pane {
            Pane::None if !is_empty => {
                // The details stay with the row when the order changes.
                self.move_by(0);
                Pane::Details(0)
            }
            Pane::None | Pane::Details(_) | Pane::Help(_) => Pane::None,
        };
    }

    fn escape(&mut self) {
        if self.pane != Pane::None && !self.is_typing {
            self.pane = Pane::None;
            return;
        }
        self.is_typing = false;
        self.filter.clear();
    }
}
