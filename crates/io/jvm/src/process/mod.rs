//! A JVM in a separate process. If the process ends for any reason, the agent starts it again and
//! repeats the calls that were running in it.
//!
//! ```text
//! jvm_process.rs the handle of a process: JvmProcess
//! supervisor.rs  starts the child, waits for its end, starts it again
//! life.rs        one child from its start to its end, and the connections to it
//! body.rs        the operating system process of a child
//! slot.rs        an operator over all lives, and its calls: repetition, deadlines
//! collector.rs   a collector over all lives
//! inbox.rs       receives the chunks of collectors; outbox.rs is the child's side
//! connection.rs  requests and answers; copies the answer of a call and checks the copy
//! memory.rs      the memory that a connection shares: layout.rs with the addresses of the child
//! frame.rs       what goes over the sockets
//! child.rs       the other side: the subcommand `jvm-process`
//! ```
//!
//! The agent starts the child with a control socket, over which it passes one end of each
//! connection. The child serves each connection on a separate thread. When the control socket is
//! closed, the child ends.

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
