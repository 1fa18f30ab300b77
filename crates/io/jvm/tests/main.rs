//! Tests with a real JVM.
//!
//! A process can have only one JVM. So the tests of all modules but `every_java` are ignored
//! by default; those of `every_java` run this binary again for each installed Java, with the tests
//! of one of these modules.

mod cases;
mod endurance;
mod every_java;
mod frames;
mod hostile;
mod pressure;
mod process;
mod recorded;
mod signals;
mod support;
