//! The batch of a receiver, as its threads see it.

use crate::{
    calls::Guarantees,
    error::Violation,
    frame::Terms,
    guarantee::LackingGuarantee,
    message::{Digest, FromReceiver, FromSender, Offer, Settled, Totals},
    meta::Meta,
    observe::{Change, Observer, Outcome},
    path::{LinkTarget, RelPath},
    proto::{CONTROL, Fate, Inbound, WINDOW},
    reason::Reason,
    store::{Found, Incoming, Next, Old, Search, Store, Trial, Tried},
    summary::ReceiveSummary,
};
use std::{
    collections::BTreeMap,
    mem::take,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// What is open, and what has come of it. Its lock is held for no call that waits.
pub(super) struct Batch {
    disk: Disk,
    observer: Arc<dyn Observer>,
    answers: mpsc::Sender<FromReceiver>,
    state: Mutex<State>,
    /// A file has ended on a carrier.
    ended: Condvar,
    /// The number of threads that work, and do not wait for the sender.
    at_work: Mutex<usize>,
}

/// The receiving folder of a batch.
pub(super) enum Disk {
    Store(Store),
    /// That of a dry run.
    Trial(Trial),
}

struct State {
    inbound: Inbound,
    /// The files that are offered and not started.
    offered: BTreeMap<u64, Receiving>,
    /// The offered files of a dry run.
    compared: BTreeMap<u64, Compared>,
    /// The files that are there already, of open entries.
    old: BTreeMap<u64, Arc<Old>>,
    /// The searches that wait for the sender's choice.
    searches: BTreeMap<u64, Searching>,
    /// The verified files that wait to be put on disk together.
    finished: Vec<Finished>,
    /// Whether a thread is putting files on disk; it goes on with those that finish meanwhile.
    is_finishing: bool,
    summary: ReceiveSummary,
}

struct Finished {
    id: u64,
    digest: Digest,
    file: Receiving,
}

/// A search, and the folder that it began in.
struct Searching {
    path: Option<RelPath>,
    search: Search,
}

/// A file of a dry run, and what becomes of the one that is there if it has the same bytes.
struct Compared {
    path: RelPath,
    size: u64,
    there: Option<Settled>,
    has_twins: bool,
}

struct Receiving {
    path: RelPath,
    size: u64,
    file: Incoming,
}

impl Batch {
    /// A batch in which the sender may open that many further streams.
    pub(super) fn new(
        disk: Disk,
        observer: Arc<dyn Observer>,
        answers: mpsc::Sender<FromReceiver>,
        terms: Terms,
        max_streams: usize,
    ) -> Self {
        let is_dry_run = terms.is_dry_run;
        let state = State {
            inbound: Inbound::new(terms, max_streams),
            offered: BTreeMap::new(),
            compared: BTreeMap::new(),
            old: BTreeMap::new(),
            searches: BTreeMap::new(),
            finished: Vec::new(),
            is_finishing: false,
            summary: ReceiveSummary { is_dry_run, ..ReceiveSummary::default() },
        };
        let state = Mutex::new(state);
        Self { disk, observer, answers, state, ended: Condvar::new(), at_work: Mutex::default() }
    }

    /// The sender opened a further stream.
    pub(super) fn on_stream(self: &Arc<Self>) -> Result<Carrier, Violation> {
        let number = self.state().inbound.on_stream()?;
        Ok(Carrier { number, batch: Arc::clone(self), current: None })
    }

    /// The control stream as a carrier of files.
    pub(super) fn control(self: &Arc<Self>) -> Carrier {
        Carrier { number: CONTROL, batch: Arc::clone(self), current: None }
    }

    pub(super) fn on_totals(&self, totals: &Totals) -> Result<(), Violation> {
        self.state().inbound.on_totals()?;
        self.observer.totals(totals);
        Ok(())
    }

    pub(super) fn on_unreadable(&self, reason: &Reason) -> Result<(), Violation> {
        let mut state = self.state();
        state.inbound.on_unreadable()?;
        state.summary.fail(None, reason);
        drop(state);
        self.observer.unreadable(reason);
        Ok(())
    }

    pub(super) fn on_folder(&self, id: u64, path: &RelPath) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_simple(id)?;
        let made = match &self.disk {
            Disk::Store(store) => store.make_folder(path).map(|()| Settled::Made),
            Disk::Trial(trial) => trial.folder(path),
        };
        Ok(self.made(id, path, made, |summary| &mut summary.folders))
    }

    pub(super) fn on_link(
        &self,
        id: u64,
        path: &RelPath,
        target: &LinkTarget,
        meta: &Meta,
    ) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_simple(id)?;
        let made = match &self.disk {
            Disk::Store(store) => store.make_link(path, target, meta).map(|()| Settled::Made),
            Disk::Trial(trial) => trial.link(path, target, meta),
        };
        Ok(self.made(id, path, made, |summary| &mut summary.links))
    }

    pub(super) fn on_twin(&self, id: u64, path: &RelPath, target: &RelPath) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_simple(id)?;
        let made = match &self.disk {
            Disk::Store(store) => store.make_twin(path, target).map(|()| Settled::Made),
            Disk::Trial(trial) => trial.twin(path, target),
        };
        Ok(self.made(id, path, made, |summary| &mut summary.hard_links))
    }

    pub(super) fn on_seal(&self, id: u64, path: &RelPath, meta: &Meta) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_seal(id)?;
        Ok(match self.store().seal_folder(path, meta) {
            Ok(()) => FromReceiver::Settled { id, outcome: Settled::Made },
            Err(reason) => self.failed(id, path, 0, reason),
        })
    }

    pub(super) fn on_offer(&self, id: u64, offer: Offer) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_offer(id)?;
        let is_awaited = || !self.answers.is_closed();
        let store = match &self.disk {
            Disk::Store(store) => store,
            Disk::Trial(trial) => return Ok(self.on_compared(id, trial.look(&offer, &is_awaited), offer)),
        };
        let found = store.look(&offer, &is_awaited);
        let Offer { path, size, .. } = offer;
        Ok(match found {
            Ok(Found::Kept) => self.kept(id, &path, size),
            Ok(Found::Other(file, held)) => {
                let mut state = self.state();
                state.inbound.answer(id, size, &held);
                state.old.extend(file.old().map(|old| (id, old)));
                state.offered.insert(id, Receiving { path, size, file: *file });
                FromReceiver::Held { id, held }
            }
            Err(reason) => self.failed(id, &path, size, reason),
        })
    }

    fn on_compared(
        &self,
        id: u64,
        found: Result<Tried, Reason>,
        Offer { path, size, meta, .. }: Offer,
    ) -> FromReceiver {
        match found {
            Ok(Tried::Settled(Settled::Kept)) => self.kept(id, &path, size),
            Ok(Tried::Settled(_)) => self.would_update(id, &path, size),
            Ok(Tried::Held(held, old, there)) => {
                let mut state = self.state();
                state.inbound.answer(id, size, &held);
                state.old.extend(old.map(|old| (id, old)));
                state.compared.insert(id, Compared { path, size, there, has_twins: meta.has_twins });
                FromReceiver::Held { id, held }
            }
            Err(reason) => self.failed(id, &path, size, reason),
        }
    }

    pub(super) fn on_ask(&self, id: u64, block: u64) -> Result<FromReceiver, Violation> {
        let mut state = self.state();
        state.inbound.on_ask(id, block)?;
        let old = state.old.get(&id).cloned();
        drop(state);
        let digests = old.map_or_else(Vec::new, |old| old.digests(block, &|| !self.answers.is_closed()));
        Ok(FromReceiver::Blocks { id, digests })
    }

    pub(super) fn on_would(&self, id: u64, offset: u64) -> Result<FromReceiver, Violation> {
        let mut state = self.state();
        state.inbound.on_would(id, offset)?;
        state.old.remove(&id);
        let Compared { path, size, has_twins, .. } = state.compared.remove(&id).expect("an offered file is kept");
        state.summary.would_store += 1;
        state.summary.arrived(&path);
        drop(state);
        if let Disk::Trial(trial) = &self.disk
            && has_twins
        {
            trial.replace(&path);
        }
        Ok(self.would(id, &path, size, Change::Send { resumed_at: offset }))
    }

    pub(super) fn on_keep(&self, id: u64, meta: &Meta) -> Result<FromReceiver, Violation> {
        let mut state = self.state();
        state.inbound.on_keep(id)?;
        state.old.remove(&id);
        if let Some(Compared { path, size, there, .. }) = state.compared.remove(&id) {
            drop(state);
            return Ok(match there {
                Some(Settled::Would) => self.would_update(id, &path, size),
                _ => self.kept(id, &path, size),
            });
        }
        let Receiving { path, size, file } = state.take(id);
        drop(state);
        Ok(match self.store().keep(file, meta) {
            Ok(()) => self.kept(id, &path, size),
            Err(reason) => self.failed(id, &path, size, reason),
        })
    }

    pub(super) fn on_prune(&self, id: u64, path: Option<RelPath>) -> Result<FromReceiver, Violation> {
        self.state().inbound.on_prune(id)?;
        let begun = match &self.disk {
            Disk::Store(store) => store.search(path.clone()),
            Disk::Trial(trial) => trial.search(path.clone()),
        };
        Ok(match begun {
            Ok(search) => self.go_on(id, Searching { path, search }),
            Err(reason) => self.pruned(id, path.as_ref(), 0, Some(reason)),
        })
    }

    pub(super) fn on_choose(&self, id: u64, goes: &[bool]) -> Result<FromReceiver, Violation> {
        let mut state = self.state();
        state.inbound.on_choose(id, goes.len())?;
        let mut searching = state.searches.remove(&id).expect("a search that asks is kept");
        let outcome = if state.summary.is_dry_run { Outcome::Would(Change::Remove) } else { Outcome::Removed };
        drop(state);
        searching.search.choose(goes, |path| self.observer.finished(path, 0, outcome));
        Ok(self.go_on(id, searching))
    }

    /// Goes on with a search: asks the sender, or settles the folder.
    fn go_on(&self, id: u64, mut searching: Searching) -> FromReceiver {
        let guarantees = match &self.disk {
            Disk::Store(store) => Some(&store.guarantees),
            Disk::Trial(_) => None,
        };
        match searching.search.next(guarantees) {
            Next::Ask(folder, entries) => {
                let mut state = self.state();
                state.inbound.ask(id, entries.len());
                state.searches.insert(id, searching);
                FromReceiver::Found { id, folder, entries }
            }
            Next::Over(removed, failed) => self.pruned(id, searching.path.as_ref(), removed, failed),
        }
    }

    fn pruned(&self, id: u64, path: Option<&RelPath>, removed: u64, failed: Option<Reason>) -> FromReceiver {
        let mut state = self.state();
        state.inbound.settle_pruned(id);
        state.summary.removed += removed;
        failed.iter().for_each(|reason| state.summary.fail(path, reason));
        drop(state);
        failed.iter().for_each(|reason| self.observer.unreadable(reason));
        FromReceiver::Settled { id, outcome: Settled::Pruned { removed, failed } }
    }

    pub(super) fn on_done(&self) -> Result<(), Violation> {
        self.finish()?;
        self.state().inbound.on_done()?;
        // The sender's last words about files that failed here may be under way on other streams, and
        // these are read until then.
        self.waits()?;
        drop(self.ended.wait_while(self.state(), |state| !state.inbound.is_idle()));
        self.works();
        let Err(reason) = self.sync() else {
            // A peer that keeps to the protocol has read all other answers, so there is room for
            // these.
            for lacking in self.lacking() {
                self.answer(FromReceiver::Lacking { lacking })?;
            }
            if let Some(mark) = self.mark() {
                self.answer(FromReceiver::Here { mark })?;
            }
            return self.answer(FromReceiver::Bye);
        };
        self.state().summary.fail(None, &reason);
        self.observer.unreadable(&reason);
        self.answer(FromReceiver::Refuse { reason })
    }

    /// Settles the files that are complete, unless another thread does.
    pub(super) fn finish(&self) -> Result<(), Violation> {
        loop {
            let mut state = self.state();
            if state.is_finishing || state.finished.is_empty() {
                return Ok(());
            }
            state.is_finishing = true;
            let finished = take(&mut state.finished);
            drop(state);
            let (told, files): (Vec<_>, Vec<_>) = finished
                .into_iter()
                .map(|Finished { id, digest, file: Receiving { path, size, file } }| ((id, digest, path, size), file))
                .unzip();
            let done = self.store().finish(files);
            let answers = told.into_iter().zip(done).map(|((id, digest, path, size), done)| match done {
                Ok(()) => self.stored(id, &path, size, digest),
                Err(reason) => self.failed(id, &path, size, reason),
            });
            let answers: Vec<_> = answers.collect();
            let mut state = self.state();
            state.is_finishing = false;
            answers.iter().for_each(|_| state.inbound.settle());
            drop(state);
            answers.into_iter().try_for_each(|answer| self.answer(answer))?;
        }
    }

    /// The sender hears of what it did, as far as the queue has room.
    pub(super) fn refuse(&self, reason: impl std::fmt::Display) {
        let _ = self.answers.try_send(FromReceiver::Refuse { reason: Reason::new(reason) });
    }

    /// A thread works again.
    pub(super) fn works(&self) {
        let mut at_work = self.at_work();
        *at_work += 1;
        if *at_work == 1 {
            // Under this lock, so that it hears the changes in their order.
            self.observer.waits(false);
        }
    }

    /// A thread waits for the sender. The last one that does settles the complete files before.
    pub(super) fn waits(&self) -> Result<(), Violation> {
        loop {
            let mut at_work = self.at_work();
            if *at_work == 1 && !self.state().finished.is_empty() {
                drop(at_work);
                self.finish()?;
                continue;
            }
            *at_work -= 1;
            if *at_work == 0 {
                self.observer.waits(true);
            }
            return Ok(());
        }
    }

    fn at_work(&self) -> MutexGuard<'_, usize> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has come of the batch; of no use to one that goes on.
    pub(super) fn take_summary(&self) -> ReceiveSummary {
        let summary = take(&mut self.state().summary);
        ReceiveSummary { lacking: self.lacking(), ..summary }
    }

    /// The files of a batch that is no dry run.
    fn store(&self) -> &Store {
        match &self.disk {
            Disk::Store(store) => store,
            Disk::Trial(_) => unreachable!("no file is started in a dry run"),
        }
    }

    fn guarantees(&self) -> &Guarantees {
        match &self.disk {
            Disk::Store(store) => &store.guarantees,
            Disk::Trial(trial) => &trial.guarantees,
        }
    }

    /// Takes from a message what the operator does not let a sender set.
    pub(super) fn restrict(&self, message: &mut FromSender) {
        if let Some(meta) = message.meta_mut() {
            self.guarantees().restrict(meta);
        }
    }

    /// The mark of the receiving folder. A dry run removes no source, and needs none.
    fn mark(&self) -> Option<Digest> {
        match &self.disk {
            Disk::Store(store) => store.mark(),
            Disk::Trial(_) => None,
        }
    }

    fn lacking(&self) -> Vec<LackingGuarantee> {
        self.guarantees().lacking()
    }

    fn sync(&self) -> Result<(), Reason> {
        match &self.disk {
            Disk::Store(store) => store.sync(),
            Disk::Trial(_) => Ok(()),
        }
    }

    /// A folder or link was made, or would be.
    fn made(
        &self,
        id: u64,
        path: &RelPath,
        made: Result<Settled, Reason>,
        count: impl FnOnce(&mut ReceiveSummary) -> &mut u64,
    ) -> FromReceiver {
        match made {
            Ok(Settled::Would) => self.would(id, path, 0, Change::Make),
            Ok(outcome) => {
                *count(&mut self.state().summary) += 1;
                self.observer.finished(path, 0, Outcome::Made);
                FromReceiver::Settled { id, outcome }
            }
            Err(reason) => self.failed(id, path, 0, reason),
        }
    }

    fn would(&self, id: u64, path: &RelPath, size: u64, change: Change) -> FromReceiver {
        self.observer.finished(path, size, Outcome::Would(change));
        FromReceiver::Settled { id, outcome: Settled::Would }
    }

    /// The file that is there would get other properties.
    fn would_update(&self, id: u64, path: &RelPath, size: u64) -> FromReceiver {
        let mut state = self.state();
        state.summary.already_there += 1;
        state.summary.arrived(path);
        drop(state);
        self.would(id, path, size, Change::Update)
    }

    fn stored(&self, id: u64, path: &RelPath, size: u64, digest: Digest) -> FromReceiver {
        let mut state = self.state();
        state.summary.stored += 1;
        state.summary.arrived(path);
        drop(state);
        self.observer.finished(path, size, Outcome::Stored(digest));
        FromReceiver::Settled { id, outcome: Settled::Stored { digest } }
    }

    fn kept(&self, id: u64, path: &RelPath, size: u64) -> FromReceiver {
        let mut state = self.state();
        state.summary.already_there += 1;
        state.summary.arrived(path);
        drop(state);
        self.observer.finished(path, size, Outcome::AlreadyThere);
        FromReceiver::Settled { id, outcome: Settled::Kept }
    }

    fn failed(&self, id: u64, path: &RelPath, size: u64, reason: Reason) -> FromReceiver {
        self.state().summary.fail(Some(path), &reason);
        self.observer.finished(path, size, Outcome::Failed(&reason));
        FromReceiver::Settled { id, outcome: Settled::Failed { reason } }
    }

    /// Queues an answer without waiting; a full queue means that the peer opened more than the
    /// window allows.
    pub(super) fn answer(&self, answer: FromReceiver) -> Result<(), Violation> {
        match self.answers.try_send(answer) {
            Err(mpsc::error::TrySendError::Full(_)) => Err(Violation::Window),
            // The task that writes answers has ended; the reading half is about to end too.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last thread leaves the files that were not started as they are: their parts stay.
impl Drop for Batch {
    fn drop(&mut self) {
        let offered = take(&mut self.state().offered);
        offered.into_values().for_each(|file| file.file.park());
    }
}

impl State {
    fn take(&mut self, id: u64) -> Receiving {
        self.offered.remove(&id).expect("an offered file is kept")
    }
}

/// A stream that carries files, one at a time. A file that is under way when it is dropped stays as
/// a part.
pub(super) struct Carrier {
    number: usize,
    batch: Arc<Batch>,
    current: Option<Receiving>,
}

impl Carrier {
    pub(super) fn on_start(&mut self, id: u64, offset: u64, meta: Meta) -> Result<(), Violation> {
        let mut state = self.batch.state();
        state.inbound.on_start(self.number, id, offset)?;
        let file = self.current.insert(state.take(id));
        drop(state);
        match file.file.start(offset, meta, self.batch.guarantees()) {
            Ok(()) => {
                self.batch.observer.started(&file.path, file.size, offset);
                Ok(())
            }
            Err(reason) => self.give_up(reason),
        }
    }

    pub(super) fn on_block(&mut self, block: &[u8]) -> Result<(), Violation> {
        if self.batch.state().inbound.on_block(self.number, block.len())? == Fate::Discard {
            return Ok(());
        }
        let file = self.current.as_mut().expect("a started file is kept");
        match file.file.write(block) {
            Ok(()) => {
                self.batch.state().summary.bytes_received += block.len() as u64;
                self.batch.observer.moved(&file.path, block.len() as u64);
                Ok(())
            }
            Err(reason) => self.give_up(reason),
        }
    }

    pub(super) fn on_hole(&mut self, id: u64, len: u64) -> Result<(), Violation> {
        if self.batch.state().inbound.on_hole(self.number, id, len)? == Fate::Discard {
            return Ok(());
        }
        let file = self.current.as_mut().expect("a started file is kept");
        match file.file.skip(len) {
            Ok(()) => {
                self.batch.observer.spared(&file.path, len);
                Ok(())
            }
            Err(reason) => self.give_up(reason),
        }
    }

    pub(super) fn on_same(&mut self, id: u64, len: u64) -> Result<(), Violation> {
        if self.batch.state().inbound.on_same(self.number, id, len)? == Fate::Discard {
            return Ok(());
        }
        let file = self.current.as_mut().expect("a started file is kept");
        match file.file.copy(len) {
            Ok(()) => {
                self.batch.state().summary.bytes_reused += len;
                self.batch.observer.spared(&file.path, len);
                Ok(())
            }
            Err(reason) => self.give_up(reason),
        }
    }

    pub(super) fn on_finish(&mut self, id: u64, digest: Digest) -> Result<(), Violation> {
        let fate = self.ends(|inbound, carrier| inbound.on_finish(carrier, id))?;
        self.batch.state().old.remove(&id);
        if fate == Fate::Discard {
            return Ok(());
        }
        let mut file = self.current.take().expect("a started file is kept");
        if let Err(reason) = file.file.verify(digest) {
            self.batch.state().inbound.settle();
            return self.batch.answer(self.batch.failed(id, &file.path, file.size, reason));
        }
        let mut state = self.batch.state();
        state.finished.push(Finished { id, digest, file });
        let bytes: u64 = state.finished.iter().map(|finished| finished.file.size).sum();
        let is_enough = state.finished.len() >= MAX_FINISHED || bytes >= MAX_FINISHED_BYTES;
        drop(state);
        if is_enough { self.batch.finish() } else { Ok(()) }
    }

    pub(super) fn on_abort(&mut self, id: u64, reason: &Reason) -> Result<(), Violation> {
        let fate = self.ends(|inbound, carrier| inbound.on_abort(carrier, id))?;
        self.batch.state().old.remove(&id);
        if fate == Fate::Discard {
            return Ok(());
        }
        let compared = self.batch.state().compared.remove(&id);
        let (path, size) = match compared {
            Some(Compared { path, size, .. }) => (path, size),
            None => {
                let offered = self.batch.state().offered.remove(&id);
                let open = offered.or_else(|| self.current.take());
                let Receiving { path, size, file } = open.expect("an open entry has its file");
                file.park();
                (path, size)
            }
        };
        self.batch.state().summary.fail(Some(&path), reason);
        self.batch.observer.finished(&path, size, Outcome::Failed(reason));
        self.batch.answer(FromReceiver::Settled { id, outcome: Settled::Aborted })
    }

    /// The stream ended in order.
    pub(super) fn on_end(&self) -> Result<(), Violation> {
        self.batch.state().inbound.on_stream_end(self.number)
    }

    /// Settles the current file as failed; the bytes that the sender has under way for it are
    /// dropped.
    ///
    /// The file's part stays for a later run, after a full disk as well: its bytes are good, and
    /// the next run may find room for the rest.
    fn give_up(&mut self, reason: Reason) -> Result<(), Violation> {
        let Receiving { path, size, file } = self.current.take().expect("a started file is kept");
        file.park();
        let id = self.batch.state().inbound.discard(self.number).expect("a started file is known");
        self.batch.answer(self.batch.failed(id, &path, size, reason))
    }

    fn ends<T>(&self, step: impl FnOnce(&mut Inbound, usize) -> T) -> T {
        let ended = step(&mut self.batch.state().inbound, self.number);
        self.batch.ended.notify_all();
        ended
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        if let Some(file) = self.current.take() {
            file.file.park();
        }
        self.ends(Inbound::leave);
    }
}

/// So many complete files are put on disk at once, though a thread has others to write.
const MAX_FINISHED: usize = WINDOW / 2;
/// So many bytes of complete files, too.
const MAX_FINISHED_BYTES: u64 = 16 << 20;
