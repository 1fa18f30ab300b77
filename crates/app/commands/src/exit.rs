//! Exit codes of the program.

/// Success.
pub const DONE: u8 = 0;
/// Something failed while running.
pub const FAILED: u8 = 1;
/// Invalid configuration or command line.
pub const USAGE: u8 = 2;
/// With `--until-eof`: everything is settled, but some events were dropped.
pub const DROPPED: u8 = 3;
