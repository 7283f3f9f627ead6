//! The commands: one file for each.

pub(crate) mod describe;
pub(crate) mod get;
pub(crate) mod ls;
pub(crate) mod serve;
pub(crate) mod status;
