//! A load: a function of the data path over a fixed input.

use std::hint::black_box;

/// A function to count, with its unit.
pub struct Load {
    /// Name of a unit of the input, in the singular: `line`.
    pub unit: &'static str,
    /// Processes the input and returns its number of units.
    pub pass: Box<dyn FnMut() -> u64>,
}

/// Function that creates a load.
pub type Create = fn() -> Load;

impl Load {
    /// Creates a load.
    pub fn new(unit: &'static str, pass: impl FnMut() -> u64 + 'static) -> Load {
        Load { unit, pass: Box::new(pass) }
    }
}

/// Name of the function whose instructions are counted, including all functions that it calls.
pub const COUNTED: &str = "counted_pass";

/// Runs one pass of a load.
#[inline(never)]
fn counted_pass(load: &mut Load) -> u64 {
    let units = (load.pass)();
    // Prevents a tail call: Callgrind would not see the end of a function that ends in a jump.
    black_box(units)
}

/// Runs a load, and prints its number of units, the name of the unit, and the kernel of the
/// scanners.
///
/// The first pass is not counted: it allocates, and selects kernels. The load runs on a separate
/// thread, whose stack has the same address with any environment of the process: this matters
/// because hash tables derive their seeds from such addresses.
///
/// # Errors
/// Returns an error if the load panics.
pub fn run(name: &str, create: Create) -> Result<(), String> {
    let run = move || {
        let mut load = create();
        (load.pass)();
        let units = counted_pass(&mut load);
        (units, load.unit)
    };
    let (units, unit) = std::thread::spawn(run).join().map_err(|_| format!("{name} panicked"))?;
    println!("{units} {unit} {}", millstream_scan::kernels::Kernel::best().name());
    Ok(())
}
