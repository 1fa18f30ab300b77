//! Sends bytes to endpoints: HTTP requests over persistent connections, endpoint health, and the
//! pauses between attempts.
//!
//! A separate crate because it fences `unsafe`: one socket query that no library provides. The
//! crate also keeps TLS out of the components.
//!
//! The crate is independent of the components: the sinks decide what to send, and what a response
//! means for the events in a request.

pub mod auth;
mod body;
mod endpoints;
pub mod http;
pub mod proxy;
mod rate;
mod read_after_close;
pub mod recorded_stream;
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
