//! kill -9 of either peer at random moments of a transfer: the other says so and ends, nothing
//! half-written has a final name, and the next run brings the rest.

use crate::util::{Receiver, pattern, rails_bench, start, text};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc,
    time::{Duration, Instant},
};

/// How long the survivor may take to end.
const BOUND: Duration = Duration::from_secs(30);
/// The sender would wait for silence much longer than the test waits: the kernel of the killed
/// receiver tells it. It waits for no other receiver.
const SENDER: &[&str] = &["--outage-limit", "600", "--retry", "0"];
/// The receiver, which dials no peer, waits for the sender until its limit.
const RECEIVER: &[&str] = &["--outage-limit", "2"];
/// The moments of each side, where `RAILS_RUNS` says nothing: a moment takes a second or two.
const MOMENTS: usize = 8;
/// At most so many times these moments, until one of them is in the middle of a file.
const MAX: usize = 5;

/// How the ends are joined, and the moments that are tried.
#[derive(Debug, Clone, Copy)]
struct Lanes {
    listen: &'static str,
    /// Given to both sides: how streams are kept, and the rate of lanes of Celeritas.
    stream: &'static [&'static str],
    moments: usize,
}

const TCP: Lanes = Lanes { listen: "127.0.0.1:0,127.0.0.2:0", stream: &["--insecure"], moments: MOMENTS };
const CELERITAS: Lanes = Lanes {
    listen: "celeritas://127.0.0.1:0,celeritas://127.0.0.2:0",
    stream: &["--insecure", "--rate", "400mbit"],
    moments: MOMENTS / 2,
};

#[test]
fn sender_killed_at_any_moment() {
    sender_killed(TCP);
}

#[test]
fn sender_over_celeritas_killed_at_any_moment() {
    sender_killed(CELERITAS);
}

#[test]
fn receiver_killed_at_any_moment() {
    receiver_killed(TCP);
}

#[test]
fn receiver_over_celeritas_killed_at_any_moment() {
    receiver_killed(CELERITAS);
}

fn sender_killed(lanes: Lanes) {
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch::make(folder.path(), lanes);
    let mut moments = Moments::of("sender", &batch);
    let mut in_the_middle = 0;
    for moment in 0..MAX * lanes.runs() {
        // Enough moments, unless none of them was in the middle of a file.
        if moment >= lanes.runs() && in_the_middle > 0 {
            break;
        }
        batch.empty_inbox();
        let once = moments.random.random_bool(0.5);
        let receiver = batch.receiver(if once { &["--once"] } else { &[] });
        let (mut sender, _lines) = batch.send(&receiver.addresses);
        let after = moments.draw();
        std::thread::sleep(after);
        sender.kill().unwrap();
        sender.wait().unwrap();
        println!("moment {moment}: sender killed after {after:?}, receiver {}", if once { "--once" } else { "stays" });

        // A stream that was not opened yet is none that could be cut: the receiver still waits for its
        // first.
        let opened = receiver.says_within(LOST, Duration::from_millis(300));
        moments.learn(after, &batch);
        if once && (opened || batch.is_whole()) {
            let (code, _, said) = receiver.finish_within(BOUND);
            assert!(code != 0 || batch.is_whole(), "moment {moment}: the receiver says that all is well: {said}");
            assert!(code == 0 || said.contains("error: "), "moment {moment}: {said}");
            in_the_middle += usize::from(batch.has_part());
            batch.assert_nothing_half_written(moment);
            batch.complete(moment);
        } else {
            if opened && !batch.is_whole() {
                assert!(receiver.says_within("error: ", BOUND), "moment {moment}: the receiver does not notice");
            }
            in_the_middle += usize::from(batch.has_part());
            batch.assert_nothing_half_written(moment);
            let (code, said) = batch.send_to_the_end(&receiver.addresses);
            if code != 0 && once {
                // A busy receiver says only now that it had opened a stream for the sender that was killed.
                let (code, _, said) = receiver.finish_within(BOUND);
                assert!(code != 0 && said.contains("error: "), "moment {moment}: {said}");
                batch.complete(moment);
                continue;
            }
            batch.assert_complete(moment, code, &said);
            if once { drop(receiver.finish_within(BOUND)) } else { receiver.kill() }
        }
    }
    println!("{in_the_middle} moments were in the middle of a file");
    assert!(in_the_middle > 0, "no moment was in the middle of a file");
}

fn receiver_killed(lanes: Lanes) {
    let folder = tempfile::tempdir().unwrap();
    let batch = Batch::make(folder.path(), lanes);
    let mut moments = Moments::of("receiver", &batch);
    let mut in_the_middle = 0;
    for moment in 0..MAX * lanes.runs() {
        // Enough moments, unless none of them was in the middle of a file.
        if moment >= lanes.runs() && in_the_middle > 0 {
            break;
        }
        batch.empty_inbox();
        let receiver = batch.receiver(&["--once"]);
        let (sender, lines) = batch.send(&receiver.addresses);
        let after = moments.draw();
        std::thread::sleep(after);
        receiver.kill();
        println!("moment {moment}: receiver killed after {after:?}");

        let (code, _, said) = crate::util::finish_within(sender, &lines, BOUND);
        // The receiver may have had the last word and died behind it.
        assert!(code != 0 || batch.is_whole(), "moment {moment}: the sender says that all is well: {said}");
        assert!(code == 0 || said.contains("error: "), "moment {moment}: {said}");
        moments.learn(after, &batch);
        in_the_middle += usize::from(batch.has_part());
        batch.assert_nothing_half_written(moment);
        batch.complete(moment);
    }
    println!("{in_the_middle} moments were in the middle of a file");
    assert!(in_the_middle > 0, "no moment was in the middle of a file");
}

/// The files to send, and their folder.
struct Batch {
    source: PathBuf,
    inbox: PathBuf,
    files: Vec<(&'static str, Vec<u8>)>,
    lanes: Lanes,
}

impl Batch {
    fn make(folder: &Path, lanes: Lanes) -> Self {
        let (source, inbox) = (folder.join("batch"), folder.join("inbox"));
        let files = vec![
            ("first", pattern(3_000_000, 11)),
            ("large", pattern(80_000_000, 12)),
            ("last", pattern(2_000_000, 13)),
            ("small", b"a few bytes".to_vec()),
        ];
        fs::create_dir(&source).unwrap();
        files.iter().for_each(|(name, bytes)| fs::write(source.join(name), bytes).unwrap());
        Self { source, inbox, files, lanes }
    }

    fn empty_inbox(&self) {
        let _ = fs::remove_dir_all(&self.inbox);
    }

    fn receiver(&self, more: &[&str]) -> Receiver {
        Receiver::start_at(
            self.lanes.listen,
            &self.inbox,
            self.lanes.stream.iter().chain(RECEIVER).chain(more).copied(),
        )
    }

    fn send(&self, to: &str) -> (Child, mpsc::Receiver<String>) {
        let arguments = ["send", text(&self.source), "--to", to];
        start(rails_bench(arguments.iter().chain(self.lanes.stream).chain(SENDER).copied()))
    }

    /// The time of a transfer that no kill disturbs, from the start of the sender's process.
    fn typical_time(&self) -> Duration {
        let receiver = self.receiver(&["--once"]);
        let start = Instant::now();
        self.complete_at(&receiver.addresses, 0);
        let took = start.elapsed();
        assert_eq!(receiver.finish_within(BOUND).0, 0);
        took
    }

    /// Runs the transfer to its end, with a receiver of its own.
    fn complete(&self, moment: usize) {
        let receiver = self.receiver(&["--once"]);
        self.complete_at(&receiver.addresses, moment);
        let (code, _, said) = receiver.finish_within(BOUND);
        assert_eq!(code, 0, "moment {moment}: {said}");
    }

    fn complete_at(&self, to: &str, moment: usize) {
        let (code, said) = self.send_to_the_end(to);
        self.assert_complete(moment, code, &said);
    }

    fn send_to_the_end(&self, to: &str) -> (i32, String) {
        let (sender, lines) = self.send(to);
        let (code, _, said) = crate::util::finish_within(sender, &lines, 3 * BOUND);
        (code, said)
    }

    fn assert_complete(&self, moment: usize, code: i32, said: &str) {
        assert_eq!(code, 0, "moment {moment}, the run after it: {said}");
        assert!(self.is_whole(), "moment {moment}: not everything is there after the run behind it");
        assert!(!self.has_part(), "moment {moment}: a part is left");
    }

    fn there(&self, name: &str) -> PathBuf {
        self.inbox.join("batch").join(name)
    }

    fn is_whole(&self) -> bool {
        self.files.iter().all(|(name, bytes)| fs::read(self.there(name)).is_ok_and(|found| found == *bytes))
    }

    fn has_part(&self) -> bool {
        self.files.iter().any(|(name, _)| self.there(&format!(".{name}.rails-part")).exists())
    }

    fn assert_nothing_half_written(&self, moment: usize) {
        for (name, bytes) in &self.files {
            if let Ok(found) = fs::read(self.there(name)) {
                assert!(found == *bytes, "moment {moment}: {name} has {} of {} bytes", found.len(), bytes.len());
            }
        }
    }
}

impl Lanes {
    fn runs(self) -> usize {
        std::env::var("RAILS_RUNS").map_or(self.moments, |runs| runs.parse().expect("RAILS_RUNS is a number"))
    }
}

/// Moments within the time that a transfer takes, as far as that is known: a busy machine is slower
/// in one minute than in the next.
struct Moments {
    random: ChaCha8Rng,
    within: Duration,
}

impl Moments {
    /// Moments drawn from `RAILS_SEED`, or else from a random seed; the seed is printed.
    fn of(side: &str, batch: &Batch) -> Self {
        let seed = std::env::var("RAILS_SEED").ok().map_or_else(rand::random, |seed| seed.parse().expect("RAILS_SEED"));
        println!("the {side} is killed at moments drawn with RAILS_SEED={seed}");
        Self { random: ChaCha8Rng::seed_from_u64(seed), within: batch.typical_time() }
    }

    fn draw(&mut self) -> Duration {
        self.within.mul_f64(self.random.random_range(0.0..1.0))
    }

    /// Gives the part of the batch that arrived when its end was killed after that time.
    fn learn(&mut self, after: Duration, batch: &Batch) {
        if batch.is_whole() {
            self.within = after;
        } else if !batch.has_part() && after > self.within / 2 {
            self.within = self.within.mul_f64(1.5);
        }
    }
}

/// The receiver's words for a lane that was part of a stream when the sender's end came.
const LOST: &str = "a lane was lost";
