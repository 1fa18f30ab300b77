//! `millstream top`: a live view of a running agent.

mod api;
mod data;
mod details;
mod draw;
mod keys;
mod model;
mod once;
mod poll;
mod screen;
mod table;
#[cfg(test)]
mod tests;
mod views;

use crate::client::AgentArgs;
use crate::exit::{DONE, FAILED, USAGE};
use crate::output::print_error;
use millstream_model::Interval;
use std::io::{self, IsTerminal};
use std::time::Duration;

/// The help of `top`.
pub const HELP: &str = "Example:\n  \
    millstream top -c millstream.yaml\n  \
    millstream top --url http://127.0.0.1:7878 --token-file /var/lib/millstream/token\n  \
    millstream top --once\n\n\
    Keys: 1 to 5 or Tab views, < > sort, / filter, Enter details, p pause, ? help, q quit.\n\
    The variable NO_COLOR turns colors off; with TERM=dumb the command works as with --once.\n\n\
    Exit status: 0 done; 1 with --once: the agent does not respond; or the terminal cannot be used;\n\
    2 no terminal, invalid configuration or usage.";

/// The arguments of `top`.
#[derive(clap::Args)]
pub struct TopArgs {
    #[command(flatten)]
    agent: AgentArgs,
    /// Interval between two requests to the agent, from 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Interval,
    /// Print the components of one interval as a plain text table, and exit
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Interval, String> {
    let interval: Interval = text.parse().map_err(|error| format!("{error}"))?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    match allowed.contains(&interval.0) {
        true => Ok(interval),
        false => Err("the interval must be from 100ms to 1h".to_owned()),
    }
}

/// Runs the command; returns the exit status.
pub fn top(args: &TopArgs) -> u8 {
    let client = match args.agent.client() {
        Ok(client) => client,
        Err(status) => return status,
    };
    if args.once {
        return once::print(&client, args.interval.0);
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        print_error("top: there is no terminal; use --once to print a table");
        return USAGE;
    }
    if is_dumb(std::env::var("TERM").ok().as_deref()) {
        print_error(
            "top: the terminal cannot move its cursor (TERM is dumb or not set); continuing as \
             with --once",
        );
        return once::print(&client, args.interval.0);
    }
    let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    match screen::show(client, args.interval.0, has_color) {
        Ok(()) => DONE,
        Err(error) => {
            print_error(format_args!("top: the terminal: {error}"));
            FAILED
        }
    }
}

fn is_dumb(term: Option<&str>) -> bool {
    matches!(term, None | Some("" | "dumb"))
}
