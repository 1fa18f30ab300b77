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
pub const HELP: &str = "Example:\n  \
    millstream support -c millstream.yaml -o support.tar.gz\n  \
    millstream support --data-dir /var/lib/millstream -o support.tar.gz\n\n\
    The archive contains the version, facts about the host, the configuration without secrets, the\n\
    output of validate, the responses of the agent's API, its recording and the end of its log. Only\n\
    you can read the archive. Check it before you send it, because it contains names of files, hosts\n\
    and components. The configuration and the variables come from the running agent, unless -c names\n\
    other files. Without a running agent the archive contains less, and lists what is missing.\n\n\
    Exit status: 0 written; 1 the archive cannot be written; 2 invalid usage, or a file of -c cannot\n\
    be read.";

/// The arguments of `support`.
#[derive(clap::Args)]
pub struct SupportArgs {
    #[command(flatten)]
    files: ConfigFiles,
    #[command(flatten)]
    place: PlaceArgs,
    /// Path of the archive
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

/// Writes the archive. The file receives its final name only when it is complete.
fn write(path: &Path, bundle: &mut Bundle) -> io::Result<u64> {
    bundle.finish();
    let mut output = Output::private(path)?;
    bundle.write(&mut output)?;
    output.finish()
}
