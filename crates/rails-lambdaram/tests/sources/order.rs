//! The order in which reads begin, and those that never do.

use crate::written::{self, open, storage, whole};
use rails_lambdaram::{
    catalogue::PublishedDataset,
    storage::{ReadTicket, Storage, StorageError, Urgency},
};
use std::{
    fs,
    sync::{Arc, mpsc},
    thread,
};

/// A storage of one thread, which waits in the receiver of a first read.
struct Held {
    storage: Storage,
    dataset: Arc<PublishedDataset>,
    news: mpsc::Receiver<(&'static str, bool)>,
    sender: mpsc::Sender<(&'static str, bool)>,
    release: mpsc::Sender<()>,
    _first: ReadTicket,
    _folder: tempfile::TempDir,
}

impl Held {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.nc"), written::netcdf(1)).unwrap();
        let dataset = open(folder.path()).unwrap().dataset("a").unwrap();
        let storage = storage(1);
        let ((release, wait), (started, has_started)) = (mpsc::channel(), mpsc::channel());
        let first = storage.read(&dataset, 1, &whole(), Urgency::Demand, move |_| {
            started.send(()).unwrap();
            wait.recv().unwrap();
        });
        has_started.recv().unwrap();
        let (sender, news) = mpsc::channel();
        Self { storage, dataset, news, sender, release, _first: first, _folder: folder }
    }

    /// Asks for a read, whose news are its name and whether it was cancelled.
    fn read(&self, name: &'static str, urgency: Urgency) -> ReadTicket {
        let (sender, caller) = (self.sender.clone(), thread::current().id());
        self.storage.read(&self.dataset, 1, &whole(), urgency, move |result| {
            assert_ne!(thread::current().id(), caller);
            sender.send((name, matches!(result, Err(StorageError::Cancelled)))).unwrap();
        })
    }

    fn names(&self, count: usize) -> Vec<&'static str> {
        self.news.iter().take(count).map(|(name, _)| name).collect()
    }
}

#[test]
fn demand_overtakes_reads_ahead() {
    let held = Held::new();
    let ahead = ["ahead 0", "ahead 1", "ahead 2", "ahead 3"];
    let _ahead = ahead.map(|name| held.read(name, Urgency::Ahead));
    let _demand = held.read("demand", Urgency::Demand);
    held.release.send(()).unwrap();
    let mut names = held.names(5);
    // One read ahead may have begun.
    let at = names.iter().position(|name| *name == "demand").unwrap();
    assert!(at <= 1, "{names:?}");
    names.remove(at);
    assert_eq!(names, ahead);
}

#[test]
fn a_raised_read_overtakes() {
    let held = Held::new();
    let tickets = ["ahead 0", "ahead 1", "ahead 2", "ahead 3"].map(|name| held.read(name, Urgency::Ahead));
    held.storage.raise(&tickets[3]);
    held.release.send(()).unwrap();
    let names = held.names(4);
    assert!(names[..2].contains(&"ahead 3"), "{names:?}");
}

#[test]
fn a_dropped_ticket_cancels() {
    let held = Held::new();
    let tickets = ["a", "b", "c", "d", "e"].map(|name| held.read(name, Urgency::Demand));
    let [_a, _b, c, d, _e] = tickets;
    drop((c, d));
    // The news come while the thread is held: nothing of them has begun.
    let mut news: Vec<_> = held.news.iter().take(2).collect();
    news.sort();
    assert_eq!(news, [("c", true), ("d", true)]);
    held.release.send(()).unwrap();
    let mut news: Vec<_> = held.news.iter().take(3).collect();
    news.sort();
    assert_eq!(news, [("a", false), ("b", false), ("e", false)]);
}

#[test]
fn dropping_the_storage_cancels_what_waits() {
    let Held { storage, dataset, news, sender, release, _first, _folder } = Held::new();
    let tickets = [0, 1, 2, 3, 4, 5].map(|_| {
        let sender = sender.clone();
        storage.read(&dataset, 1, &whole(), Urgency::Ahead, move |result| {
            sender.send(("", matches!(result, Err(StorageError::Cancelled)))).unwrap();
        })
    });
    let dropping = thread::spawn(move || drop(storage));
    // Those that have not begun are told of before the thread is free.
    assert!(news.iter().take(6).all(|(_, is_cancelled)| is_cancelled));
    release.send(()).unwrap();
    dropping.join().unwrap();
    drop(tickets);
}
