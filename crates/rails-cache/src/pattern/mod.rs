//! Patterns of access: which regions of an array will be read next, and how far ahead to bring
//! them.
//!
//! A [`Detector`] sees the regions that one job reads of one dataset, in order, and predicts the
//! next ones; a [`JobDetector`] sees which rank of the job reads them, and says which sibling holds
//! them. [`Depth`] says how many bytes to bring ahead, and [`Waste`] when to stop. The patterns are
//! those of the LambdaRAM thesis (sections 4.2.2.3 and 5.1): see [`Pattern`].
//!
//! Everything here is deterministic, reads no clock, and holds bounded memory.
//!
//! ```
//! use rails_array::{Region, Shape};
//! use rails_cache::pattern::{Detector, Pattern};
//!
//! let array = Shape::new([64, 361, 540])?;
//! let step = |time| Region::new([time, 100, 200], Shape::new([1, 100, 150]).unwrap());
//! let mut detector = Detector::new(&array);
//! for time in [0, 4, 8] {
//!     detector.observe(&step(time)?);
//! }
//! let predictions = detector.predict(2);
//! assert_eq!(predictions.next[0].region, step(12)?);
//! assert_eq!(predictions.next[1].region, step(16)?);
//! assert_eq!(predictions.next[0].pattern, Pattern::Stride);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//! Each module depends only on those above it.
//! - `prediction`: the answers of detectors;
//! - `window`: boxes that may reach over the edge of the array;
//! - `nest`: one pattern of up to four nested loops; `stream`: a nest and how well it predicts;
//! - `strays`: the reads that no stream foretold, and the streams that they turn out to be;
//! - `neighbourhood`, `apriori`: patterns that are no loops;
//! - `guess`: what one distance says; `detector`: all of them together; `job`: a detector for each
//!   rank, and who reads after whom;
//! - `depth`, `waste`: how far ahead, and when to stop;
//! - `beginning`: the first reads, before they make a pattern.

mod apriori;
mod beginning;
mod depth;
mod detector;
mod guess;
mod job;
mod neighbourhood;
mod nest;
mod prediction;
mod strays;
mod stream;
mod waste;
mod window;

pub use apriori::{MAX_TOLD, TellError};
pub(crate) use beginning::Beginning;
pub use depth::{Depth, Path};
pub use detector::{Detector, MAX_PREDICTIONS};
pub(crate) use guess::Guess;
pub use job::{JobDetector, JobPrediction, JobPredictions, MAX_RANKS};
pub use prediction::{Confidence, Pattern, Prediction, Predictions};
pub use waste::Waste;
