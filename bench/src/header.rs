//! Scenario files: a configuration of the agent and the configurations of its peers, separated by
//! `---` lines. Comment lines `# key: value` at the top of each part are for the benchmark.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Keys at the top of a scenario, described in README.md.
const KEYS: &[&str] = &[
    "title",
    "limit",
    "input",
    "keeps",
    "output_ratio",
    "input_mb",
    "memory_mib",
    "files",
    "growing",
    "cores",
    "broker",
    "partitions",
    "measure",
    "appends_per_s",
    "lines_per_append",
    "line_bytes",
    "seconds",
    "part",
    "datagrams_per_s",
    "mib_per_s",
    "lines",
    "fill_bytes",
    "series",
    "burst",
    "gauges",
    "sorted",
    "segment",
    "counted",
    "encoding",
    "repetitions",
    "latency_ms",
    "request_mib",
    "target_lost",
    "target_memory_peers",
    "target_bytes_per_series",
    "target_ratio",
    "target_cpu_ms",
    "target_cpu_s",
    "target_cpu_percent",
    "target_p99_ms",
    "target_checkpoint_percent",
    "target_rss_mb",
    "target_records",
    "target_peers",
    "target_scenarios",
    "target_mb_per_s",
];
/// Keys at the top of a peer's part.
const PEER_KEYS: &[&str] = &["peer", "title", "run", "until", "env", "version", "counted"];

/// A configuration with its instructions for the benchmark.
pub struct Header {
    /// Name of the scenario, which is its file name without `.yaml`; or name of the peer.
    pub name: String,
    /// Path of the scenario file.
    pub path: PathBuf,
    /// Configuration of the program.
    pub config: String,
    /// Parts of the peers, in the order of the file.
    pub peers: Vec<Header>,
    values: HashMap<String, String>,
}

impl Header {
    /// Loads the scenarios of `folder`: those in `names`, or all if `names` is empty.
    pub fn read_folder(folder: &Path, names: &[String]) -> io::Result<Vec<Header>> {
        let mut headers = Vec::new();
        for entry in fs::read_dir(folder)? {
            headers.push(Header::read(entry?.path())?);
        }
        if let Some(name) =
            names.iter().find(|name| headers.iter().all(|header| header.name != **name))
        {
            return Err(io::Error::other(format!("{}: there is no {name}.yaml", folder.display())));
        }
        headers.retain(|header| names.is_empty() || names.contains(&header.name));
        headers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(headers)
    }

    fn read(path: PathBuf) -> io::Result<Header> {
        let text = fs::read_to_string(&path)?;
        let mut parts = text.split("\n---\n");
        let mut header = Header::part(&path, parts.next().unwrap_or_default(), KEYS)?;
        header.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        header.peers =
            parts.map(|part| Header::part(&path, part, PEER_KEYS)).collect::<io::Result<_>>()?;
        Ok(header)
    }

    fn part(path: &Path, config: &str, keys: &[&str]) -> io::Result<Header> {
        let pair = |line: &str| {
            let (key, value) = line.strip_prefix("# ")?.split_once(": ")?;
            Some((key.to_owned(), value.trim().to_owned()))
        };
        let values: HashMap<String, String> = config.lines().map_while(pair).collect();
        let name = values.get("peer").cloned().unwrap_or_default();
        let header = Header {
            name,
            path: path.to_owned(),
            config: format!("{config}\n"),
            peers: Vec::new(),
            values,
        };
        match header.values.keys().find(|key| !keys.contains(&key.as_str())) {
            Some(key) => Err(header.fault(key, "no such key")),
            None => Ok(header),
        }
    }

    /// Returns the value of `key`, or an empty string.
    pub fn text(&self, key: &str) -> &str {
        self.values.get(key).map_or("", String::as_str)
    }

    /// Returns the number under `key`, or `None` if the key is missing.
    pub fn number(&self, key: &str) -> io::Result<Option<f64>> {
        let parse = |value: &String| {
            value.parse().map_err(|_| self.fault(key, &format!("not a number: {value}")))
        };
        self.values.get(key).map(parse).transpose()
    }

    /// Returns the number under the required `key`.
    pub fn required(&self, key: &str) -> io::Result<f64> {
        self.number(key)?.ok_or_else(|| self.fault(key, "is missing"))
    }

    /// Returns the count under `key`, or `default`.
    pub fn count(&self, key: &str, default: usize) -> io::Result<usize> {
        Ok(self.number(key)?.map_or(default, |number| number as usize))
    }

    /// Returns the pairs under `key`, which have the syntax `name number, name number`.
    pub fn pairs(&self, key: &str) -> io::Result<Vec<(String, f64)>> {
        let pair = |pair: &str| {
            let parsed = pair
                .trim()
                .split_once(' ')
                .and_then(|(name, number)| Some((name.to_owned(), number.parse().ok()?)));
            parsed.ok_or_else(|| self.fault(key, &format!("not a name and a number: {pair}")))
        };
        self.text(key).split(',').filter(|pair| !pair.is_empty()).map(pair).collect()
    }

    fn fault(&self, key: &str, what: &str) -> io::Error {
        io::Error::other(format!("{}: `# {key}: `: {what}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_has_the_parts_of_its_peers() {
        let path = std::env::temp_dir()
            .join(format!("millstream-bench-header-{}.yaml", std::process::id()));
        fs::write(
            &path,
            "# title: t\n# target_peers: a 8, b 0.9\nsinks: {}\n---\n# peer: a\n# run: a -f x\nx=1\n",
        )
        .unwrap();
        let header = Header::read(path.clone()).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(
            header.pairs("target_peers").unwrap(),
            [("a".to_owned(), 8.0), ("b".to_owned(), 0.9)]
        );
        assert!(header.config.ends_with("sinks: {}\n"), "{}", header.config);
        assert_eq!((header.peers[0].name.as_str(), header.peers[0].text("run")), ("a", "a -f x"));
    }

    #[test]
    fn a_key_that_nobody_reads_is_refused() {
        assert!(Header::part(Path::new("x"), "# target_rattio: 1\n", KEYS).is_err());
    }
}
