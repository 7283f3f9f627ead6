//! The commands: one file for each.

pub(crate) mod advise;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod explain;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod ls;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod trace;
pub(crate) mod warm;
