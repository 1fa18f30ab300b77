//! Tests with journals that systemd has written.

mod damage;
mod export;
mod fixtures;
mod growth;
mod limits;
mod reading;
