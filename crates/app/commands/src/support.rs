//! `millstream support`: writes an archive with the information that a maintainer needs, without
//! secrets.

mod bundle;
mod collect;
mod host;
mod target;

use crate::client::PlaceArgs;
use crate::exit::{DONE, FAILED, USAGE};
use crate::load::ConfigFiles;
use crate::output::{self, Output};
use bundle::Bundle;
use std::io;
use std::path::{Path, PathBuf};
pub use target::FindFiles;
use target::Target;

/// The help of `support`.
pub const HELP: &str = "Example:\n  millstream support -c millstream.yaml -o support.tar.gz\n  \
    millstream support --data-dir /var/lib/millstream -o support.tar.gz\n\n\
    The archive has the version, facts of the host, the configuration without secrets, the output of\n\
    validate, the answers of the agent's API, its flight recorder and the end of its log. It is only\n\
    readable by you. Look into it before you send it: it has names of files, hosts and components.\n\
    Configuration and variables come from the running agent, unless -c names other files. Without\n\
    a running agent it has less, and says what is missing.\n\n\
    Exit status: 0 written; 1 the archive cannot be written; 2 invalid usage, or a file of -c cannot\n\
    be read.";

/// The arguments of `support`.
#[derive(clap::Args)]
pub struct SupportArgs {
    #[command(flatten)]
    files: ConfigFiles,
    #[command(flatten)]
    place: PlaceArgs,
    /// The archive
    #[arg(short, long, value_name = "FILE", default_value = "support.tar.gz")]
    output: PathBuf,
}

/// Runs the command; returns the exit status. `find_files` reads the command line of the agent.
pub fn support(args: &SupportArgs, find_files: FindFiles) -> u8 {
    if args.output == Path::new("-") {
        output::print_error("support: standard output lists the contents; name a file with -o");
        return USAGE;
    }
    let target = match Target::find(args, find_files) {
        Ok(target) => target,
        Err(status) => return status,
    };
    let mut bundle = Bundle::default();
    collect::collect(&target, &mut bundle);
    match write(&args.output, &mut bundle) {
        Ok(bytes) => output::print(&bundle.listing(&args.output, bytes), DONE),
        Err(error) => {
            output::print_error(format_args!("{}: {error}", args.output.display()));
            FAILED
        }
    }
}

/// Writes the archive. The file gets its name only when it is complete.
fn write(path: &Path, bundle: &mut Bundle) -> io::Result<u64> {
    bundle.finish();
    let mut output = Output::private(path)?;
    bundle.write(&mut output)?;
    output.finish()
}
