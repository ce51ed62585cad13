//! The wire protocol: requests in, replies out.
//!
//! Source: the RESP2 and RESP3 specifications of the Redis project.

pub(crate) mod request;
pub(crate) mod reply;
