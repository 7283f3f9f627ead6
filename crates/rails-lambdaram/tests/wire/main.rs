//! Messages of a link: round trips, hostile bytes, and limits on both of their sides.

mod blocks;
mod descriptions;
mod frames;
mod limits;
mod runs;
mod strategies;
