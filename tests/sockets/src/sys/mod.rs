//! System calls that the libraries have not, each in a file of its own.

pub(crate) mod connect;
pub(crate) mod fork;
pub(crate) mod interruptions;
pub(crate) mod ioctl;
pub(crate) mod option;
pub(crate) mod received;
pub(crate) mod ring;
