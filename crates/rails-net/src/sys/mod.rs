//! The only home of `unsafe` in this crate: one file per kernel feature.

pub(crate) mod datagrams;
pub(crate) mod disconnect;
pub(crate) mod epoll;
pub(crate) mod option;
pub(crate) mod receive;
pub(crate) mod reuseport;
pub(crate) mod tcp_info;
pub(crate) mod timerfd;
