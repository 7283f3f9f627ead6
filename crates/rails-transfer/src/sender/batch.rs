//! The batch of a sender, as its task and its readers see it.

use crate::{
    error::Violation,
    frame::Terms,
    guarantee::LackingGuarantee,
    message::{BlockDigest, Compare, Digest, FoundEntry, FoundKind, FromSender, Held, Offer, Settled, Totals},
    observe::{Change, Observer, Outcome},
    path::RelPath,
    plan::{Entry, EntryKind, Plan},
    proto::{Kind, Outbound},
    reason::Reason,
    source::{Event, Job},
    stamp::mark,
    summary::{Failure, How, NotKept, SendSummary, SentFile},
};
use cap_std::fs::Metadata;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
};

/// What is open, and what has come of it. Its lock is held for no call that waits.
pub(super) struct Batch {
    observer: Arc<dyn Observer>,
    compare: Compare,
    terms: Terms,
    bytes_sent: AtomicU64,
    bytes_reused: AtomicU64,
    state: Mutex<State>,
}

struct State {
    plan: Plan,
    /// The mark of the receiving folder, which the receiver says at the end.
    here: Option<Digest>,
    /// The number of the plan's entries that have been opened.
    opened: usize,
    /// Whether all entries before the further names of files are settled.
    has_files: bool,
    /// The folders that the receiver is still to look through; `None` as long as entries are open.
    to_prune: Option<Vec<usize>>,
    /// The plan's entries in the order of their paths, to find one by its path.
    by_path: Vec<usize>,
    /// The number of the plan's entries, from the end, that the search for folders to seal has
    /// passed.
    sealed: usize,

    /// The open entries.
    outbound: Outbound,
    /// The files that a reader is working on.
    files: BTreeMap<u64, Running>,
    /// The aborted files that changed while they were read, by their numbers on the wire, and the
    /// plan's entries.
    changed: BTreeMap<u64, usize>,
    /// The plan's files that changed, and that the receiver has closed: they are offered once more.
    again: VecDeque<usize>,
    /// The plan's files that changed once.
    changed_once: BTreeSet<usize>,
    /// The plan's files and links that the receiver has.
    arrived: Vec<usize>,
    /// The plan's entries that failed: such folders cannot be sealed, and nothing is linked to such
    /// files.
    lost: BTreeSet<usize>,
    summary: SendSummary,
}

/// A file whose offer was answered.
#[derive(Debug)]
struct Running {
    stop: Arc<AtomicBool>,
    /// The way of the receiver's digests to the reader, and whether it waits for some.
    digests: mpsc::Sender<Vec<BlockDigest>>,
    is_asked: bool,
    resumed_at: u64,
    /// The digest of a file that the receiver has.
    digest: Option<Digest>,
    /// Whether the file would be sent, but for the dry run.
    is_wanted: bool,
}

impl Batch {
    pub(super) fn new(mut plan: Plan, compare: Compare, terms: Terms, observer: Arc<dyn Observer>) -> Self {
        let failures = plan.unreadable.iter().map(|reason| Failure { path: None, reason: reason.clone() }).collect();
        let (skipped, not_kept) = (std::mem::take(&mut plan.skipped), std::mem::take(&mut plan.not_kept));
        let summary = SendSummary { skipped, failures, not_kept, ..SendSummary::default() };
        let state = State {
            plan,
            here: None,
            opened: 0,
            has_files: false,
            to_prune: None,
            by_path: Vec::new(),
            sealed: 0,
            outbound: Outbound::new(terms.is_dry_run),
            files: BTreeMap::new(),
            changed: BTreeMap::new(),
            again: VecDeque::new(),
            changed_once: BTreeSet::new(),
            arrived: Vec::new(),
            lost: BTreeSet::new(),
            summary,
        };
        let state = Mutex::new(state);
        Self { observer, compare, terms, bytes_sent: AtomicU64::default(), bytes_reused: AtomicU64::default(), state }
    }

    pub(super) fn totals(&self) -> Totals {
        self.state().plan.totals
    }

    /// The sources that could not be read; the first call gives them.
    pub(super) fn take_unreadable(&self) -> Vec<Reason> {
        std::mem::take(&mut self.state().plan.unreadable)
    }

    /// Opens the next entry, if there is one and the window has room: folders and files in the
    /// plan's order; when all of those are settled, further names of files, and then the search for
    /// entries that this end does not have, if it was asked for and nothing failed; and then
    /// the folders' seals, innermost first, because a sealed folder may be read-only.
    pub(super) fn open(&self) -> Option<FromSender> {
        let state = &mut *self.state();
        if !state.outbound.has_room() {
            return None;
        }
        if let Some(index) = state.next_entry() {
            let Entry { path, kind } = &state.plan.entries[index];
            let path = path.clone();
            return Some(match kind {
                EntryKind::Folder { .. } => FromSender::Folder { id: state.outbound.open(index, Kind::Simple), path },
                EntryKind::Link { target, meta, .. } => {
                    let id = state.outbound.open(index, Kind::Simple);
                    FromSender::Link { id, path, target: target.clone(), meta: meta.clone() }
                }
                EntryKind::Twin { first, .. } => {
                    let target = state.plan.entries[*first].path.clone();
                    FromSender::HardLink { id: state.outbound.open(index, Kind::Simple), path, target }
                }
                EntryKind::File { size, meta, .. } => {
                    let offer = Offer { path, size: *size, meta: meta.clone(), compare: self.compare };
                    FromSender::Offer { id: state.outbound.open(index, Kind::File(self.compare)), offer }
                }
            });
        }
        if state.to_prune.is_none() && state.outbound.is_empty() {
            state.end_entries(self.terms.deletes);
        }
        if let Some(index) = state.to_prune.as_mut()?.pop_if(|_| state.outbound.has_room_to_prune()) {
            let path = state.plan.entries.get(index).map(|entry| entry.path.clone());
            return Some(FromSender::Prune { id: state.outbound.open(index, Kind::Prune), path });
        }
        // A dry run has made nothing that is to be sealed.
        if self.terms.is_dry_run || state.sealed == 0 && !state.outbound.is_empty() {
            return None;
        }
        while state.sealed < state.plan.entries.len() {
            let index = state.plan.entries.len() - 1 - state.sealed;
            state.sealed += 1;
            if let Entry { path, kind: EntryKind::Folder { meta } } = &state.plan.entries[index]
                && !state.lost.contains(&index)
            {
                let id = state.outbound.open(index, Kind::Simple);
                return Some(FromSender::Seal { id, path: path.clone(), meta: meta.clone() });
            }
        }
        None
    }

    /// Whether no entry is open.
    pub(super) fn is_idle(&self) -> bool {
        self.state().outbound.is_empty()
    }

    /// The receiver has named its bytes of a file: it can be read.
    pub(super) fn on_held(&self, id: u64, held: Held) -> Result<Job, Violation> {
        let state = &mut *self.state();
        let index = state.outbound.on_held(id)?;
        let Entry { path, kind } = &state.plan.entries[index];
        let EntryKind::File { source, size, meta } = kind else { unreachable!("only files are opened as files") };
        let stop = Arc::new(AtomicBool::new(false));
        let (digests_in, digests) = mpsc::channel();
        let running = Running {
            stop: Arc::clone(&stop),
            digests: digests_in,
            is_asked: false,
            resumed_at: 0,
            digest: None,
            is_wanted: false,
        };
        state.files.insert(id, running);
        Ok(Job {
            id,
            path: path.clone(),
            source: source.clone(),
            size: *size,
            held,
            digests: Mutex::new(digests),
            keeps: state.plan.keeps,
            twin: state.plan.twins.get(&index).copied().filter(|_| meta.has_twins),
            is_dry_run: self.terms.is_dry_run,
            stop,
        })
    }

    /// The receiver has named the digests of some of its blocks.
    pub(super) fn on_blocks(&self, id: u64, digests: Vec<BlockDigest>) -> Result<(), Violation> {
        let mut state = self.state();
        let asked = state.files.get_mut(&id).filter(|file| file.is_asked);
        let file = asked.ok_or(Violation::Entry { what: "an answer", id })?;
        file.is_asked = false;
        // A reader that has ended is noticed by its result.
        let _ = file.digests.send(digests);
        Ok(())
    }

    pub(super) fn on_settled(&self, id: u64, outcome: Settled) -> Result<(), Violation> {
        let mut state = self.state();
        let is_aborted = state.outbound.is_aborted(id);
        let index = state.outbound.on_settled(id, &outcome)?;
        let changed = state.changed.remove(&id);
        let is_search = state.to_prune.is_some() && state.sealed == 0;
        match outcome {
            Settled::Pruned { removed, failed } => {
                state.summary.removed += removed;
                failed.into_iter().for_each(|reason| self.fail_search(&mut state, index, reason));
                return Ok(());
            }
            Settled::Failed { reason } if is_search => {
                self.fail_search(&mut state, index, reason);
                return Ok(());
            }
            _ => {}
        }
        let file = if state.outbound.is_lost(id) {
            // The file failed at the receiver while it is being read here: its reader ends it.
            state.files[&id].stop.store(true, Ordering::Relaxed);
            None
        } else {
            state.files.remove(&id)
        };
        let entry = &state.plan.entries[index];
        let (path, size) = (entry.path.clone(), entry.size());
        match outcome {
            Settled::Stored { digest } => {
                let how = How::Sent { resumed_at: file.map_or(0, |file| file.resumed_at) };
                state.summary.files.push(SentFile { path: path.clone(), size, digest: Some(digest), how });
                state.arrived.push(index);
                drop(state);
                self.observer.finished(&path, size, Outcome::Stored(digest));
            }
            Settled::Kept => {
                let digest = file.and_then(|file| file.digest);
                state.summary.files.push(SentFile { path: path.clone(), size, digest, how: How::AlreadyThere });
                state.arrived.push(index);
                drop(state);
                self.observer.finished(&path, size, Outcome::AlreadyThere);
            }
            // The seal of a folder, which was counted when the folder was made.
            Settled::Made if state.sealed > 0 => {}
            Settled::Made => {
                match state.plan.entries[index].kind {
                    EntryKind::Link { .. } => {
                        state.summary.links += 1;
                        state.arrived.push(index);
                    }
                    EntryKind::Twin { .. } => {
                        state.summary.hard_links += 1;
                        state.arrived.push(index);
                    }
                    _ => state.summary.folders += 1,
                }
                drop(state);
                self.observer.finished(&path, 0, Outcome::Made);
            }
            Settled::Would => {
                let how = match &file {
                    Some(file) if file.is_wanted => How::WouldSend { resumed_at: file.resumed_at },
                    _ => How::WouldUpdate,
                };
                let change = match (&state.plan.entries[index].kind, how) {
                    (EntryKind::Folder { .. } | EntryKind::Link { .. } | EntryKind::Twin { .. }, _) => {
                        state.summary.would_make += 1;
                        Change::Make
                    }
                    (EntryKind::File { .. }, how) => {
                        state.summary.files.push(SentFile { path: path.clone(), size, digest: None, how });
                        match how {
                            How::WouldSend { resumed_at } => Change::Send { resumed_at },
                            _ => Change::Update,
                        }
                    }
                };
                drop(state);
                self.observer.finished(&path, size, Outcome::Would(change));
            }
            // Only now has the receiver let go of the file. The failure of another was noted when
            // this end gave it up.
            Settled::Aborted => state.again.extend(changed),
            // It failed at both ends at once, and this end has noted that.
            Settled::Failed { .. } if is_aborted && changed.is_none() => {}
            Settled::Failed { reason } if state.part(index, &reason) => state.again.push_back(index),
            Settled::Failed { reason } => self.fail(state, index, &reason),
            Settled::Pruned { .. } => unreachable!("it was settled above"),
        }
        Ok(())
    }

    /// The receiver has found entries in a folder: those go that this end does not have, and that
    /// no pattern leaves out.
    pub(super) fn on_found(
        &self,
        id: u64,
        folder: Option<&RelPath>,
        entries: &[FoundEntry],
    ) -> Result<FromSender, Violation> {
        let mut state = self.state();
        state.outbound.on_found(id)?;
        let mut goes = Vec::with_capacity(entries.len());
        let mut gone = Vec::new();
        for FoundEntry { name, kind } in entries {
            // A path that is too long stays.
            let path = RelPath::below(folder, name.as_bytes()).ok().filter(|path| !state.has(path, *kind));
            goes.push(path.is_some());
            gone.extend(path.filter(|_| *kind != FoundKind::Folder));
        }
        state.outbound.choose(id, gone.len());
        drop(state);
        let outcome = if self.terms.is_dry_run { Outcome::Would(Change::Remove) } else { Outcome::Removed };
        gone.iter().for_each(|path| self.observer.finished(path, 0, outcome));
        Ok(FromSender::Choose { id, goes })
    }

    pub(super) fn on_lacking(&self, lacking: LackingGuarantee) {
        let mut state = self.state();
        // Each is kept once: the peer decides how many it sends, and must not fill this end's
        // memory.
        if state.summary.lacking.iter().all(|known| known.guarantee != lacking.guarantee) {
            state.summary.lacking.push(lacking);
        }
    }

    /// The message to which a reader's event leads. It is called when the message can be written
    /// next: the receiver may have given the file up in the meantime.
    pub(super) fn say(&self, job: &Job, event: Event) -> FromSender {
        let id = job.id;
        match event {
            Event::Start { offset, meta } => {
                self.observer.started(&job.path, job.size, offset);
                let mut state = self.state();
                state.files.entry(id).and_modify(|file| file.resumed_at = offset);
                state.outbound.start(id);
                FromSender::Start { id, offset, meta }
            }
            Event::Hole { len } => {
                self.observer.spared(&job.path, len);
                FromSender::Hole { id, len }
            }
            Event::Same { len } => {
                self.bytes_reused.fetch_add(len, Ordering::Relaxed);
                self.observer.spared(&job.path, len);
                FromSender::Same { id, len }
            }
            Event::Ask { block } => {
                self.state().files.entry(id).and_modify(|file| file.is_asked = true);
                FromSender::Ask { id, block }
            }
            Event::Finish { digest } => {
                let mut state = self.state();
                if state.outbound.is_lost(id) {
                    return state.abort(id, Reason::new("sender: the receiver gave up"));
                }
                state.outbound.finish(id, digest);
                FromSender::Finish { id, digest }
            }
            Event::Keep { digest, meta } => {
                let mut state = self.state();
                state.files.entry(id).and_modify(|file| file.digest = Some(digest));
                state.outbound.keep(id);
                FromSender::Keep { id, meta }
            }
            Event::Would { offset } => {
                let mut state = self.state();
                state.files.entry(id).and_modify(|file| (file.resumed_at, file.is_wanted) = (offset, true));
                state.outbound.would(id);
                FromSender::Would { id, offset }
            }
            Event::Changed { reason, now: Some(now) } => {
                let mut guard = self.state();
                let state = &mut *guard;
                let index = state.index(id);
                if state.outbound.is_lost(id) || !state.changed_once.insert(index) {
                    return self.take_back(guard, id, reason);
                }
                if let EntryKind::File { size, meta, .. } = &mut state.plan.entries[index].kind {
                    (*size, *meta) = now;
                }
                state.changed.insert(id, index);
                state.abort(id, Reason::new(format_args!("{reason}; it is sent again")))
            }
            Event::Changed { reason, now: None } | Event::Failed { reason } => self.take_back(self.state(), id, reason),
        }
    }

    /// Whether the receiver and this end are done with the file.
    pub(super) fn is_closed(&self, job: &Job) -> bool {
        self.state().outbound.entry(job.id).is_none()
    }

    /// `bytes` of the file were written.
    pub(super) fn moved(&self, job: &Job, bytes: usize) {
        self.bytes_sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.observer.moved(&job.path, bytes as u64);
    }

    /// The receiving folder has this mark.
    pub(super) fn on_here(&self, mark: Digest) {
        self.state().here = Some(mark);
    }

    /// Removes the files and links that the receiver has, as long as they are as they were listed.
    /// If the receiver writes into the folder that a source is in, they are all that there is.
    pub(super) fn remove_sources(&self) {
        let (here, bases) = {
            let state = self.state();
            (state.here, state.plan.bases.clone())
        };
        let is_here =
            |base: &PathBuf| fs::metadata(base).is_ok_and(|base| mark(&Metadata::from_just_metadata(base)) == here);
        if here.is_some() && bases.iter().any(is_here) {
            let reason = Reason::new("sender: the sources stay: the receiver's folder is the one that they are in");
            self.observer.unreadable(&reason);
            self.state().summary.failures.push(Failure { path: None, reason });
            return;
        }
        let arrived = std::mem::take(&mut self.state().arrived);
        for index in arrived {
            let Entry { path, kind } = self.state().plan.entries[index].clone();
            if let Err(error) = kind.remove() {
                let reason = Reason::new(format_args!("sender: the copy arrived, and the source stays: {error}"));
                let path_here = path.as_path().to_owned();
                self.state().summary.failures.push(Failure { path: Some(path_here), reason: reason.clone() });
                self.observer.finished(&path, 0, Outcome::Failed(&reason));
            }
        }
    }

    /// The summary; of no use to a batch that goes on.
    pub(super) fn take_summary(&self) -> SendSummary {
        let summary = std::mem::take(&mut self.state().summary);
        let load = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        SendSummary { bytes_sent: load(&self.bytes_sent), bytes_reused: load(&self.bytes_reused), ..summary }
    }

    /// Aborts a file that failed here, unless it has failed at the receiver.
    fn take_back(&self, mut state: MutexGuard<'_, State>, id: u64, reason: Reason) -> FromSender {
        let (index, is_lost) = (state.index(id), state.outbound.is_lost(id));
        let message = state.abort(id, reason.clone());
        if !is_lost {
            self.fail(state, index, &reason);
        }
        message
    }

    fn fail(&self, mut state: MutexGuard<'_, State>, index: usize, reason: &Reason) {
        let entry = &state.plan.entries[index];
        let (path, size) = (entry.path.clone(), entry.size());
        state.lost.insert(index);
        state.summary.failures.push(Failure { path: Some(path.as_path().to_owned()), reason: reason.clone() });
        drop(state);
        self.observer.finished(&path, size, Outcome::Failed(reason));
    }

    /// A folder, or the receiving one, could not be looked through, or an entry in it not removed.
    fn fail_search(&self, state: &mut State, index: usize, reason: Reason) {
        let path = state.plan.entries.get(index).map(|entry| entry.path.as_path().to_owned());
        self.observer.unreadable(&reason);
        state.summary.failures.push(Failure { path, reason });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The entry to open next. Further names of files wait until the receiver has the files.
    fn next_entry(&mut self) -> Option<usize> {
        if let Some(again) = self.again.pop_front() {
            return Some(again);
        }
        let next = (self.opened < self.plan.entries.len()).then_some(self.opened)?;
        if let EntryKind::Twin { first, .. } = self.plan.entries[next].kind {
            self.has_files |= self.outbound.is_empty();
            if !self.has_files {
                return None;
            }
            let is_first = |kind: &EntryKind| matches!(kind, EntryKind::File { meta, .. } if meta.has_twins);
            if self.lost.contains(&first) || !is_first(&self.plan.entries[first].kind) {
                self.part(next, &Reason::new("sender: their files failed, or were replaced"));
            }
        }
        self.opened += 1;
        Some(next)
    }

    /// Makes a file of its own of a further name that cannot be linked; gives whether the entry is
    /// one.
    fn part(&mut self, index: usize, why: &Reason) -> bool {
        let kind = &mut self.plan.entries[index].kind;
        let EntryKind::Twin { source, size, meta, .. } = kind else { return false };
        *kind = EntryKind::File { source: source.clone(), size: *size, meta: meta.clone() };
        let NotKept { hard_links, why_apart, .. } = &mut self.summary.not_kept;
        *hard_links += 1;
        why_apart.get_or_insert_with(|| why.clone());
        true
    }

    /// All entries are settled: finds the folders to look through.
    fn end_entries(&mut self, deletes: bool) {
        let mut to_prune = Vec::new();
        self.summary.is_removal_off = deletes && !self.summary.is_complete();
        if deletes && !self.summary.is_removal_off {
            let entries = &self.plan.entries;
            let is_folder = |index: &usize| matches!(entries[*index].kind, EntryKind::Folder { .. });
            // The receiving folder has no entry.
            to_prune.extend(self.plan.has_root.then_some(entries.len()));
            to_prune.extend((0..entries.len()).filter(is_folder));
            self.by_path = (0..entries.len()).collect();
            self.by_path.sort_unstable_by(|a, b| entries[*a].path.cmp(&entries[*b].path));
        }
        self.to_prune = Some(to_prune);
    }

    /// Whether this end has an entry of that path, or leaves it out on purpose.
    fn has(&self, path: &RelPath, kind: FoundKind) -> bool {
        let plan = &self.plan;
        self.by_path.binary_search_by(|index| plan.entries[*index].path.cmp(path)).is_ok()
            || plan.special.contains(path)
            || plan.filter.leaves_out(path, kind != FoundKind::Other)
    }

    fn abort(&mut self, id: u64, reason: Reason) -> FromSender {
        self.files.remove(&id);
        self.outbound.abort(id);
        FromSender::Abort { id, reason }
    }

    fn index(&self, id: u64) -> usize {
        self.outbound.entry(id).expect("a file stays open until the sender has ended it")
    }
}
