//! Access logs of web servers, from the format string that they are configured with.

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

/// Why a line does not fit.
const MISMATCH: Reason = "not_log_format";

/// Whose format it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Server {
    /// `log_format` of nginx.
    #[default]
    Nginx,
    /// `LogFormat` of Apache.
    Apache,
}

/// How values are escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// As nginx does it where nothing is said: `\xHH`.
    Default,
    /// `escape=json` of nginx: as in JSON strings.
    Json,
    /// `escape=none` of nginx: not at all.
    None,
    /// As Apache does it: `\"`, `\\`, `\n`, `\xHH`.
    Backslash,
}

/// What lines look like.
#[derive(Clone, Debug, Default)]
pub struct AccessConfig {
    /// Whose format it is.
    pub server: Server,
    /// The format as the server's configuration has it, without quotes around it; `combined`, and
    /// for Apache `common`. If empty it is `combined`.
    pub format: String,
    /// How values are escaped; [`Escape::Default`] for nginx and [`Escape::Backslash`] for Apache
    /// where nothing is said.
    pub escape: Option<Escape>,
}

/// Takes access lines apart.
///
/// Each variable of the format gives a field, which ends where the text between it and the next
/// variable comes up first. A value `-`, or none, gives no field. Of a variable that is there twice
/// the first counts. The request line gives `request`, and where it has that form, `method`, `path`
/// (with the query) and `protocol` besides. Escaped bytes are given as what they stand for.
///
/// With nginx the fields have the names of the variables. Sizes, counts and `status` are whole
/// numbers, durations are numbers. Variables of upstream servers may have several values; these
/// stay text.
///
/// With Apache they are:
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
    later: Vec<Later>,
    failures: Vec<Failure>,
}

/// A value that is not as it stands in the line.
#[derive(Clone, Copy, Debug)]
struct Later {
    row: usize,
    slot: usize,
    rework: Rework,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rework {
    Unescape,
    Int,
    Float,
}

impl Access {
    /// Compiles a format.
    ///
    /// # Errors
    /// What is wrong; what to write instead.
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

    /// Finds the values of all lines.
    fn find(&mut self, input: &Input<'_>, fields: &mut Fields) {
        let named = |slot: &Slot| slot.name.as_ref().map(|name| fields.named(name));
        let indices: Vec<Option<usize>> = self.program.slots.iter().map(named).collect();
        let mut unseen = unseen(fields.rows(), &indices);
        let mut table = table(fields, &indices, &mut unseen);
        let mut regions = Regions::new(input);
        while let Some(region) = regions.next(&mut self.lines) {
            self.classes.see(region.text());
            self.ends.iter_mut().for_each(|bits| bits.see(region.text()));
            let (classes, ends) = (&self.classes, &self.ends[..]);
            let mut run =
                Run { region, classes, ends, failures: &mut self.failures, later: &mut self.later };
            run.run(&self.program, &mut self.lines, &mut table);
            if self.program.escape != Escape::None && !classes.backslashes.is_empty() {
                run.escapes(&self.lines, &table);
            }
        }
    }

    /// Writes a value as it should be.
    fn rework(&self, later: Later, input: &Input<'_>, fields: &mut Fields) {
        let slot = &self.program.slots[later.slot];
        let Some(index) = slot.name.as_ref().and_then(|name| fields.find(name.as_bytes())) else {
            return;
        };
        let cell = fields.get(index, later.row);
        if cell.kind() != Kind::Text {
            return;
        }
        let text = input.text(cell);
        let new = match later.rework {
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
            self.rework(later, input, fields);
        }
    }

    fn time_field(&self) -> Option<TimeField> {
        self.program.time.clone()
    }

    fn again(&self) -> Box<dyn Parser> {
        Box::new(self.clone())
    }
}
