//! Advice from a trace: settings are tried by replays, and the best is told.
//!
//! - `shapes`: the shapes of blocks that deserve a trial; `trial`: a setting and its figures;
//! - `adviser`: which settings are tried, round after round, and which is best.

mod adviser;
mod shapes;
mod trial;

pub use adviser::{Advice, Adviser};
pub use trial::Trial;
