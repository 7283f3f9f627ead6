//! Programs whose connections are told by a filter.
//!
//! The test program runs itself again as the programs, the keepers and the watching processes
//! that the tests need.

mod diverted;
mod killed;
mod plain;
mod program;
mod refused;
mod support;
mod tools;
