//! Names and types of the variables in a format.

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Text,
    Int,
    Float,
    /// A request line such as `GET /index.html HTTP/1.1`.
    Request,
    /// A time, which can contain a space.
    Time {
        spaced: bool,
    },
}

/// A variable in a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    pub name: String,
    pub of: Of,
    /// Whether the variable can list one value per upstream server, as in `0.1, 0.2 : 0.3`. Such a
    /// list stays a string.
    pub list: bool,
    /// The timestamp format, if the variable is a time.
    pub time: Option<String>,
}

impl Variable {
    pub fn new(name: impl Into<String>, kind: Of) -> Variable {
        Variable { name: name.into(), of: kind, list: false, time: None }
    }

    pub fn time(name: impl Into<String>, kind: Of, format: impl Into<String>) -> Variable {
        Variable { time: Some(format.into()), ..Variable::new(name, kind) }
    }
}

/// A piece of a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Literal(Vec<u8>),
    Variable(Variable),
}

const INTS: &[&str] = &[
    "body_bytes_sent",
    "bytes_received",
    "bytes_sent",
    "connection",
    "connection_requests",
    "connections_active",
    "connections_reading",
    "connections_waiting",
    "connections_writing",
    "content_length",
    "pid",
    "proxy_port",
    "proxy_protocol_port",
    "proxy_protocol_server_port",
    "remote_port",
    "request_length",
    "server_port",
    "sent_http_content_length",
    "http_content_length",
    "status",
    "tcpinfo_rcv_space",
    "tcpinfo_rtt",
    "tcpinfo_rttvar",
    "tcpinfo_snd_cwnd",
    "upstream_bytes_received",
    "upstream_bytes_sent",
    "upstream_response_length",
    "upstream_status",
];

const FLOATS: &[&str] = &[
    "connection_time",
    "gzip_ratio",
    "request_time",
    "session_time",
    "upstream_connect_time",
    "upstream_first_byte_time",
    "upstream_header_time",
    "upstream_queue_time",
    "upstream_response_time",
    "upstream_session_time",
];

/// Returns the variable that nginx calls `name`.
pub(super) fn nginx(name: &str) -> Variable {
    let kind = match name {
        "request" => Of::Request,
        "time_local" => {
            return Variable::time(name, Of::Time { spaced: true }, "%d/%b/%Y:%H:%M:%S %z");
        }
        "time_iso8601" => return Variable::time(name, Of::Time { spaced: false }, "rfc3339"),
        "msec" => return Variable::time(name, Of::Float, "epoch_s"),
        name if INTS.contains(&name) => Of::Int,
        name if FLOATS.contains(&name) => Of::Float,
        _ => Of::Text,
    };
    let list = name.starts_with("upstream_") || name.ends_with("x_forwarded_for");
    Variable { list, ..Variable::new(name, kind) }
}

/// Returns the variable for an Apache directive, given the letter after `%` and the argument in
/// braces before the letter. Returns `None` if Apache has no such directive.
pub(super) fn apache(letter: char, argument: Option<&str>) -> Option<Variable> {
    if let Some(argument) = argument {
        return with_argument(letter, argument);
    }
    let (name, kind) = match letter {
        'a' => ("client", Of::Text),
        'A' => ("local_address", Of::Text),
        'b' | 'B' => ("size", Of::Int),
        'D' => ("duration_us", Of::Int),
        'f' => ("file_name", Of::Text),
        'h' => ("host", Of::Text),
        'H' => ("request_protocol", Of::Text),
        'I' => ("bytes_received", Of::Int),
        'k' => ("keepalive_requests", Of::Int),
        'l' => ("identity", Of::Text),
        'L' => ("log_id", Of::Text),
        'm' => ("request_method", Of::Text),
        'O' => ("bytes_sent", Of::Int),
        'p' => ("port", Of::Int),
        'P' => ("pid", Of::Int),
        'q' => ("query", Of::Text),
        'r' => ("request", Of::Request),
        'R' => ("handler", Of::Text),
        's' => ("status", Of::Int),
        'S' => ("bytes_total", Of::Int),
        'T' => ("duration_s", Of::Int),
        'u' => ("user", Of::Text),
        'U' => ("request_path", Of::Text),
        'v' => ("server_name", Of::Text),
        'V' => ("virtual_host", Of::Text),
        'X' => ("connection_status", Of::Text),
        't' => {
            return Some(Variable::time("time", Of::Time { spaced: true }, "%d/%b/%Y:%H:%M:%S %z"));
        }
        _ => return None,
    };
    Some(Variable::new(name, kind))
}

/// Returns the variable for a directive with an argument, such as `%{Referer}i`. Returns `None` if
/// Apache has no such directive.
fn with_argument(letter: char, argument: &str) -> Option<Variable> {
    let snake = argument.to_ascii_lowercase().replace(['-', '.'], "_");
    let text = |name: String| Variable::new(name, Of::Text);
    Some(match (letter, &*snake) {
        ('i', "referer") => text("referrer".into()),
        ('i', "user_agent") => text("agent".into()),
        ('i', "x_forwarded_for") => Variable { list: true, ..text("http_x_forwarded_for".into()) },
        ('i', _) => text(format!("http_{snake}")),
        ('o', _) => text(format!("sent_http_{snake}")),
        ('e', _) => text(format!("env_{snake}")),
        ('n', _) => text(format!("note_{snake}")),
        ('C', _) => text(format!("cookie_{snake}")),
        ('a', _) => text("peer".into()),
        ('h', _) => text("peer_host".into()),
        ('p', "remote") => Variable::new("remote_port", Of::Int),
        ('p', "local") => Variable::new("local_port", Of::Int),
        ('p', _) => Variable::new("port", Of::Int),
        ('P', "tid") => Variable::new("tid", Of::Int),
        ('P', "hextid") => text("tid".into()),
        ('P', _) => Variable::new("pid", Of::Int),
        ('T', "s" | "ms" | "us") => Variable::new(format!("duration_{snake}"), Of::Int),
        ('t', _) => time_of(argument)?,
        (letter, _) => apache(letter, None)?,
    })
}

/// Returns the variable for `%{FORMAT}t`, whose format is strftime specifiers or an epoch.
fn time_of(argument: &str) -> Option<Variable> {
    let format =
        argument.strip_prefix("begin:").or(argument.strip_prefix("end:")).unwrap_or(argument);
    let epoch = |format: &str| Some(Variable::time("time", Of::Int, format));
    match format {
        "sec" => epoch("epoch_s"),
        "msec" => epoch("epoch_ms"),
        "usec" => epoch("epoch_us"),
        "msec_frac" | "usec_frac" => Some(Variable::new(format!("time_{format}"), Of::Int)),
        _ => Some(Variable::time("time", Of::Time { spaced: format.contains(' ') }, format)),
    }
}
