//! How long a receiver stood still, by the growth of the files that it writes.

use std::{
    fs,
    path::Path,
    sync::mpsc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Watches the files in a folder, in a thread of its own.
#[derive(Debug)]
pub(crate) struct GapMeter {
    end: mpsc::Sender<()>,
    watcher: JoinHandle<Gaps>,
}

/// The times between two moments at which the files had grown.
#[derive(Debug, Default, Clone, Copy)]
struct Gaps {
    bytes: u64,
    last_growth: Option<Instant>,
    longest: Duration,
}

impl GapMeter {
    pub(crate) fn start(folder: &Path) -> Self {
        let (end, ended) = mpsc::channel();
        let folder = folder.to_owned();
        let watcher = thread::spawn(move || {
            let mut gaps = Gaps::default();
            while ended.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                gaps.look(size(&folder), Instant::now());
            }
            gaps
        });
        Self { end, watcher }
    }

    /// The longest time in which nothing arrived, between the first byte and the last. It is too
    /// long by [`INTERVAL`] at the most, and by what a machine takes to run the thread.
    pub(crate) fn finish(self) -> Duration {
        drop(self.end);
        self.watcher.join().expect("looking at files does not panic").longest
    }
}

impl Gaps {
    fn look(&mut self, bytes: u64, now: Instant) {
        if bytes <= self.bytes {
            return;
        }
        if let Some(last) = self.last_growth {
            self.longest = self.longest.max(now - last);
        }
        (self.bytes, self.last_growth) = (bytes, Some(now));
    }
}

/// The bytes of all files in a folder.
pub(crate) fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).filter(fs::Metadata::is_file).map(|meta| meta.len()).sum()
}

/// The interval of looks.
pub(crate) const INTERVAL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lies_between_two_growths() {
        let (mut gaps, start) = (Gaps::default(), Instant::now());
        for (milliseconds, bytes) in [(0, 0), (100, 5), (110, 5), (160, 9), (170, 10), (900, 10)] {
            gaps.look(bytes, start + Duration::from_millis(milliseconds));
        }
        assert_eq!(gaps.longest, Duration::from_millis(60));
    }
}
