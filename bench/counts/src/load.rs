//! A load: a function of the data path over a fixed input.

use crate::loads;
use std::hint::black_box;

/// What a load is made of.
pub struct Load {
    /// What the input consists of, in the singular: `line`.
    pub unit: &'static str,
    /// Processes the input; returns the number of units in it.
    pub pass: Box<dyn FnMut() -> u64>,
}

/// Creates the load of a name.
pub type Create = fn() -> Load;

impl Load {
    /// Creates a load.
    pub fn new(unit: &'static str, pass: impl FnMut() -> u64 + 'static) -> Load {
        Load { unit, pass: Box::new(pass) }
    }
}

/// Name of the only function whose instructions are counted, with those of all that it calls.
pub const COUNTED: &str = "counted_pass";

/// Runs a pass of a load.
#[inline(never)]
fn counted_pass(load: &mut Load) -> u64 {
    let units = (load.pass)();
    // Not a tail call: with a jump in its place, Callgrind would not see the end of the function.
    black_box(units)
}

/// Runs a load, and prints its units, their name, and the kernel of the scanners.
///
/// The first pass is not counted: it allocates, and selects kernels. Everything is on a separate
/// thread, whose stack has the same address whatever the environment of the process is: hash tables
/// derive their seeds from such addresses.
///
/// # Errors
/// There is no such load.
pub fn run(name: &str) -> Result<(), String> {
    let create = loads::find(name).ok_or_else(|| format!("there is no load {name}"))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_has_as_many_units_in_each_pass() {
        for (name, create) in loads::ALL {
            let mut load = create();
            let units = [(); 3].map(|()| (load.pass)());
            assert!(units[0] > 0 && units == [units[0]; 3], "{name}: {units:?}");
        }
    }
}
