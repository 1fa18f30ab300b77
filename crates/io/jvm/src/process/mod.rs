//! A JVM in a separate process. If the process exits for any reason, the agent restarts it and
//! repeats the calls that were running in it.
//!
//! ```text
//! jvm_process.rs the handle for a process: JvmProcess
//! supervisor.rs  starts the child, waits for its exit, restarts it
//! life.rs        one child from its start to its exit, and the connections to it
//! body.rs        a child's operating system process
//! slot.rs        an operator across all lives, and its calls: repetition, deadlines
//! collector.rs   a collector across all lives
//! inbox.rs       receives the collectors' chunks; outbox.rs is the child's side
//! connection.rs  requests and responses; copies a call's answer and checks the copy
//! memory.rs      the memory that a connection shares: layout.rs with the child's addresses
//! frame.rs       the data sent over the sockets
//! child.rs       the other side: the subcommand `jvm-process`
//! ```
//!
//! The agent starts the child with a control socket, over which it passes one end of each
//! connection. The child serves each connection on a separate thread. When the control socket is
//! closed, the child exits.

mod body;
mod child;
mod collector;
mod connection;
mod ending;
mod frame;
mod hold;
mod inbox;
mod jvm_process;
mod life;
mod memory;
mod outbox;
mod settings;
mod slot;
mod spec;
mod supervisor;

pub use child::serve_process;
pub use collector::CollectorSlot;
pub use jvm_process::JvmProcess;
pub use settings::{DEFAULT_PROCESS, JvmProcesses, ProcessOptions, SUBCOMMAND};
pub use slot::Slot;
pub use supervisor::ProcessState;
