//! The model in a form for people: a text for the terminal, and a picture.

mod objects;
mod phrases;
#[cfg(feature = "svg")]
mod picture;
mod tree;

#[cfg(feature = "svg")]
pub use picture::{Overlay, RailMark};
pub use tree::Tree;
