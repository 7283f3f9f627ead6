//! System calls: the only unsafe code of the crate, one file per feature of the kernel.

pub(crate) mod bpf;
pub(crate) mod bpf_sockopt;
pub(crate) mod disconnect;
pub(crate) mod option;
pub(crate) mod pidfd;
pub(crate) mod readiness;
pub(crate) mod rights;
pub(crate) mod seccomp;
pub(crate) mod xattr;
