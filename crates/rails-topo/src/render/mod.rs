//! The model for people: a text for the terminal, and a picture.

mod objects;
mod phrases;
mod picture;
mod tree;

pub use picture::{Overlay, RailMark};
pub use tree::Tree;
