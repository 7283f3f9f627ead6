//! A receiver that goes away in the middle of a batch, and what its sender does then.

use crate::{
    still::start_in,
    transfers::wait_for_size,
    util::{Receiver, finish_within, interrupt, pattern, rails_bench, secret, start, text, wait_for},
};
use rails_lab::{LinkLab, Shape, Side};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Child,
    sync::mpsc,
    time::{Duration, Instant},
};

/// Much longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(100);
const SECRET: &str = "a secret of the tests";
/// The beginning of the sender's words when its receiver is gone.
const GONE: &str = "the receiver is gone (the batch was not sent: ";

/// A batch whose receiver has stored one file, and is in the middle of another.
struct Batch {
    folder: tempfile::TempDir,
    receiver: Receiver,
    addresses: String,
    sender: Child,
    lines: mpsc::Receiver<String>,
}

impl Batch {
    fn begin(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("tree");
        fs::create_dir(&source).unwrap();
        fs::write(source.join("large"), pattern(256 << 20, 21)).unwrap();
        fs::write(source.join("small"), "a few bytes").unwrap();
        let secret = secret(folder.path(), SECRET);
        let inbox = folder.path().join("inbox");
        let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret)]);
        let addresses = receiver.addresses.clone();
        let send = ["send", text(&source), "--to", &addresses, "--secret-file", text(&secret)];
        let (sender, lines) = start(rails_bench(send.iter().chain(more).copied()));
        wait_for_size(&inbox.join("tree/small"), 1);
        wait_for_size(&inbox.join("tree/.large.rails-part"), 1 << 20);
        Self { folder, receiver, addresses, sender, lines }
    }

    fn inbox(&self) -> PathBuf {
        self.folder.path().join("inbox")
    }
}

/// The end of a receiver, by which it goes away.
fn killed(receiver: Receiver) {
    // Waits for it: the next one takes its ports.
    drop(receiver);
}

fn interrupted(receiver: Receiver) {
    interrupt(receiver.id());
    assert_eq!(receiver.finish_within(PATIENCE).0, 130);
}

fn goes_on_behind(goes_away: fn(Receiver), cause: &str) {
    let batch = Batch::begin(&[]);
    let (inbox, secret) = (batch.inbox(), secret(batch.folder.path(), SECRET));
    goes_away(batch.receiver);
    std::thread::sleep(Duration::from_secs(2));
    let receiver = Receiver::start_at(&batch.addresses, &inbox, ["--secret-file", text(&secret), "--once"]);
    let gone = wait_for(&batch.lines, GONE);
    assert!(gone.contains(cause) && gone.ends_with("): trying again for up to 120 s"), "{gone}");
    wait_for(&batch.lines, "the receiver is there again");
    wait_for(&batch.lines, "resuming  tree/large at ");
    let (code, out, said) = finish_within(batch.sender, &batch.lines, PATIENCE);
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("files: 2 sent, 0 unchanged, 0 left out, 0 failed\nbegun again: once; "), "{out}");
    assert!(!said.contains("the receiver is gone"), "it says so once: {said}");
    assert_eq!(receiver.finish_within(PATIENCE).0, 0);
    for name in ["large", "small"] {
        let [sent, arrived] =
            [batch.folder.path(), &inbox].map(|folder| fs::read(folder.join("tree").join(name)).unwrap());
        assert!(sent == arrived, "{name} differs");
    }
    assert!(!inbox.join("tree/.large.rails-part").exists());
}

#[test]
fn batch_goes_on_when_a_killed_receiver_is_back() {
    goes_on_behind(killed, "the last lane was lost");
}

#[test]
fn batch_goes_on_when_an_interrupted_receiver_is_back() {
    goes_on_behind(interrupted, "a signal ended the command");
}

#[test]
fn nobody_is_awaited_with_retry_0() {
    let batch = Batch::begin(&["--retry", "0"]);
    interrupted(batch.receiver);
    let (code, out, said) = finish_within(batch.sender, &batch.lines, PATIENCE);
    assert_eq!((code, out.as_str()), (1, ""), "{said}");
    assert!(said.contains("error: the batch was not sent: ") && said.contains("a signal ended the command"), "{said}");
    assert!(!said.contains("trying again"), "{said}");
}

#[test]
fn receiver_that_stays_away_is_named() {
    let batch = Batch::begin(&["--retry", "2"]);
    // Before the receiver goes: a busy machine makes the wait longer, and never shorter.
    let before = Instant::now();
    interrupted(batch.receiver);
    wait_for(&batch.lines, GONE);
    let (code, out, said) = finish_within(batch.sender, &batch.lines, PATIENCE);
    assert_eq!((code, out.as_str()), (1, ""), "{said}");
    assert!(before.elapsed() >= Duration::from_secs(2), "{said}");
    assert!(said.contains("error: the receiver was away for 2 s (--retry): --to 127.0.0.1:"), "{said}");
    assert!(said.contains("refused a connection") && said.contains("help: see that `rails-bench recv` runs"), "{said}");
}

#[test]
fn another_secret_ends_the_wait_at_once() {
    let batch = Batch::begin(&[]);
    let inbox = batch.inbox();
    interrupted(batch.receiver);
    wait_for(&batch.lines, GONE);
    let other = secret(batch.folder.path(), "another secret of the tests");
    let receiver = Receiver::start_at(&batch.addresses, &inbox, ["--secret-file", text(&other)]);
    let (code, _, said) = finish_within(batch.sender, &batch.lines, Duration::from_secs(60));
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("the join secret is wrong") && said.contains("help: give both ends the same secret"),
        "{said}"
    );
    receiver.kill();
}

#[test]
fn a_signal_ends_the_wait_at_once() {
    let batch = Batch::begin(&[]);
    interrupted(batch.receiver);
    wait_for(&batch.lines, GONE);
    interrupt(batch.sender.id());
    let (code, out, said) = finish_within(batch.sender, &batch.lines, Duration::from_secs(30));
    assert_eq!((code, out.as_str()), (130, ""), "{said}");
    let words = said.lines().find(|line| line.starts_with("interrupted after ")).expect("the usual words");
    assert!(words.contains("in tree/large (") && words.ends_with("the same command goes on from there"), "{words}");
}

/// The only lane's link is down for longer than the sender's session lasts. The receiver does not
/// know that when the sender begins again: it has the file's part locked, or its only place taken.
#[test]
#[ignore = "needs root: makes network namespaces"]
fn netns_link_that_is_down_for_20_s_ends_no_batch() {
    let folder = tempfile::tempdir().unwrap();
    let lab = LinkLab::builder().link(Shape::mbit(30)).build().expect("labs can be built here");
    let (near, far) = (lab.address(Side::A, 0).to_string(), lab.address(Side::B, 0));
    let listen = format!("{far}:0");
    let begin = |name: &'static str, receiving: &[&str], sending: &[&str]| {
        let (inbox, file) = (folder.path().join(name), folder.path().join(format!("{name}-file")));
        fs::write(&file, pattern(12 << 20, 22)).unwrap();
        let recv = ["recv", "--insecure", "--listen", &listen, "--into", text(&inbox)];
        let receiver = start_in(lab.side(Side::B), &[&recv, receiving].concat());
        let to = wait_for(&receiver.1, "listening on ").trim_start_matches("listening on ").to_owned();
        let send = ["send", text(&file), "--insecure", "--from", &near, "--to", &to];
        let sender = start_in(lab.side(Side::A), &[&send, sending].concat());
        let part = inbox.join(format!(".{name}-file.rails-part"));
        (receiver, sender, part, inbox.join(format!("{name}-file")), file)
    };
    let batches = [
        begin("as-usual", &[], &[]),
        begin("locked", &[], &["--outage-limit", "5"]),
        begin("one-place", &["--once"], &["--outage-limit", "5"]),
    ];
    batches.iter().for_each(|(_, _, part, _, _)| wait_for_size(part, 1 << 17));
    lab.set_link_up(Side::A, 0, false).expect("root may do that");
    std::thread::sleep(Duration::from_secs(20));
    lab.set_link_up(Side::A, 0, true).expect("root may do that");
    for ((mut receiver, receivers_lines), (sender, lines), _, arrived, file) in batches {
        let (code, out, said) = finish_within(sender, &lines, PATIENCE);
        assert_eq!(code, 0, "{said}");
        assert!(out.contains("files: 1 sent, 0 unchanged, 0 left out, 0 failed"), "{out}");
        let is_usual = text(&file).ends_with("as-usual-file");
        assert!(is_usual || out.contains("begun again: once; "), "{out}");
        assert!(read(&arrived) == read(&file), "{}", file.display());
        if !is_usual {
            wait_for(&receivers_lines, "error: the batch was not received: ");
        }
        receiver.kill().unwrap();
        receiver.wait().unwrap();
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap()
}
