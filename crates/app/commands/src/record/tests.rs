use super::*;
use clap::Parser;

/// The command line of this command only.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    record: RecordArgs,
}

fn parse(line: &str) -> Result<RecordArgs, String> {
    let words = ["record"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).map(|line| line.record).map_err(|error| error.to_string())
}

fn task(line: &str) -> Result<&'static str, String> {
    Ok(match parse(line)?.task()? {
        Task::Settings => "settings",
        Task::Live(Interval(duration)) if duration.as_secs() == SECONDS_DEFAULT => "30s",
        Task::Live(_) => "live",
        Task::Dump => "dump",
        Task::Crash(_) => "crash",
    })
}

#[test]
fn the_arguments_say_what_to_do() {
    for (line, expected) in [
        ("", "30s"),
        ("-d 2s", "live"),
        ("-o a.jfr", "30s"),
        ("--dump --last 5m", "dump"),
        ("--from-crash data --last 5m -o a.txt", "crash"),
        ("--from-crash data --list", "crash"),
        ("--settings", "settings"),
        ("--enable FileRead --disable all --threshold none --rate 5/s", "settings"),
        ("--enable all -d 1m", "live"),
        ("--url http://127.0.0.1:1 --token x --dump", "dump"),
    ] {
        assert_eq!(task(line), Ok(expected), "{line}");
    }
}

#[test]
fn arguments_that_contradict_each_other_are_errors() {
    for (line, part) in [
        ("--dump -d 1s", "cannot be used with"),
        ("--dump --from-crash x", "cannot be used with"),
        ("--from-crash x --enable all", "cannot be used with"),
        ("--from-crash x -c y", "cannot be used with"),
        ("--threshold 1ms", "--enable <EVENT>"),
        ("--list", "--from-crash"),
        ("--last 5m", "--last needs --dump or --from-crash"),
        ("--settings -o a.txt", "-o needs -d or --dump"),
        ("--token x", "--url <URL>"),
        ("--enable FilRead", "did you mean `FileRead`?"),
        ("--enable all --rate 5", "use, for example, 100/s"),
        ("--enable all --threshold 5", "has no unit"),
        ("-d 0s", "must be greater than zero"),
        ("--dump --format yaml", "possible values: jfr, jsonl, text"),
    ] {
        let error = task(line).unwrap_err();
        assert!(error.contains(part), "{line}: {error}");
    }
}

#[test]
fn without_an_agent_the_message_says_what_to_do() {
    let Failure(status, message) = ClientError::NotRunning("/data".into()).into();
    let expected =
        "no agent is running with data_dir /data; start the agent, or use --from-crash /data";
    assert_eq!(status, FAILED);
    assert!(message.unwrap().starts_with(expected));
}
