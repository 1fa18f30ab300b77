//! Parses web server access logs according to the server's format string.

mod format;
mod literal;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod unescape;
mod variables;

use crate::fields::{table, unseen};
use crate::region::{Bits, Line, Regions};
use crate::{Failure, Fields, Input, Parser, Reason, TimeField, Type};
use millstream_columns::Kind;
use program::{Program, Slot};
use run::{Classes, Run};

/// The line does not match the format.
const MISMATCH: Reason = "not_log_format";

/// The server whose syntax a format string uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// nginx's `log_format`.
    #[default]
    Nginx,
    /// Apache's `LogFormat`.
    Apache,
}

/// How the server escapes values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// nginx's default escaping: `\xHH`.
    Default,
    /// nginx's `escape=json`: the escapes of JSON strings.
    Json,
    /// nginx's `escape=none`: no escapes.
    None,
    /// Apache's escaping: `\"`, `\\`, `\n`, `\xHH`.
    Backslash,
}

/// The line format of an access log.
#[derive(Clone, Debug, Default)]
pub struct AccessConfig {
    /// The server whose syntax `format` uses.
    pub server: Server,
    /// The format string from the server's configuration without the surrounding quotes, or a
    /// predefined name: `combined` (the default if empty) or, for Apache, `common`.
    pub format: String,
    /// How values are escaped. The default is [`Escape::Default`] for nginx and
    /// [`Escape::Backslash`] for Apache.
    pub escape: Option<Escape>,
}

/// Parser for access logs.
///
/// Each variable in the format becomes a field. The value ends at the first occurrence of the text
/// that precedes the next variable. An empty value or `-` is absent. If a variable occurs twice,
/// the first occurrence wins. The request line becomes `request` and, if it is well-formed, also
/// `method`, `path` (including the query) and `protocol`. Escapes are decoded.
///
/// For nginx, the fields are named after the variables. Sizes, counts and `status` are integers,
/// and durations are numbers. If an upstream variable lists several values, the list stays a
/// string.
///
/// For Apache, the fields are:
///
/// | directive | field |
/// |---|---|
/// | `%h` `%l` `%u` | `host` `identity` `user` |
/// | `%t` | `time`, without its brackets; `%{FORMAT}t` too |
/// | `%r` | `request`, `method`, `path`, `protocol` |
/// | `%s` `%>s` | `status` |
/// | `%b` `%B` | `size` |
/// | `%I` `%O` `%S` | `bytes_received` `bytes_sent` `bytes_total` |
/// | `%D` `%T` `%{ms}T` `%{us}T` | `duration_us` `duration_s` `duration_ms` `duration_us` |
/// | `%{Referer}i` `%{User-Agent}i` | `referrer` `agent` |
/// | `%{Name}i` `%{Name}o` | `http_name` `sent_http_name` |
/// | `%{Name}e` `%{Name}n` `%{Name}C` | `env_name` `note_name` `cookie_name` |
/// | `%a` `%A` `%{c}a` `%{c}h` | `client` `local_address` `peer` `peer_host` |
/// | `%v` `%V` `%p` `%{remote}p` `%{local}p` | `server_name` `virtual_host` `port` `remote_port` `local_port` |
/// | `%m` `%U` `%q` `%H` | `request_method` `request_path` `query` `request_protocol` |
/// | `%P` `%{tid}P` `%k` `%L` `%X` | `pid` `tid` `keepalive_requests` `log_id` `connection_status` |
/// | `%f` `%R` | `file_name` `handler` |
#[derive(Clone, Debug)]
pub struct Access {
    program: Program,
    ends: Vec<Bits>,
    classes: Classes,
    lines: Vec<Line>,
    later: Vec<Deferred>,
    failures: Vec<Failure>,
}

/// A value to rewrite after all lines are matched.
#[derive(Clone, Copy, Debug)]
struct Deferred {
    row: usize,
    slot: usize,
    rewrite: Rework,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rework {
    Unescape,
    Int,
    Float,
}

impl Access {
    /// Compiles a format string.
    ///
    /// # Errors
    ///
    /// Returns an error if the format string is invalid. The error says what to use instead.
    pub fn new(config: &AccessConfig) -> Result<Access, String> {
        let (pieces, escape) = match config.server {
            Server::Nginx => (format::of_nginx(&config.format)?, Escape::Default),
            Server::Apache => (format::of_apache(&config.format)?, Escape::Backslash),
        };
        let mut program = Program::new(&pieces, config.escape.unwrap_or(escape))?;
        let ends = std::mem::take(&mut program.ends);
        let (lines, later, failures) = Default::default();
        Ok(Access { program, ends, classes: Classes::new(), lines, later, failures })
    }

    /// Finds the values in all lines.
    fn find(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let named = |slot: &Slot| slot.name.as_ref().map(|name| fields.named(name));
        let indices: Vec<Option<usize>> = self.program.slots.iter().map(named).collect();
        let mut unseen = unseen(fields.rows(), &indices);
        let mut table = table(fields, &indices, &mut unseen);
        let mut regions = Regions::new(input);
        while let Some(region) = regions.next(&mut self.lines) {
            self.classes.build(region.text());
            self.ends.iter_mut().for_each(|bits| bits.build(region.text()));
            let (classes, ends) = (&self.classes, &self.ends[..]);
            let mut run =
                Run { region, classes, ends, failures: &mut self.failures, later: &mut self.later };
            run.run(&self.program, &mut self.lines, &mut table);
            if self.program.escape != Escape::None && !classes.backslashes.is_empty() {
                run.escapes(&self.lines, &table);
            }
        }
    }

    /// Casts or unescapes a value.
    fn rewrite(&self, later: Deferred, input: &Input<'_>, fields: &mut Fields) {
        let slot = &self.program.slots[later.slot];
        let Some(index) = slot.name.as_ref().and_then(|name| fields.find(name.as_bytes())) else {
            return;
        };
        let cell = fields.get(index, later.row);
        if cell.kind() != Kind::Text {
            return;
        }
        let text = input.text(cell);
        let new = match later.rewrite {
            Rework::Unescape => {
                let plain = unescape::unescape(text, self.program.escape);
                Some(fields.push(Kind::Text, &plain))
            }
            Rework::Int => Type::Int.cast(text, cell, input.read_ns, fields),
            Rework::Float => Type::Float.cast(text, cell, input.read_ns, fields),
        };
        let new = new.or_else(|| slot.or_text.then_some(cell));
        let new = new.unwrap_or_else(|| fields.bad_type(later.row));
        fields.set(index, later.row, new);
    }
}

impl Parser for Access {
    fn parse(&mut self, input: &Input<'_>, fields: &mut Fields) {
        self.find(input, fields);
        for failure in std::mem::take(&mut self.failures) {
            fields.fail(failure.row, failure.reason, failure.at);
        }
        for later in std::mem::take(&mut self.later) {
            self.rewrite(later, input, fields);
        }
    }

    fn time_field(&self) -> Option<TimeField> {
        self.program.time.clone()
    }

    fn clone_boxed(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
