//! Diverts the connections of unchanged programs to another address, by seccomp or by BPF.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(target_os = "linux"))]
compile_error!("rails-divert uses Linux system calls and runs on Linux only");

pub mod notify;
pub mod redirect;
mod sys;
