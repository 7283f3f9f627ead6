//! Selections: elements of an array at regular distances, and the text that names them.
//!
//! - `strided`: [`Selection`], which is checked by itself;
//! - `text`: [`SelectionText`], as people write it: `ozone[0:64, 3, :, 100:250:2]`;
//! - `resolve`: from a text and a shape to a selection.

mod resolve;
mod strided;
#[cfg(test)]
mod tests;
mod text;

pub use resolve::ResolveError;
pub use strided::{Selection, SelectionError};
pub use text::{SelectionText, SelectionTextError};
