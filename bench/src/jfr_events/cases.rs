//! Tables of the cases: comparison with the article, cost of each step, writes of several sizes.

use super::jmh::Cost;
use super::{Measured, OFF, ON, SIZES};
use crate::plot::{Axes, Bars, Series};
use crate::report::{Report, Table};
use std::io;

/// A case of the benchmark with its description, and the article's microseconds and bytes.
type Case = (&'static str, &'static str, &'static str, &'static str);

const CASES: [Case; 27] = [
    (OFF, "recorder off", "2.23", "0"),
    ("JDK_EVENT_OFF", "recorder on, the JDK's event off", "2.22", "0.02"),
    ("JDK_BELOW", "the JDK's event, below 20 ms", "", ""),
    (ON, "the JDK's event", "3.06 instrumented, 3.12 mirror", "333, 402"),
    ("JDK_ON_NO_STACK", "the JDK's event, no stack", "", ""),
    ("JDK_ON_THROTTLE_OFF", "the JDK's event, throttle=off", "", ""),
    ("JDK_ON_THROTTLE_100", "the JDK's event, throttle=100/s", "", ""),
    ("INSTRUMENTED_EVENT_OFF", "instrumented, event off", "", ""),
    ("INSTRUMENTED_BELOW", "instrumented, below 20 ms", "", ""),
    ("INSTRUMENTED_STRINGS", "instrumented, string work", "3.06", "333"),
    ("INSTRUMENTED_METHODS", "instrumented, no string work", "", ""),
    ("INSTRUMENTED_CACHED", "instrumented, cached", "2.63", "0.12"),
    ("INSTRUMENTED_STRINGS_NO_STACK", "instrumented, string work, no stack", "", ""),
    ("INSTRUMENTED_METHODS_NO_STACK", "instrumented, no string work, no stack", "", ""),
    ("INSTRUMENTED_CACHED_NO_STACK", "instrumented, cached, no stack", "", ""),
    ("MIRROR_EVENT_OFF", "mirror, event off", "", ""),
    ("MIRROR_BELOW", "mirror, below 20 ms", "", ""),
    ("MIRROR_STRINGS", "mirror, string work", "3.12", "402"),
    ("MIRROR_METHODS", "mirror, no string work", "2.87", "184"),
    ("MIRROR_CACHED", "mirror, cached", "2.72", "48"),
    ("MIRROR_STRINGS_NO_STACK", "mirror, string work, no stack", "", ""),
    ("MIRROR_METHODS_NO_STACK", "mirror, no string work, no stack", "", ""),
    ("MIRROR_CACHED_NO_STACK", "mirror, cached, no stack", "", ""),
    ("REUSED_EVENT_OFF", "an event per thread, event off", "", ""),
    ("REUSED_BELOW", "an event per thread, below 20 ms", "", ""),
    ("REUSED_CACHED", "an event per thread, cached", "", ""),
    ("REUSED_CACHED_NO_STACK", "an event per thread, cached, no stack", "", ""),
];

/// Steps between two cases: the name, the first case and the second case.
const STEPS: [(&str, &str, &str); 21] = [
    ("the JDK's event, off", OFF, "JDK_EVENT_OFF"),
    ("the JDK's event, below its threshold", OFF, "JDK_BELOW"),
    ("the JDK's event without stack", OFF, "JDK_ON_NO_STACK"),
    ("its stack", "JDK_ON_NO_STACK", ON),
    ("its throttle at 100/s", ON, "JDK_ON_THROTTLE_100"),
    ("instrumented, off", OFF, "INSTRUMENTED_EVENT_OFF"),
    ("instrumented, below its threshold", OFF, "INSTRUMENTED_BELOW"),
    ("instrumented, string work, no stack", OFF, "INSTRUMENTED_STRINGS_NO_STACK"),
    ("→ no string work", "INSTRUMENTED_STRINGS_NO_STACK", "INSTRUMENTED_METHODS_NO_STACK"),
    ("→ cached", "INSTRUMENTED_METHODS_NO_STACK", "INSTRUMENTED_CACHED_NO_STACK"),
    ("→ an event per thread", "INSTRUMENTED_CACHED_NO_STACK", "REUSED_CACHED_NO_STACK"),
    ("stack of instrumented, cached", "INSTRUMENTED_CACHED_NO_STACK", "INSTRUMENTED_CACHED"),
    ("mirror, off", OFF, "MIRROR_EVENT_OFF"),
    ("mirror, below its threshold", OFF, "MIRROR_BELOW"),
    ("mirror, string work, no stack", OFF, "MIRROR_STRINGS_NO_STACK"),
    ("→ no string work (mirror)", "MIRROR_STRINGS_NO_STACK", "MIRROR_METHODS_NO_STACK"),
    ("→ cached (mirror)", "MIRROR_METHODS_NO_STACK", "MIRROR_CACHED_NO_STACK"),
    ("stack of mirror, cached", "MIRROR_CACHED_NO_STACK", "MIRROR_CACHED"),
    ("an event per thread, off", OFF, "REUSED_EVENT_OFF"),
    ("an event per thread, below its threshold", OFF, "REUSED_BELOW"),
    ("stack of an event per thread", "REUSED_CACHED_NO_STACK", "REUSED_CACHED"),
];

/// Cases of the plots: a short label, the case with the stack, and the case without the stack.
const PLOTTED: [(&str, &str, &str); 9] = [
    ("off", OFF, OFF),
    ("JDK", ON, "JDK_ON_NO_STACK"),
    ("instr., strings", "INSTRUMENTED_STRINGS", "INSTRUMENTED_STRINGS_NO_STACK"),
    ("methods", "INSTRUMENTED_METHODS", "INSTRUMENTED_METHODS_NO_STACK"),
    ("cached", "INSTRUMENTED_CACHED", "INSTRUMENTED_CACHED_NO_STACK"),
    ("mirror, strings", "MIRROR_STRINGS", "MIRROR_STRINGS_NO_STACK"),
    ("methods", "MIRROR_METHODS", "MIRROR_METHODS_NO_STACK"),
    ("cached", "MIRROR_CACHED", "MIRROR_CACHED_NO_STACK"),
    ("per thread", "REUSED_CACHED", "REUSED_CACHED_NO_STACK"),
];

impl Measured {
    /// Returns the cost of a one-byte write, if the JDK has the case.
    fn cost(&self, case: &str) -> Option<&Cost> {
        self.cost_of(case, SIZES[0])
    }

    fn cost_of(&self, case: &str, size: usize) -> Option<&Cost> {
        self.costs.get(&(case.to_owned(), size))
    }

    fn ns(&self, case: &str) -> f64 {
        self.cost(case).map_or(f64::NAN, Cost::mean_ns)
    }
}

/// Difference between two costs, with the error of the time.
struct Difference {
    ns: f64,
    error_ns: f64,
    bytes: f64,
}

impl Difference {
    fn of(from: &Cost, to: &Cost) -> Self {
        Difference {
            ns: to.mean_ns() - from.mean_ns(),
            error_ns: from.error_ns().hypot(to.error_ns()),
            bytes: to.bytes()[0] - from.bytes()[0],
        }
    }
}

/// Reports the cases and the costs of the steps between them.
pub fn report(measured: &[Measured], setting: &str, report: &mut Report) -> io::Result<()> {
    report.add(cases(measured, setting))?;
    report.add(steps(measured))?;
    let with_stack = PLOTTED.map(|(label, case, _)| (label, case));
    bars("jfr_events", "ns of the write of a byte", with_stack, measured, report)?;
    let without = PLOTTED.map(|(label, _, case)| (label, case));
    bars("jfr_events_no_stack", "The same without stacks", without, measured, report)
}

fn columns(first: &[&str], measured: &[Measured], of_each: &[&str]) -> Vec<String> {
    let each = |Measured { java, .. }: &Measured| {
        of_each.iter().map(|name| format!("{java}: {name}")).collect::<Vec<_>>()
    };
    first.iter().map(|name| (*name).to_owned()).chain(measured.iter().flat_map(each)).collect()
}

fn table(name: &'static str, title: &'static str, columns: &[String]) -> Table {
    Table::new(name, title, &columns.iter().map(String::as_str).collect::<Vec<_>>())
}

fn cases(measured: &[Measured], setting: &str) -> Table {
    let first = ["case", "the article: µs", "the article: bytes"];
    let columns = columns(&first, measured, &["µs", "± µs", "bytes"]);
    let title = "The write of one byte to a socket, by who records it";
    let mut table = table("jfr_cases", title, &columns);
    for (case, name, article_us, article_bytes) in CASES {
        let mut cells = [name, article_us, article_bytes].map(str::to_owned).to_vec();
        for measured in measured {
            let cost = measured.cost(case);
            let cell = |text: fn(&Cost) -> String| cost.map_or(String::new(), text);
            cells.push(cell(|cost| format!("{:.3}", cost.mean_ns() / 1e3)));
            cells.push(cell(|cost| format!("{:.3}", cost.error_ns() / 1e3)));
            cells.push(cell(bytes));
        }
        table.row(cells);
    }
    table.note(setting.to_owned());
    measured.iter().for_each(|measured| table.note(recorded(measured)));
    table
}

/// Formats the bytes of the JVMs, with the range if they differ. C2 removes an event object in some
/// JVMs only.
fn bytes(cost: &Cost) -> String {
    let [median, min, max] = cost.bytes();
    match max - min < 1.0 {
        true => format!("{median:.2}"),
        false => format!("{median:.2} ({min:.2} to {max:.2})"),
    }
}

/// Describes the share of the writes that is in the recordings.
fn recorded(measured: &Measured) -> String {
    let share = |cost: &Cost| cost.events as f64 / cost.writes as f64 * 100.0;
    let of_case = |case: &str| match measured.cost(case) {
        Some(cost) => format!("{} of {} ({:.2}%)", cost.events, cost.writes, share(cost)),
        None => "none, as this JDK has no throttle".to_owned(),
    };
    let is_on = |case: &str| {
        !["OFF", "BELOW", "THROTTLE_100"].iter().any(|end| case.ends_with(end))
            || case == THROTTLE_OFF
    };
    let shares = CASES
        .iter()
        .filter(|(case, ..)| is_on(case))
        .filter_map(|(case, ..)| measured.cost(case).map(share));
    format!(
        "{}: of the writes, recordings have with the JDK's event {}, with throttle=off {}, with throttle=100/s {}; in \
         every case that is on and has no such limit at least {:.2}%. A share above 100% has events of JMH's own \
         connection.",
        measured.java,
        of_case(ON),
        of_case(THROTTLE_OFF),
        of_case("JDK_ON_THROTTLE_100"),
        shares.fold(f64::INFINITY, f64::min),
    )
}

const THROTTLE_OFF: &str = "JDK_ON_THROTTLE_OFF";

fn steps(measured: &[Measured]) -> Table {
    let columns = columns(&["step"], measured, &["ns", "± ns", "bytes"]);
    let title = "What each step adds to the write, or saves";
    let mut table = table("jfr_steps", title, &columns);
    for (name, from, to) in STEPS {
        let mut cells = vec![name.to_owned()];
        for measured in measured {
            let costs = measured.cost(from).zip(measured.cost(to));
            let step = costs.map(|(from, to)| Difference::of(from, to));
            let cell = |text: fn(&Difference) -> String| step.as_ref().map_or(String::new(), text);
            cells.push(cell(|step| format!("{:+.0}", step.ns)));
            cells.push(cell(|step| format!("{:.0}", step.error_ns)));
            cells.push(cell(|step| format!("{:+.2}", step.bytes)));
        }
        table.row(cells);
    }
    table.note(
        "Differences of the table above. A step smaller than its error is not measured.".to_owned(),
    );
    for measured in measured {
        table.note(unrecorded(measured));
        for (name, prefix) in [("instrumented", "INSTRUMENTED"), ("mirror", "MIRROR")] {
            table.note(shares(measured, name, prefix));
        }
    }
    table
}

/// Lists events that cost time although they are off or below their threshold.
fn unrecorded(measured: &Measured) -> String {
    let is_unrecorded = |case: &str| case.ends_with("_EVENT_OFF") || case.ends_with("_BELOW");
    let (mut costly, mut error_max) = (Vec::new(), 0.0_f64);
    for (name, _, case) in STEPS.iter().filter(|(.., case)| is_unrecorded(case)) {
        let Some(costs) = measured.cost(OFF).zip(measured.cost(case)) else { continue };
        let step = Difference::of(costs.0, costs.1);
        error_max = error_max.max(step.error_ns);
        if step.ns > step.error_ns {
            costly.push(format!("{name} {:.0} ns", step.ns));
        }
    }
    let costly = match costly.is_empty() {
        true => "none".to_owned(),
        false => costly.join(", "),
    };
    format!(
        "{}: events that are off or below their threshold and cost more than the error, which is up to {error_max:.0} \
         ns: {costly}.",
        measured.java
    )
}

/// Describes how the time of an event is divided between its data, its stack and the rest.
fn shares(measured: &Measured, name: &str, prefix: &str) -> String {
    let ns = |case: &str| measured.ns(&format!("{prefix}_{case}"));
    let costs = measured.cost(OFF).zip(measured.cost(&format!("{prefix}_STRINGS")));
    let Some(Difference { ns: whole, error_ns, .. }) = costs.map(|c| Difference::of(c.0, c.1))
    else {
        return String::new();
    };
    if whole < error_ns {
        return format!("{}, {name}: an event adds less than the error.", measured.java);
    }
    let data = ns("STRINGS_NO_STACK") - ns("CACHED_NO_STACK");
    let mechanism = ns("CACHED_NO_STACK") - measured.ns(OFF);
    let stack = whole - data - mechanism;
    let percent = |part: f64| format!("{part:.0} ns ({:.0}%)", part / whole * 100.0);
    format!(
        "{}, {name}: of the {whole:.0} ns that an event with string work adds, host and address take {}, the stack {}, \
         and the event with its clock {}.",
        measured.java,
        percent(data),
        percent(stack),
        percent(mechanism),
    )
}

/// Draws the cases and the article's results, and an empty group that leaves room for the legend.
fn bars<const N: usize>(
    name: &str,
    title: &str,
    cases: [(&str, &str); N],
    measured: &[Measured],
    report: &mut Report,
) -> io::Result<()> {
    let labels: Vec<String> =
        cases.iter().map(|(label, _)| (*label).to_owned()).chain([String::new()]).collect();
    let values = |of: &dyn Fn(usize, &str) -> f64| {
        let values = cases.iter().enumerate().map(|(index, (_, case))| of(index, case));
        values.chain([f64::NAN]).collect()
    };
    let mut bars: Vec<Bars> = Vec::new();
    for measured in measured {
        let values = values(&|_, case| measured.ns(case));
        bars.push(Bars { label: measured.java.clone().leak(), values });
    }
    let values = values(&|index, _| article_ns(PLOTTED[index].1));
    bars.push(Bars { label: "the article", values });
    report.bars(name, title, &labels, &bars)
}

/// Returns the article's result for a case; NaN if there is none.
fn article_ns(case: &str) -> f64 {
    let row = CASES.iter().find(|(name, ..)| *name == case);
    let us = row.and_then(|(_, _, us, _)| us.parse::<f64>().ok());
    us.map_or(f64::NAN, |us| us * 1e3)
}

/// Reports the cost that the JDK's event adds to writes of several sizes.
pub fn report_sizes(measured: &[Measured], setting: &str, report: &mut Report) -> io::Result<()> {
    let of_each = ["off µs", "on µs", "added ns", "± ns", "share"];
    let columns = columns(&["bytes"], measured, &of_each);
    let title = "The JDK's event around writes of several sizes";
    let mut table = table("jfr_sizes", title, &columns);
    for size in SIZES {
        let mut cells = vec![size.to_string()];
        for measured in measured {
            let [off, on] =
                [OFF, ON].map(|case| measured.cost_of(case, size).cloned().unwrap_or_default());
            let added = Difference::of(&off, &on);
            cells.push(format!("{:.3}", off.mean_ns() / 1e3));
            cells.push(format!("{:.3}", on.mean_ns() / 1e3));
            cells.push(format!("{:.0}", added.ns));
            cells.push(format!("{:.0}", added.error_ns));
            cells.push(format!("{:.1}%", added.ns / off.mean_ns() * 100.0));
        }
        table.row(cells);
    }
    table.note(setting.to_owned());
    report.add(table)?;
    let axes = Axes {
        title: "The JDK's event around a write to a socket",
        x: "bytes of the write",
        y: "% of its time",
        x_label: &|x| format!("{:.0}", x.exp2()),
    };
    let series: Vec<Series> = measured.iter().map(share_by_size).collect();
    report.plot("jfr_sizes", &axes, &series)
}

fn share_by_size(measured: &Measured) -> Series {
    let point = |size: usize| {
        let ns = |case| measured.cost_of(case, size).map_or(f64::NAN, Cost::mean_ns);
        ((size as f64).log2(), (ns(ON) / ns(OFF) - 1.0) * 100.0)
    };
    Series { label: measured.java.clone(), points: SIZES.map(point).to_vec() }
}
