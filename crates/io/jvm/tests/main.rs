//! Tests with a real JVM.
//!
//! A process can have only one JVM. The tests of all modules except `every_java` are therefore
//! ignored by default. The tests of `every_java` run this binary again for each installed Java,
//! with the tests of one of these modules.

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
