//! The agent that the archive describes, and its configuration.

use super::SupportArgs;
use crate::client::Client;
use crate::exit::USAGE;
use crate::output::print_error;
use millstream_config as config;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Returns the configuration files in an agent's command line; `None` for the command line of
/// another command.
pub type FindFiles = fn(&[OsString]) -> Option<Vec<PathBuf>>;

/// The agent, its process and its configuration.
pub struct Target {
    /// Client of the agent; `None` if the data folder is not known.
    pub client: Option<Client>,
    /// Process that responds on the control socket.
    pub pid: Option<i32>,
    /// Files of the configuration (empty for the default file), or the reason why they are not
    /// known.
    pub configuration: Result<Vec<PathBuf>, String>,
    /// Folder to which the agent's relative paths refer, if it can be read.
    pub folder: Option<PathBuf>,
    /// Variables of the agent, or the reason why they cannot be read.
    variables: Result<BTreeMap<String, String>, String>,
}

impl Target {
    /// Finds the agent. If this fails, prints the error and returns the exit status.
    pub fn find(args: &SupportArgs, find_files: FindFiles) -> Result<Target, u8> {
        let given = &args.files.config;
        let at_place = args.place.client()?;
        let names_files = !given.is_empty() || at_place.is_none();
        let faults = if names_files { config::unreadable(given) } else { Vec::new() };
        if !faults.is_empty() {
            faults.iter().for_each(print_error);
            return Err(USAGE);
        }
        let of_configuration = || {
            let data_dir = config::data_dir(given, &|name| std::env::var(name).ok());
            data_dir.map(Client::of_data_dir)
        };
        let client = at_place.or_else(of_configuration);
        let pid = client.as_ref().and_then(Client::pid).map(|pid| pid.as_raw_pid());
        let folder = pid.and_then(|pid| fs::read_link(of_process(pid, "cwd")).ok());
        let of_agent = pid.map(|pid| configuration(pid, folder.as_deref(), find_files));
        let configuration =
            match of_agent {
                _ if !given.is_empty() => Ok(given.clone()),
                Some(Err(_)) | None if names_files => Ok(Vec::new()),
                Some(of_agent) => of_agent,
                None => Err("found no running agent that reports its configuration files; add -c"
                    .to_owned()),
            };
        let variables = pid.map_or(Ok(BTreeMap::new()), variables);
        Ok(Target { client, pid, configuration, folder, variables })
    }

    /// Returns the value of a variable in the agent, or in this process if the agent's environment
    /// is not known.
    pub fn variable(&self, name: &str) -> Option<String> {
        match &self.variables {
            Ok(variables) if self.pid.is_some() => variables.get(name).cloned(),
            _ => std::env::var(name).ok(),
        }
    }

    /// Returns the reason why the variables of the agent are not known.
    pub fn without_variables(&self) -> Option<&str> {
        self.variables.as_ref().err().map(String::as_str)
    }

    /// Converts a path of the agent to a path for this process.
    pub fn path(&self, path: PathBuf) -> PathBuf {
        self.folder.as_ref().map_or_else(|| path.clone(), |folder| folder.join(&path))
    }
}

fn of_process(pid: i32, name: &str) -> PathBuf {
    Path::new("/proc").join(pid.to_string()).join(name)
}

/// Returns the zero-terminated strings in a `/proc` file of a process.
fn texts(pid: i32, name: &str) -> Result<Vec<OsString>, String> {
    let path = of_process(pid, name);
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let texts = bytes.split(|byte| *byte == 0).filter(|text| !text.is_empty());
    Ok(texts.map(|text| OsString::from_vec(text.to_vec())).collect())
}

/// Returns the files that the command line of an agent names, or its default file.
fn configuration(
    pid: i32,
    folder: Option<&Path>,
    find_files: FindFiles,
) -> Result<Vec<PathBuf>, String> {
    let arguments = texts(pid, "cmdline")?;
    let files = find_files(&arguments)
        .ok_or_else(|| format!("process {pid} is not `millstream run`; add -c"))?;
    let is_absolute = |files: &[PathBuf]| files.iter().all(|file| file.is_absolute());
    let Some(folder) = folder else {
        let is_known = !files.is_empty() && is_absolute(&files);
        let unknown = format!("cannot read the working folder of process {pid}; add -c");
        return if is_known { Ok(files) } else { Err(unknown) };
    };
    if !files.is_empty() {
        return Ok(files.iter().map(|file| folder.join(file)).collect());
    }
    let mut defaults = config::DEFAULT_FILES.iter().map(|file| folder.join(file));
    let found = defaults.find(|file| file.exists());
    found
        .map(|file| vec![file])
        .ok_or_else(|| "the agent's configuration files no longer exist; add -c".to_owned())
}

/// Returns the variables that a process was started with.
fn variables(pid: i32) -> Result<BTreeMap<String, String>, String> {
    let pair = |text: OsString| {
        let text = text.into_string().ok()?;
        text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    Ok(texts(pid, "environ")?.into_iter().filter_map(pair).collect())
}
