//! Progress bars.

use crate::thread;
pub use indicatif::ProgressBar as Bar;
use indicatif::{MultiProgress, ProgressStyle};
use std::{sync::LazyLock, thread::sleep, time::Duration};

/// All progress bars, so that lines can be written between them.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Writes to the terminal with the bars out of the way.
pub fn suspend<T>(write: impl FnOnce() -> T) -> T {
    BARS.suspend(write)
}

/// A bar of bytes on stderr, which is a terminal.
pub fn shown() -> Bar {
    let style = ProgressStyle::with_template(
        "{bar:30} {binary_bytes}/{binary_total_bytes}  {binary_bytes_per_sec}  {eta} left  {wide_msg}",
    )
    .expect("the template is well formed")
    .progress_chars("=> ");
    let bar = BARS.add(Bar::new(0).with_style(style));
    // The bar's own ticker panics if the system refuses a thread. Without this thread the bar is
    // drawn when bytes move.
    let drawn = bar.downgrade();
    let _ = thread::start("bar", move || {
        while drawn.upgrade().is_some_and(|bar| !bar.is_finished()) {
            sleep(TICK);
            drawn.upgrade().iter().for_each(Bar::tick);
        }
    });
    bar
}

/// The time between two drawings of a bar while nothing moves.
const TICK: Duration = Duration::from_millis(200);
