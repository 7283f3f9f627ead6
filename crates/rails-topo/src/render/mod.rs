//! The machine for people: a text for the terminal, and a picture.

mod phrases;
mod picture;
mod places;
mod tree;

pub use picture::{Overlay, RailMark};
pub use tree::Tree;
