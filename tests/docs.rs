//! Checks the documentation: samples validate, every option is documented, every example runs.
//!
//! A page is a Markdown file. The info string of a code block says what the test does with it:
//!
//! | fence | meaning |
//! |---|---|
//! | `yaml file=NAME` | writes a configuration to NAME; it must be valid |
//! | `java file=NAME` | writes a program to NAME; a later block compiles and runs it |
//! | `sh run` | runs the block with `bash -eu`; it must succeed |
//! | `sh norun REASON` | does not run it, for this reason |
//! | `text` after `sh run` | compares it with the standard output: a line `...` matches any lines, `…` any text within a line |
//!
//! `STATSD_PORT` is a free UDP port, `SCRAPE_PORT` a free TCP port, `SYSLOG_PORT` a port that is
//! free for both. `PROMETHEUS` is the address of a Prometheus that accepts remote write,
//! `MILLSTREAM_CLIENT` the jar of the Java client, `MILLSTREAM_OPERATORS` and `MILLSTREAM_TESTKIT`
//! those of the operators and their test kit. `KAFKA` is the address of a broker with the topics in
//! the page's configurations, each with one partition or as a comment says: `topics: [lines] # 4
//! partitions`. `REDIS` is the address of a Redis server, and `JARS` the folder with the jars of
//! its client. `JOURNAL` is a folder with the journal of [`journal`], which exists if a
//! configuration on the page has this variable. `ELASTICSEARCH` is the address of a search server;
//! a page with it runs once with OpenSearch and once with Elasticsearch. `MILLSTREAM_JAVAAGENT` is
//! the jar of the Java agent and `MILLSTREAM_EXAMPLES` the folder of the Java examples; a page that
//! uses the former runs once with each JDK on the host, with that JDK first on the PATH.
//!
//! The blocks of a page run in order in one temporary folder. A shell, YAML or Java block without
//! such an info string is an error, so that every example is checked.

mod journal;
mod promises;

use crate::support::{self, java};
use millstream_components::registry::{Row, rows};
use millstream_testkit_servers::kafka::Kafka;
use millstream_testkit_servers::ports::free_port;
use millstream_testkit_servers::prometheus::Prometheus;
use millstream_testkit_servers::redis::Redis;
use millstream_testkit_servers::search::SearchServer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

/// Time limit of a block in seconds.
const BLOCK_SECONDS_MAX: &str = "180";

/// Number of lines in a measurement. It is large enough for a difference between two configurations
/// to exceed the variation of a JVM's start.
const LINES_MEASURED: &str = "800000";

/// Pages whose examples are checked by another test, with the path of that test.
const CHECKED_ELSEWHERE: &[(&str, &str)] =
    &[("docs/configuration.md", "crates/app/config/src/tests/docs.rs")];

/// Path of the Java client's jar from the root.
const CLIENT_JAR: &str = "java/client/target/millstream-client.jar";

/// Path of the Java agent's jar from the root.
const AGENT_JAR: &str = "java/javaagent/target/millstream-javaagent.jar";

/// Path of the Java examples from the root.
const EXAMPLES: &str = "java/examples/src/main/java/dev/millstream/examples";

/// Paths of the operators' jar and its test kit.
const OPERATORS_JAR: &str = "java/operators/target/millstream-operators.jar";
const TESTKIT_JAR: &str = "java/operator-testkit/target/millstream-operator-testkit.jar";

/// Paths of the examples of operators and collectors, and of the jars of the client for Redis.
const EXAMPLES_JAR: &str = "java/examples/target/millstream-operator-examples.jar";
const JARS: &str = "java/examples/target/jars";

/// Name of the folder with the journal, in the folder of the page.
const JOURNAL: &str = "journal";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the folder of a component from the root.
fn folder(row: &Row) -> String {
    format!("crates/components/src/{}/{}", row.kind.section(), row.name)
}

fn fail_if_any(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n\n{}", faults.len(), faults.join("\n\n"));
}

// Components.

#[test]
fn every_sample_is_valid() {
    let faults = rows().filter_map(|row| {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sample.yaml"), row.sample).unwrap();
        if row.name == "jvm" {
            write_operators(dir.path());
        }
        let valid = validate(dir.path(), "sample.yaml");
        valid.err().map(|message| format!("{}/sample.yaml: {message}", folder(row)))
    });
    fail_if_any(faults.collect());
}

/// Writes the scripts and the jars that the samples of the `jvm` source and transform name.
fn write_operators(dir: &Path) {
    java::built();
    fs::create_dir(dir.join("rules")).unwrap();
    fs::write(dir.join("rules/slow.av"), "duration > 500").unwrap();
    fs::write(dir.join("rules/team.groovy"), "row.team = 'web'").unwrap();
    fs::write(dir.join("redis.groovy"), "events.add('a key')").unwrap();
    fs::copy(root().join(EXAMPLES_JAR), dir.join("operators.jar")).unwrap();
    fs::copy(root().join(JARS).join("jedis.jar"), dir.join("jedis.jar")).unwrap();
}

#[test]
fn every_option_is_on_the_page_and_in_the_sample() {
    let mut faults = Vec::new();
    for row in rows() {
        let mut options = BTreeSet::new();
        let schema = (row.schema)().to_value();
        collect_options(&schema, &schema, "", &mut options);
        for option in options {
            if !has_table_row(row.readme, &option) {
                faults.push(format!(
                    "{}/README.md: no row for `{option}` in the table of options",
                    folder(row)
                ));
            }
            if !sets(row.sample, option.rsplit('.').next().unwrap_or_default()) {
                faults.push(format!("{}/sample.yaml: does not show `{option}`", folder(row)));
            }
        }
    }
    fail_if_any(faults);
}

/// Collects the keys of a schema; keys of nested objects have the path of the object:
/// `encoding.codec`.
fn collect_options(schema: &Value, whole: &Value, prefix: &str, options: &mut BTreeSet<String>) {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = whole.pointer(reference.trim_start_matches('#'));
        return collect_options(
            target.expect("a reference within the schema"),
            whole,
            prefix,
            options,
        );
    }
    for name in ["anyOf", "oneOf", "allOf"] {
        let branches = schema[name].as_array().into_iter().flatten();
        branches.for_each(|branch| collect_options(branch, whole, prefix, options));
    }
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{prefix}{key}");
        let before = options.len();
        collect_options(value, whole, &format!("{path}."), options);
        // An object is documented by its keys.
        if options.len() == before {
            options.insert(path);
        }
    }
}

/// Returns whether the first cell of some table row names the option.
fn has_table_row(page: &str, option: &str) -> bool {
    let first_cell = |line: &str| line.strip_prefix('|')?.split('|').next().map(str::to_owned);
    page.lines().filter_map(first_cell).any(|cell| cell.contains(&format!("`{option}`")))
}

/// Returns whether the configuration sets the key outside comments.
fn sets(sample: &str, key: &str) -> bool {
    let code =
        |line: &'_ str| line.split(" #").next().filter(|l| !l.starts_with('#')).map(str::to_owned);
    let boundary = |text: &str| text.chars().next_back().is_none_or(|c| " {".contains(c));
    sample
        .lines()
        .filter_map(code)
        .any(|line| line.match_indices(&format!("{key}:")).any(|(at, _)| boundary(&line[..at])))
}

#[test]
fn every_component_is_in_the_table_of_components() {
    let page = fs::read_to_string(root().join("docs/components.md")).unwrap();
    let missing = rows()
        .map(|row| format!("(../{}/README.md)", folder(row)))
        .filter(|link| !page.contains(link));
    fail_if_any(missing.map(|link| format!("docs/components.md: no link to {link}")).collect());
}

// Pages.

/// Pages outside `docs` and the folders of the components.
const OTHER_PAGES: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "RELEASING.md",
    "SECURITY.md",
    "bench/jfr-experiment.md",
];

/// Lists the pages as paths from the root.
fn pages() -> Vec<String> {
    let mut pages: Vec<String> = OTHER_PAGES.iter().copied().map(String::from).collect();
    collect_pages(&root().join("docs"), &mut pages);
    pages.extend(rows().map(|row| format!("{}/README.md", folder(row))));
    pages
}

fn collect_pages(folder: &Path, pages: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path.strip_prefix(root()).unwrap().display().to_string());
        }
    }
    pages.sort();
}

#[test]
fn every_internal_link_resolves() {
    let mut faults = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for link in
            text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
        {
            if let Err(why) = follow(&root().join(&page), &text, link) {
                faults.push(format!("{page}: link {link}: {why}"));
            }
        }
    }
    fail_if_any(faults);
}

fn follow(page: &Path, text: &str, link: &str) -> Result<(), String> {
    if link.contains("://") {
        return Ok(());
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = page.parent().unwrap_or(page).join(path);
    if !path.is_empty() && !target.exists() {
        return Err("there is no such file".into());
    }
    let text = if path.is_empty() {
        text.to_owned()
    } else {
        fs::read_to_string(&target).unwrap_or_default()
    };
    let headings = text.lines().filter(|line| line.starts_with('#')).map(anchor_of);
    match anchor.is_empty() || headings.into_iter().any(|heading| heading == anchor) {
        true => Ok(()),
        false => Err("there is no such heading".into()),
    }
}

/// Returns the anchor of a heading on the rendered page.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// A fenced block.
struct Block {
    /// Line number of its fence.
    line: usize,
    /// The text after the opening fence.
    info: String,
    text: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let indent = line.len() - line.trim_start().len();
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let text =
            inside.map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
        blocks.push(Block { line: number + 1, info: info.trim().to_owned(), text });
    }
    blocks
}

/// The action for a block.
enum Task<'a> {
    Write(&'a str),
    WriteConfiguration(&'a str),
    Run,
    Nothing,
}

impl Block {
    fn task(&self) -> Result<Task<'_>, String> {
        let (language, mark) = self.info.split_once(' ').unwrap_or((&self.info, ""));
        match (language, mark.split_once(' ').unwrap_or((mark, ""))) {
            ("sh", ("run", "")) => Ok(Task::Run),
            ("sh", ("norun", reason)) if !reason.is_empty() => Ok(Task::Nothing),
            ("sh", _) => Err("write `sh run`, or `sh norun` and the reason".into()),
            ("yaml", _) => file_of(language, mark).map(Task::WriteConfiguration),
            ("java", _) => file_of(language, mark).map(Task::Write),
            ("bash" | "shell" | "console" | "yml" | "", _) => {
                Err("write `sh`, `yaml` or another language".into())
            }
            _ => Ok(Task::Nothing),
        }
    }
}

/// Returns the file name in the fence of a block of this language.
fn file_of<'a>(language: &str, mark: &'a str) -> Result<&'a str, String> {
    let name =
        mark.strip_prefix("file=").filter(|name| !name.is_empty() && !name.contains(['/', ' ']));
    name.ok_or_else(|| format!("write `{language} file=NAME`, where NAME is a plain file name"))
}

/// Number of shares into which the pages are divided. The examples of different shares run side by
/// side.
const SHARES: usize = 16;

macro_rules! every_example_runs_and_prints_what_the_page_says {
    ($($name:ident $share:literal)*) => {
        $(#[test] fn $name() { try_pages($share); })*

        #[test]
        fn every_share_of_the_pages_is_tried() {
            assert_eq!([$($share),*].as_slice(), (0..SHARES).collect::<Vec<_>>());
        }
    };
}

every_example_runs_and_prints_what_the_page_says! {
    examples_run_share_0 0
    examples_run_share_1 1
    examples_run_share_2 2
    examples_run_share_3 3
    examples_run_share_4 4
    examples_run_share_5 5
    examples_run_share_6 6
    examples_run_share_7 7
    examples_run_share_8 8
    examples_run_share_9 9
    examples_run_share_10 10
    examples_run_share_11 11
    examples_run_share_12 12
    examples_run_share_13 13
    examples_run_share_14 14
    examples_run_share_15 15
}

/// Runs the examples of every page of a share.
fn try_pages(share: usize) {
    let pages = pages().into_iter().filter(|page| !is_checked_elsewhere(page));
    let faults = pages.skip(share).step_by(SHARES).flat_map(|page| {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        eprintln!("{page}");
        let faults = try_page(&text).into_iter();
        faults.map(move |(line, fault)| format!("{page}:{line}: {fault}")).collect::<Vec<_>>()
    });
    fail_if_any(faults.collect());
}

fn is_checked_elsewhere(page: &str) -> bool {
    CHECKED_ELSEWHERE.iter().any(|(of, test)| {
        let name = page.rsplit('/').next().unwrap_or(page);
        *of == page && fs::read_to_string(root().join(test)).is_ok_and(|test| test.contains(name))
    })
}

/// Creates the topics in the configurations of a page.
fn make_topics(page: &str) {
    fn topic(line: &str) -> Option<(&str, i32)> {
        let Some(read) = line.strip_prefix("topics: [") else {
            return Some((line.strip_prefix("topic: ")?, 1));
        };
        let (topic, behind) = read.split_once(']')?;
        let partitions = behind.trim().strip_prefix("# ").and_then(|of| of.split_once(' '));
        Some((topic, partitions.map_or(Some(1), |(count, _)| count.parse().ok())?))
    }
    let topics: BTreeMap<&str, i32> = page.lines().filter_map(|line| topic(line.trim())).collect();
    for (topic, partitions) in topics {
        Kafka::shared().create_topic(topic, partitions);
    }
}

/// What differs between the runs of a page.
struct PageRun<'a> {
    /// Address of the search server.
    search: &'a str,
    /// Home of the JDK; `None` for the JDK on the PATH.
    jdk: Option<&'a Path>,
}

/// Runs a page. A page that needs a search server runs with OpenSearch and with Elasticsearch; a
/// page about the user's JVMs runs with each JDK.
fn try_page(page: &str) -> Option<(usize, String)> {
    if page.contains("$MILLSTREAM_JAVAAGENT") {
        let homes = java::homes();
        return homes.iter().find_map(|home| {
            let (line, fault) = try_blocks(page, &PageRun { search: "", jdk: Some(home) })?;
            Some((line, format!("with {}: {fault}", home.display())))
        });
    }
    if !page.contains("${ELASTICSEARCH") {
        return try_blocks(page, &PageRun { search: "", jdk: None });
    }
    let elasticsearch = SearchServer::elasticsearch();
    let servers = [SearchServer::shared(), &elasticsearch];
    servers.iter().enumerate().find_map(|(number, server)| {
        // Topics and groups keep their state from the run before.
        let page = page.replace("page-", &format!("page{number}-"));
        let page = page.replace("group: ", &format!("group: run{number}-"));
        try_blocks(&page, &PageRun { search: &server.uri(), jdk: None })
    })
}

/// Runs the blocks of a page in order, up to the first failure, as later blocks may depend on
/// earlier ones.
fn try_blocks(page: &str, page_run: &PageRun<'_>) -> Option<(usize, String)> {
    let dir = tempfile::tempdir().unwrap();
    if page.contains("${KAFKA") {
        make_topics(page);
    }
    if page.contains("$MILLSTREAM_") || page.contains("type: jvm") {
        java::built();
    }
    if page.contains("${JOURNAL") {
        journal::write(&dir.path().join(JOURNAL));
    }
    let blocks = blocks(page);
    let port = free_port();
    for (index, block) in blocks.iter().enumerate() {
        let begun = Instant::now();
        let output = blocks.get(index + 1).filter(|next| next.info == "text");
        let result = block.task().and_then(|task| match task {
            Task::Nothing => Ok(()),
            Task::Write(name) => {
                fs::write(dir.path().join(name), &block.text).unwrap();
                Ok(())
            }
            Task::WriteConfiguration(name) => {
                fs::write(dir.path().join(name), with_globals(&block.text)).unwrap();
                validate(dir.path(), name)
            }
            Task::Run => run(dir.path(), &block.text, (port, page_run)).and_then(|printed| {
                compare(output, &printed.output)
                    .map_err(|fault| format!("{fault}\n--- errors\n{}", printed.errors))
            }),
        });
        eprintln!("line {}: {:.1?}", block.line, begun.elapsed());
        if let Err(fault) = result {
            return Some((block.line, fault));
        }
    }
    None
}

/// Adds global options to an example that omits them, so that the agent does not conflict with
/// another agent on this host. The options are appended, so that the line numbers in the example do
/// not change.
fn with_globals(example: &str) -> String {
    let mut text = example.to_owned();
    for (key, value) in [("api", "{ listen: \"127.0.0.1:0\" }"), ("data_dir", "./state")] {
        if !example.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            text += &format!("{key}: {value}\n");
        }
    }
    text
}

fn compare(expected: Option<&Block>, printed: &str) -> Result<(), String> {
    let Some(expected) = expected else { return Ok(()) };
    let (wanted, lines): (Vec<&str>, Vec<&str>) =
        (expected.text.lines().collect(), printed.lines().collect());
    match lines_match(&wanted, &lines) {
        true => Ok(()),
        false => Err(format!(
            "prints something else\n--- the page\n{}--- printed\n{printed}",
            expected.text
        )),
    }
}

fn lines_match(wanted: &[&str], lines: &[&str]) -> bool {
    match wanted {
        [] => lines.is_empty(),
        ["...", rest @ ..] => (0..=lines.len()).any(|skipped| lines_match(rest, &lines[skipped..])),
        [first, rest @ ..] => lines
            .split_first()
            .is_some_and(|(line, lines)| line_matches(first, line) && lines_match(rest, lines)),
    }
}

fn line_matches(wanted: &str, line: &str) -> bool {
    let parts: Vec<&str> = wanted.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else { return wanted == line };
    let Some(mut rest) = line.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) else {
        return false;
    };
    middle.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

// Programs.

fn validate(dir: &Path, name: &str) -> Result<(), String> {
    let output = Command::new(support::millstream())
        .args(["validate", "-c", name])
        .env("JARS", root().join(JARS))
        .current_dir(dir)
        .output()
        .unwrap();
    let faults = String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("the configuration is not valid:\n{faults}"))
    }
}

/// What a block has printed.
struct Printed {
    output: String,
    errors: String,
}

/// Runs a script with the program first on the PATH; returns what it prints.
fn run(dir: &Path, script: &str, (port, page_run): (u16, &PageRun<'_>)) -> Result<Printed, String> {
    let program = support::millstream();
    let jdk = page_run.jdk.map(|home| format!("{}/bin:", home.display())).unwrap_or_default();
    let folder = program.parent().unwrap().display();
    let path = format!("{folder}:{jdk}/usr/local/bin:/usr/bin:/bin");
    // Use files, not pipes: a process that the script leaves running must not block the test.
    let logs = tempfile::tempdir().unwrap();
    let (stdout, stderr) = (logs.path().join("stdout"), logs.path().join("stderr"));
    let status = Command::new("timeout")
        .args(["--kill-after=5", BLOCK_SECONDS_MAX, "bash", "-eu", "-c", script])
        .current_dir(dir)
        .env_clear()
        .envs([("PATH", path.as_str()), ("LC_ALL", "C.UTF-8")])
        .env("HOME", dir)
        .env("STATSD_PORT", port.to_string())
        .env("SYSLOG_PORT", port.to_string())
        .env("JOURNAL", dir.join(JOURNAL))
        .env("SCRAPE_PORT", free_port().to_string())
        .env("PROMETHEUS", Prometheus::shared().address())
        .env("MILLSTREAM_CLIENT", root().join(CLIENT_JAR))
        .env("MILLSTREAM_OPERATORS", root().join(OPERATORS_JAR))
        .env("MILLSTREAM_TESTKIT", root().join(TESTKIT_JAR))
        .env("KAFKA", Kafka::shared().bootstrap())
        .env("JARS", root().join(JARS))
        .env("REDIS", Redis::shared().address())
        .env("MILLSTREAM_JAVAAGENT", root().join(AGENT_JAR))
        .env("MILLSTREAM_EXAMPLES", root().join(EXAMPLES))
        .env("ELASTICSEARCH", page_run.search)
        .env("COUNT", LINES_MEASURED)
        .stdin(Stdio::null())
        .stdout(File::create(&stdout).unwrap())
        .stderr(File::create(&stderr).unwrap())
        .status();
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    let status =
        status.map_err(|error| format!("timeout (of coreutils) cannot be started: {error}"))?;
    let printed = Printed { output: read(&stdout), errors: read(&stderr) };
    match status.success() {
        true => Ok(printed),
        false => Err(format!(
            "{}\n--- printed\n{}--- errors\n{}",
            ended(status),
            printed.output,
            printed.errors
        )),
    }
}

fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(124 | 137) => format!("did not end within {BLOCK_SECONDS_MAX} s"),
        _ => format!("failed: {status}"),
    }
}

// The test itself.

#[test]
fn wildcards_match_any_text_and_any_lines() {
    let matches = |wanted: &str, printed: &str| {
        lines_match(&wanted.lines().collect::<Vec<_>>(), &printed.lines().collect::<Vec<_>>())
    };
    assert!(
        matches("a\n...\nz", "a\nz") && matches("a\n...\nz", "a\nb\nc\nz") && matches("...", "")
    );
    assert!(!matches("a\n...\nz", "a\nb") && !matches("a", "a\nb") && !matches("a\nb", "a"));
    assert!(line_matches("x…y…z", "x1y2z") && line_matches("…", "") && line_matches("a…", "a"));
    assert!(
        !line_matches("x…y…z", "x1z") && !line_matches("ab…ba", "aba") && !line_matches("…b", "ba")
    );
}

#[test]
fn blocks_without_an_info_string_are_errors() {
    let fault =
        |info: &str| Block { line: 1, info: info.into(), text: String::new() }.task().is_err();
    for info in [
        "sh",
        "sh norun",
        "sh runs",
        "bash run",
        "yaml",
        "yaml file=",
        "yaml file=a/b",
        "yaml norun why",
        "java",
        "",
    ] {
        assert!(fault(info), "{info}");
    }
    for info in [
        "sh run",
        "sh norun needs root",
        "yaml file=a.yaml",
        "java file=A.java",
        "text",
        "json",
        "rust",
    ] {
        assert!(!fault(info), "{info}");
    }
}
