//! The record of a case, while it is carried out.

use crate::row::{Carried, End, Row, Step};
use nix::errno::Errno;
use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The record of a case at one end. A clone is the same record.
#[derive(Clone)]
pub(crate) struct Log(Arc<Mutex<Record>>);

struct Record {
    row: Row,
    sent: Direction,
    received: Direction,
    /// Whether the row has been printed, or another process prints it.
    is_closed: bool,
}

struct Direction {
    bytes: u64,
    hasher: blake3::Hasher,
    is_up_to_chance: bool,
}

impl Log {
    pub(crate) fn new(case: &str, end: End) -> Self {
        let row = Row { case: case.to_owned(), end, steps: vec![], sent: None, received: None, measured: vec![] };
        let direction = || Direction { bytes: 0, hasher: blake3::Hasher::new(), is_up_to_chance: false };
        Self(Arc::new(Mutex::new(Record { row, sent: direction(), received: direction(), is_closed: false })))
    }

    pub(crate) fn case(&self) -> String {
        self.record().row.case.clone()
    }

    /// Records a call's outcome, and hands it on.
    pub(crate) fn did<T>(&self, call: &str, outcome: io::Result<T>) -> io::Result<T> {
        self.saw(call, outcome.as_ref().err().map_or("ok".to_owned(), errno));
        outcome
    }

    /// Records a call that failed, and hands every outcome on: for calls whose number is up to
    /// chance.
    pub(crate) fn did_fail<T>(&self, call: &str, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() { self.did(call, outcome) } else { outcome }
    }

    /// Records a call that should fail, and whose outcome decides nothing.
    pub(crate) fn tried<T>(&self, call: &str, outcome: io::Result<T>) {
        drop(self.did(call, outcome));
    }

    /// Records an answer.
    pub(crate) fn saw(&self, call: &str, outcome: impl ToString) {
        self.record().row.steps.push(Step { call: call.to_owned(), outcome: outcome.to_string() });
    }

    /// Records a figure that two runs need not share.
    pub(crate) fn measured(&self, what: &str, figure: impl ToString) {
        self.record().row.measured.push(Step { call: what.to_owned(), outcome: figure.to_string() });
    }

    /// Counts bytes that were sent.
    pub(crate) fn sent(&self, bytes: &[u8]) {
        self.record().sent.add(bytes);
    }

    /// Counts bytes that were received.
    pub(crate) fn received(&self, bytes: &[u8]) {
        self.record().received.add(bytes);
    }

    /// Leaves the sent bytes out of the row: how many there are is up to chance.
    pub(crate) fn sends_what_fits(&self) {
        self.record().sent.is_up_to_chance = true;
    }

    /// Leaves the received bytes out of the row: how many there are is up to chance.
    pub(crate) fn receives_what_comes(&self) {
        self.record().received.is_up_to_chance = true;
    }

    /// Leaves the row to another process.
    pub(crate) fn give_away(&self) {
        self.record().is_closed = true;
    }

    /// Prints the row, unless that has happened.
    pub(crate) fn print(&self) {
        let mut record = self.record();
        if std::mem::replace(&mut record.is_closed, true) {
            return;
        }
        let (sent, received) = (record.sent.carried(), record.received.carried());
        let row = Row { sent, received, ..record.row.clone() };
        let mut line = serde_json::to_vec(&row).expect("a row is plain data");
        line.push(b'\n');
        // Standard output is a line at a time, and its reader may have gone.
        let _ = io::stdout().lock().write_all(&line);
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Direction {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hasher.update(bytes);
    }

    fn carried(&self) -> Option<Carried> {
        let carried = Carried { bytes: self.bytes, blake3: self.hasher.finalize().to_hex().to_string() };
        (!self.is_up_to_chance).then_some(carried)
    }
}

/// The name of an error's `errno`, or the error's own words.
pub(crate) fn errno(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => format!("{:?}", Errno::from_raw(number)),
        None => error.to_string(),
    }
}
