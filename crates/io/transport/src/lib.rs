//! How bytes leave for an endpoint: HTTP requests over connections that are kept, endpoints with
//! their health, and the pauses between attempts.
//!
//! A separate crate because it fences `unsafe`: one socket query that no library has. It also
//! keeps TLS out of the components.
//!
//! This crate knows no component: what is sent, and what an answer means for the events in it, is
//! decided by the sinks.

pub mod auth;
mod body;
mod endpoints;
pub mod http;
mod patient;
mod rate;
mod retry_after;
mod stamp;
mod sys;
mod target;
pub mod tcp;
pub mod tls;

pub use endpoints::{Endpoints, Pause};
pub use hyper::Method;
pub use hyper::header::{HeaderMap, HeaderName, HeaderValue};
pub use rate::Rate;
pub use retry_after::{RETRY_AFTER_MAX, retry_after};
pub use target::{Target, TargetError};
