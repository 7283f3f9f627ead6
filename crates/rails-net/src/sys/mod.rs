//! The only home of `unsafe` in this crate: one file per kernel feature.

pub(crate) mod tcp_info;
