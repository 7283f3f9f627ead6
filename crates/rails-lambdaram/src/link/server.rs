//! One link of a node that serves: the peer's questions, and the blocks that it asks for.

use super::{
    carrier::{LinkFigures, LinkReceiver, LinkSender},
    server_queue::{Key, ServerQueue},
};
use crate::{
    encoding::{self, Chooser, Coder, LinkLoad},
    library::{Library, Peer},
    node::{BudgetLease, Failure, Lease, Node, OpenGrid, Outlet, Pinned, Receiver},
    wire::{
        BlockHeader, Denial, DenialReason, Encoding, Encodings, Handle, ReaderFrame, RefusedReason, Run, ServerFrame,
        Urgency, VERSION, Welcome, WireFault, check_description, runs_of,
    },
};
use bytes::Bytes;
use rails_array::{BlockIndex, Selection};
use rails_cache::{self as cache, BudgetId, DatasetId, DownstreamId, Fault, Presender, RequestId, pattern::Path};
use rails_formats::data_type::Endianness;
use rails_multirail::{Priority, error::with_causes};
use std::{
    collections::{HashMap, VecDeque},
    num::NonZeroU64,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    task::yield_now,
    time::{sleep, timeout},
};

/// A link to a node that reads.
struct ServerLink {
    node: Arc<Node>,
    library: Arc<Library>,
    peer: Peer,
    downstream: OnceLock<DownstreamId>,
    state: Mutex<State>,
    /// Blocks of demand, or frames, can be sent.
    demand: Notify,
    /// Blocks ahead of time can be sent.
    ahead: Notify,
    /// An answer was sent.
    answered: Notify,
}

struct State {
    queue: ServerQueue,
    frames: VecDeque<ServerFrame>,
    /// Messages that go behind all blocks that are ready.
    last_frames: VecDeque<ServerFrame>,
    handles: HashMap<Handle, Served>,
    encodings: Encodings,
    figures: LinkFigures,
}

/// An array that the peer reads.
struct Served {
    grid: Lease,
    budget: BudgetLease,
    chooser: Chooser,
    /// `None` while it works, and before the first credit.
    presender: Option<Presender>,
    credit: Credit,
}

impl Served {
    /// The slots that a block takes in the peer's memory.
    fn slots_of(&self, block: BlockIndex, slot_bytes: NonZeroU64) -> u32 {
        u32::try_from(self.grid.block_bytes(block).div_ceil(slot_bytes.get())).unwrap_or(u32::MAX)
    }
}

/// The slots of a peer's memory that it has promised for blocks of an array.
#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    /// Those that the node may use, and has not.
    accepted: u32,
    /// Those that it will not use: a peer that promises much and takes little must not keep the
    /// memory of others.
    declined: u32,
}

/// Gets one block for a peer.
struct ForPeer {
    link: Weak<ServerLink>,
    key: Key,
    /// The array that the handle meant when the block was asked for.
    grid: DatasetId,
}

/// The peer has broken the protocol, or is not to be served.
struct Refusal {
    reason: RefusedReason,
    text: String,
}

/// Serves a node that reads, until the link ends. Returns why it ended.
pub(crate) async fn serve(
    node: &Arc<Node>,
    library: &Arc<Library>,
    peer: Peer,
    sender: LinkSender,
    mut receiver: LinkReceiver,
) -> String {
    let application = match timeout(GREETING_LIMIT, receiver.recv()).await {
        Err(_) => return "the peer sends no greeting".into(),
        Ok(Err(error)) => return with_causes(&error),
        Ok(Ok(None)) => return "the peer has ended the link".into(),
        Ok(Ok(Some(message))) => greeted(node, &message),
    };
    let mut farewell = sender.clone();
    let refused = match application {
        Err(refusal) => refusal,
        Ok((application, encodings, welcome)) => {
            let link = Arc::new(ServerLink::new(node, library, peer, encodings, welcome));
            let downstream = node.add_outlet(Arc::new(ToPeer(Arc::downgrade(&link))));
            link.downstream.set(downstream).expect("a link is one node downstream");
            let ends = tokio::select! {
                end = link.send(sender.clone(), Urgency::Demand) => Err(end),
                end = link.send(sender, Urgency::Ahead) => Err(end),
                end = link.receive(receiver, &application) => end,
            };
            link.end();
            node.remove_outlet(downstream);
            match ends {
                Err(end) => return end,
                Ok(refusal) => refusal,
            }
        }
    };
    let Refusal { reason, text } = refused;
    let frame = ServerFrame::Refused { reason, text: text.clone() };
    // The peer may be gone.
    let _ = timeout(GREETING_LIMIT, farewell.send(vec![frame.cut_to_limits().encode()], Priority::HIGHEST)).await;
    let _ = timeout(GREETING_LIMIT, farewell.finish()).await;
    text
}

/// Reads the first message.
fn greeted(node: &Arc<Node>, message: &[u8]) -> Result<(String, Encodings, Welcome), Refusal> {
    let hello = match ReaderFrame::decode(message) {
        Ok(ReaderFrame::Hello(hello)) => hello,
        Ok(_) => return Err(Refusal::protocol("the first message is no greeting")),
        Err(crate::wire::WireError::Version { found }) => {
            let text = format!("version {found} was spoken, and this node speaks {VERSION}");
            return Err(Refusal { reason: RefusedReason::Version, text });
        }
        Err(error) => return Err(Refusal::protocol(with_causes(&error))),
    };
    if hello.path.contains(&node.id()) {
        return Err(Refusal { reason: RefusedReason::Circle, text: String::new() });
    }
    let welcome = Welcome {
        version: VERSION,
        node: node.id(),
        max_block_bytes: u32::try_from(node.max_block_bytes()).unwrap_or(u32::MAX),
        max_asked: MAX_ASKED as u32,
    };
    Ok((hello.application, hello.encodings.and(encoding::SUPPORTED), welcome))
}

impl ServerLink {
    fn new(node: &Arc<Node>, library: &Arc<Library>, peer: Peer, encodings: Encodings, welcome: Welcome) -> Self {
        let max_begun = (MAX_BEGUN_BYTES / (u64::from(DEFAULT_BLOCK_BYTES))) as usize;
        let state = State {
            queue: ServerQueue::new(max_begun),
            frames: VecDeque::from([ServerFrame::Welcome(welcome)]),
            last_frames: VecDeque::new(),
            handles: HashMap::new(),
            encodings,
            figures: LinkFigures::default(),
        };
        Self {
            node: Arc::clone(node),
            library: Arc::clone(library),
            peer,
            downstream: OnceLock::new(),
            state: Mutex::new(state),
            demand: Notify::new(),
            ahead: Notify::new(),
            answered: Notify::new(),
        }
    }

    /// Sends frames and blocks of one urgency. Returns why the link ended.
    async fn send(self: &Arc<Self>, mut sender: LinkSender, urgency: Urgency) -> String {
        let (mut coder, mut rate) = (Coder::default(), SentRate::default());
        let (work, priority) = match urgency {
            Urgency::Demand => (&self.demand, Priority::NORMAL),
            Urgency::Ahead => (&self.ahead, Priority::LOWEST),
        };
        loop {
            // Whatever was sent, or could not be had, has made room.
            self.begin();
            let (message, priority) = match self.next(urgency) {
                None => {
                    work.notified().await;
                    continue;
                }
                Some(Outgoing::Frame(frame)) => (vec![frame.cut_to_limits().encode()], Priority::HIGHEST),
                // It goes behind the blocks that were sent into the credit.
                Some(Outgoing::Last(frame)) => (vec![frame.encode()], priority),
                Some(Outgoing::Block(key, grid, pinned, is_push)) => {
                    let load = rate.load(&sender, Instant::now());
                    self.state().figures = rate.figures;
                    let message = self.message(key, &grid, pinned, is_push, &mut coder, &load);
                    (vec![message], priority)
                }
            };
            let begin = Instant::now();
            let mut sending = std::pin::pin!(sender.send(message, priority));
            let sent = loop {
                tokio::select! {
                    sent = &mut sending => break sent,
                    // A peer that takes nothing keeps no memory of others.
                    () = sleep(PIN_LIMIT) => self.unpin(),
                }
            };
            self.state().queue.set_moving();
            if let Err(error) = sent {
                return with_causes(&error);
            }
            rate.sent(begin.elapsed());
            // A message is taken at once while there is room, and the lanes of the link may have the
            // same thread: they send it before the next block is encoded.
            yield_now().await;
        }
    }

    /// Gives the memory of all blocks back that are ready.
    fn unpin(&self) {
        let mut state = self.state();
        let mut unpinned = state.queue.unpin();
        for ((handle, block), pinned) in state.queue.take_pushes(None) {
            if let Some(served) = state.handles.get_mut(&handle) {
                let slots = served.slots_of(block, self.node.slot_bytes());
                served.credit.accepted = served.credit.accepted.saturating_sub(slots);
                served.credit.declined = served.credit.declined.saturating_add(slots);
            }
            unpinned.push(pinned);
        }
        let budgets: Vec<BudgetId> = state.handles.values().map(|served| *served.budget).collect();
        drop(state);
        Pinned::release(unpinned);
        // The peer has not got what was to be pushed, and which of it is not known.
        let downstream = self.downstream();
        self.node.about_downstream(|node, _| budgets.iter().for_each(|budget| node.forget_held(downstream, *budget)));
    }

    fn next(&self, urgency: Urgency) -> Option<Outgoing> {
        let mut state = self.state();
        if urgency == Urgency::Demand
            && let Some(frame) = state.frames.pop_front()
        {
            drop(state);
            self.answered.notify_one();
            return Some(Outgoing::Frame(frame));
        }
        let (key, pinned, is_push) = match state.queue.next(urgency) {
            Some((key, pinned)) => (key, pinned, false),
            None if urgency == Urgency::Demand => return None,
            None => match state.queue.next_push() {
                Some((key, pinned)) => (key, pinned, true),
                None => return state.last_frames.pop_front().map(Outgoing::Last),
            },
        };
        let served = state.handles.get_mut(&key.0).expect("a handle ends with its blocks");
        if is_push {
            let slots = served.slots_of(key.1, self.node.slot_bytes());
            served.credit.accepted = served.credit.accepted.saturating_sub(slots);
        }
        Some(Outgoing::Block(key, Arc::clone(&*served.grid), pinned, is_push))
    }

    /// The message of a block. The block's slots are given back.
    fn message(
        &self,
        key: Key,
        grid: &OpenGrid,
        pinned: Pinned,
        is_push: bool,
        coder: &mut Coder,
        load: &LinkLoad,
    ) -> Bytes {
        let block_bytes = grid.block_bytes(key.1) as usize;
        let mut block = Vec::with_capacity(block_bytes);
        for slot in &pinned.bytes.slots {
            let slot = slot.as_ref();
            block.extend_from_slice(&slot[..slot.len().min(block_bytes - block.len())]);
        }
        let mut crc = pinned.bytes.crc;
        drop(pinned);
        if Endianness::NATIVE == Endianness::Big {
            // A swap is its own reverse.
            grid.dtype.swap_to_native(&mut block, Endianness::Little);
            crc = crate::crc(&block);
        }
        let wanted = match self.state().handles.get_mut(&key.0) {
            Some(served) => served.chooser.choose(block_bytes, load),
            None => Encoding::None,
        };
        let mut message = vec![0; BlockHeader::BYTES];
        let begin = Instant::now();
        let encoding = coder.encode(&block, grid.dtype, wanted, &mut message);
        let took = begin.elapsed();
        if let Some(served) = self.state().handles.get_mut(&key.0) {
            served.chooser.record(wanted, block_bytes, message.len() - BlockHeader::BYTES, took);
        }
        let header =
            BlockHeader { handle: key.0, block: key.1, is_push, encoding, block_bytes: block_bytes as u32, crc };
        header.write(message.first_chunk_mut().expect("a message begins with a header"));
        message.into()
    }

    /// Does what the peer asks for. Returns a refusal, or why the link ended.
    async fn receive(self: &Arc<Self>, mut receiver: LinkReceiver, application: &str) -> Result<Refusal, String> {
        loop {
            // A peer that asks and does not take the answers waits.
            while self.state().frames.len() >= MAX_ANSWERS {
                self.answered.notified().await;
            }
            let message = match receiver.recv().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err("the peer has ended the link".into()),
                Err(error) => return Err(with_causes(&error)),
            };
            let frame = match ReaderFrame::decode(&message) {
                Ok(frame) => frame,
                Err(error) => return Ok(Refusal::protocol(with_causes(&error))),
            };
            if let Err(refusal) = self.handle(frame, application).await {
                return Ok(refusal);
            }
            self.begin();
        }
    }

    async fn handle(self: &Arc<Self>, frame: ReaderFrame, application: &str) -> Result<(), Refusal> {
        match frame {
            ReaderFrame::Hello(_) => return Err(Refusal::protocol("a second greeting")),
            ReaderFrame::List { question } => {
                // A node whose own upstreams do not answer has nothing to offer now.
                let datasets = self.library.list(&self.peer).await.unwrap_or_default();
                self.answer(ServerFrame::Listed { question, datasets });
            }
            ReaderFrame::Describe { question, dataset } => {
                let described = self.library.describe(&dataset, &self.peer).await;
                let description =
                    described.map_err(Denial::from).and_then(|described| match check_description(&described) {
                        Ok(()) => Ok((*described).clone()),
                        Err(error) => Err(Denial { reason: DenialReason::Source, text: with_causes(&error) }),
                    });
                self.answer(ServerFrame::Described { question, description });
            }
            ReaderFrame::Open { handle, dataset, array, grid, generation } => {
                if self.state().handles.contains_key(&handle) {
                    return Err(Refusal::protocol("a handle that is in use is opened"));
                }
                let outcome = if self.state().handles.len() >= MAX_HANDLES {
                    let text = format!("a link has {MAX_HANDLES} handles at most");
                    Err(Denial { reason: DenialReason::Full, text })
                } else {
                    self.library.open_for(&dataset, array, &grid, generation, application, &self.peer).await
                };
                let outcome = outcome.map(|(grid, budget)| {
                    let mut state = self.state();
                    let chooser = Chooser::new(state.encodings);
                    let (presender, credit) = (None, Credit::default());
                    state.handles.insert(handle, Served { grid, budget, chooser, presender, credit });
                });
                self.answer(ServerFrame::Opened { handle, outcome });
            }
            ReaderFrame::Close { handle } => drop(self.close(handle)),
            ReaderFrame::Get { handle, blocks, urgency } => self.get(handle, &blocks, urgency)?,
            ReaderFrame::Raise { handle, blocks } => {
                let mut state = self.state();
                blocks.iter().flat_map(|run| run.blocks()).for_each(|block| state.queue.raise((handle, block)));
                drop(state);
                self.demand.notify_one();
            }
            ReaderFrame::Cancel { handle, blocks } => {
                self.drop_blocks(blocks.iter().flat_map(|run| run.blocks()).map(|block| (handle, block)));
            }
            ReaderFrame::Warm { handle, blocks } => {
                if let Some((grid, budget)) = self.served(handle) {
                    // A budget keeps as many as it says.
                    let _ = self.node.prefetch(budget, blocks_of(&grid, &blocks)?);
                }
            }
            ReaderFrame::Status { question } => {
                let status = self.library.status_for(&self.peer);
                self.answer(ServerFrame::Status { question, status });
            }
            ReaderFrame::Credit { handle, slots } => self.credited(handle, slots),
            ReaderFrame::Recall { handle } => self.recalled(handle),
            ReaderFrame::Reading { handle, selection } => {
                let (figures, storage) = (self.state().figures, self.library.path());
                let rate = figures.bytes_per_second.unwrap_or(storage.bytes_per_second);
                let path = Path {
                    round_trip: figures.round_trip.unwrap_or(DEFAULT_ROUND_TRIP),
                    bytes_per_second: rate.min(storage.bytes_per_second),
                    ..storage
                };
                self.present(handle, |presender, node, now| {
                    // A selection of another array is nothing that could be sent.
                    let _ = presender.read(node, &selection, &path, now);
                });
            }
            ReaderFrame::Intend { handle, regions } => {
                let selections: Vec<Selection> = regions.into_iter().map(Selection::from).collect();
                self.present(handle, |presender, node, _| {
                    // Regions that leave the array are no news.
                    let _ = presender.tell(node, &selections);
                });
            }
            ReaderFrame::Have { handle, blocks, holds } => {
                if let Some((grid, budget)) = self.served(handle) {
                    let blocks = blocks_of(&grid, &blocks)?;
                    let downstream = self.downstream();
                    // An array that has ended has no blocks to tell of.
                    let _ =
                        self.node.about_downstream(|node, _| node.downstream_holds(downstream, budget, blocks, holds));
                }
            }
            ReaderFrame::Fate { handle, used, unused } => self.present(handle, |presender, node, now| {
                presender.feedback(node, used.into(), unused.into(), now);
            }),
        }
        Ok(())
    }

    /// The peer promises slots for blocks that it does not ask for.
    fn credited(&self, handle: Handle, slots: u32) {
        let max = self.node.status().slots / MAX_CREDIT_PART;
        let (budget, accepted) = {
            let mut state = self.state();
            let before = state.presender_of_another(handle);
            let all = state.handles.values().map(|served| served.credit.accepted).fold(0, u32::saturating_add);
            let Some(served) = state.handles.get_mut(&handle) else { return };
            let accepted = slots.min(max.saturating_sub(all));
            served.credit.accepted += accepted;
            served.credit.declined = served.credit.declined.saturating_add(slots - accepted);
            if served.presender.is_none() {
                let budget = *served.budget;
                let new = || Presender::new(self.downstream(), budget, &served.grid.array_shape).keep_reads(false);
                served.presender = Some(before.map_or_else(new, |before| before.for_budget(budget)));
            }
            (*served.budget, accepted)
        };
        let downstream = self.downstream();
        // An array that has ended takes none.
        let _ = self.node.about_downstream(|node, _| node.credited(downstream, budget, accepted));
    }

    /// The peer wants the credit back that is not used.
    fn recalled(&self, handle: Handle) {
        let Some((_, budget)) = self.served(handle) else { return };
        let downstream = self.downstream();
        let unused = self.node.about_downstream(|node, _| node.recalled(downstream, budget));
        let mut state = self.state();
        let Some(served) = state.handles.get_mut(&handle) else { return };
        let slots = unused + std::mem::take(&mut served.credit.declined);
        served.credit.accepted = served.credit.accepted.saturating_sub(unused);
        state.last_frames.push_back(ServerFrame::Returned { handle, slots });
        drop(state);
        self.ahead.notify_one();
    }

    /// Has the presender of a handle work, without the link's lock.
    fn present(&self, handle: Handle, work: impl FnOnce(&mut Presender, &mut cache::Node, Instant)) {
        let presender = self.state().handles.get_mut(&handle).and_then(|served| served.presender.take());
        let Some(mut presender) = presender else { return };
        self.node.about_downstream(|node, now| work(&mut presender, node, now));
        if let Some(served) = self.state().handles.get_mut(&handle) {
            served.presender = Some(presender);
        }
    }

    fn downstream(&self) -> DownstreamId {
        *self.downstream.get().expect("a link is known to its node")
    }

    fn get(&self, handle: Handle, runs: &[Run], urgency: Urgency) -> Result<(), Refusal> {
        // A handle that was refused or has ended: the peer knows, or will.
        let Some((grid, _)) = self.served(handle) else { return Ok(()) };
        let blocks = blocks_of(&grid, runs)?;
        if grid.is_stale() {
            self.tell_stale(handle);
            return Ok(());
        }
        let mut state = self.state();
        if state.queue.asked() + blocks.len() > MAX_ASKED {
            drop(state);
            let text = format!("more than {MAX_ASKED} blocks are asked for and not sent");
            self.answer(ServerFrame::Fault { handle, blocks: runs.to_vec(), fault: WireFault::Overrun, text });
            return Ok(());
        }
        // The source may have changed just now.
        if state.handles.contains_key(&handle) {
            blocks.into_iter().for_each(|block| state.queue.ask((handle, block), urgency));
        }
        Ok(())
    }

    /// Asks the node for as many blocks as may be begun.
    fn begin(self: &Arc<Self>) {
        loop {
            let (key, served) = {
                let mut state = self.state();
                let Some(key) = state.queue.begin() else { return };
                (key, state.handles.get(&key.0).map(|served| (Arc::clone(&*served.grid), *served.budget)))
            };
            let Some((grid, budget)) = served else {
                self.drop_blocks([key]);
                continue;
            };
            let downstream = self.downstream();
            if self.node.about_downstream(|node, _| node.is_answered_by_push(downstream, budget, key.1)) {
                self.drop_blocks([key]);
                continue;
            }
            let receiver: Arc<dyn Receiver> = Arc::new(ForPeer { link: Arc::downgrade(self), key, grid: grid.id });
            match self.node.read_blocks(budget, vec![key.1], &receiver) {
                Ok(request) => {
                    let unwanted = self.state().queue.requested(key, request);
                    unwanted.into_iter().for_each(|request| self.node.cancel(request));
                }
                // The budget of a grid ends with it.
                Err(_) if grid.is_stale() => self.tell_stale(key.0),
                Err(error) => self.fault(key, WireFault::Missing, with_causes(&error)),
            }
        }
    }

    fn fault(&self, key: Key, fault: WireFault, text: String) {
        self.drop_blocks([key]);
        let blocks = runs_of([key.1]);
        self.answer(ServerFrame::Fault { handle: key.0, blocks, fault, text });
    }

    fn tell_stale(&self, handle: Handle) {
        if self.close(handle).is_some() {
            // The generation now is asked for by a description.
            self.answer(ServerFrame::Stale { handle, generation: 0 });
        }
    }

    fn answer(&self, frame: ServerFrame) {
        self.state().frames.push_back(frame);
        self.demand.notify_one();
    }

    fn served(&self, handle: Handle) -> Option<(Arc<OpenGrid>, BudgetId)> {
        self.state().handles.get(&handle).map(|served| (Arc::clone(&*served.grid), *served.budget))
    }

    /// The link is over.
    fn end(&self) {
        let mut state = self.state();
        let keys = state.queue.keys(None);
        let mut removed = state.removed(keys);
        removed.pinned.extend(state.queue.take_pushes(None).into_iter().map(|(_, pinned)| pinned));
        drop(state);
        removed.give_back(&self.node);
    }

    /// Ends a handle, and drops the blocks that were asked for by it.
    fn close(&self, handle: Handle) -> Option<Served> {
        let mut state = self.state();
        let served = state.handles.remove(&handle);
        let keys = state.queue.keys(Some(handle));
        let mut removed = state.removed(keys);
        removed.pinned.extend(state.queue.take_pushes(Some(handle)).into_iter().map(|(_, pinned)| pinned));
        drop(state);
        removed.give_back(&self.node);
        if let Some(served) = &served {
            // The credit, and what the peer was known to hold, go with the handle.
            let (downstream, budget) = (self.downstream(), *served.budget);
            self.node.about_downstream(|node, _| {
                node.cancel_presend(downstream, budget);
                let _ = node.recalled(downstream, budget);
                node.forget_held(downstream, budget);
            });
        }
        served
    }

    fn drop_blocks(&self, keys: impl IntoIterator<Item = Key>) {
        let removed = self.state().removed(keys);
        removed.give_back(&self.node);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether a handle means that array still.
    fn means(&self, handle: Handle, grid: DatasetId) -> bool {
        self.handles.get(&handle).is_some_and(|served| served.grid.id == grid)
    }

    /// The presender of the handle that the peer opened last for the same array: it goes on with
    /// another division of it.
    fn presender_of_another(&self, handle: Handle) -> Option<Presender> {
        let key = &self.handles.get(&handle)?.grid.key;
        let is_same = |other: &&Served| {
            let other = &other.grid.key;
            (&other.dataset, other.array, other.generation) == (&key.dataset, key.array, key.generation)
        };
        let others = self.handles.iter().filter(|(other, served)| **other != handle && is_same(served));
        others.filter(|(_, served)| served.presender.is_some()).max_by_key(|(other, _)| **other)?.1.presender.clone()
    }

    fn removed(&mut self, keys: impl IntoIterator<Item = Key>) -> Removed {
        let mut removed = Removed::default();
        for (request, block) in keys.into_iter().filter_map(|key| self.queue.remove(key)) {
            match block {
                // Its request is over.
                Some(block) => removed.pinned.push(block),
                None => removed.requests.extend(request),
            }
        }
        removed
    }
}

/// What the node gets back of blocks that nobody wants, without the link's lock.
#[derive(Default)]
#[must_use]
struct Removed {
    requests: Vec<RequestId>,
    pinned: Vec<Pinned>,
}

impl Removed {
    fn give_back(self, node: &Arc<Node>) {
        Pinned::release(self.pinned);
        self.requests.into_iter().for_each(|request| node.cancel(request));
    }
}

/// The rate of a link, asked for now and then: statistics cost more than a block.
#[derive(Default)]
struct SentRate {
    figures: LinkFigures,
    asked: Option<Instant>,
    /// The last message waited for room: the link has a send buffer to work on.
    has_waited: bool,
}

impl SentRate {
    fn load(&mut self, sender: &LinkSender, now: Instant) -> LinkLoad {
        if self.asked.is_none_or(|asked| now.saturating_duration_since(asked) >= MAX_RATE_AGE) {
            self.figures = sender.figures();
            self.asked = Some(now);
        }
        let queued_bytes = if self.has_waited { SEND_BUFFER_BYTES } else { 0 };
        LinkLoad { bytes_per_second: self.figures.bytes_per_second, queued_bytes }
    }

    /// A message was taken after that time.
    fn sent(&mut self, took: Duration) {
        self.has_waited = took >= MIN_WAIT;
    }
}

enum Outgoing {
    Frame(ServerFrame),
    Last(ServerFrame),
    Block(Key, Arc<OpenGrid>, Pinned, bool),
}

/// The way of blocks that a peer has not asked for.
struct ToPeer(Weak<ServerLink>);

impl Outlet for ToPeer {
    fn present(&self, budget: BudgetId, pinned: Pinned) {
        let Some(link) = self.0.upgrade() else { return };
        let mut state = link.state();
        let of = state.handles.iter().find(|(_, served)| {
            *served.budget == budget && served.grid.id == pinned.block.dataset && !served.grid.is_stale()
        });
        match of.map(|(handle, _)| *handle) {
            Some(handle) => {
                state.queue.push((handle, pinned.block.index), pinned);
                drop(state);
                link.ahead.notify_one();
            }
            None => {
                drop(state);
                drop(pinned);
            }
        }
    }
}

impl Receiver for ForPeer {
    fn block(&self, _: RequestId, pinned: Pinned) {
        let Some(link) = self.link.upgrade() else { return };
        let mut state = link.state();
        let unwanted =
            if state.means(self.key.0, self.grid) { state.queue.ready(self.key, pinned) } else { Some(pinned) };
        drop(state);
        if unwanted.is_none() {
            link.demand.notify_one();
            link.ahead.notify_one();
        }
    }

    fn ended(&self, _: RequestId, end: Result<(), Failure>) {
        let (Some(link), Err(failure)) = (self.link.upgrade(), end) else { return };
        if !link.state().means(self.key.0, self.grid) {
            return;
        }
        match failure.fault {
            Fault::Changed => link.tell_stale(self.key.0),
            fault => link.fault(self.key, wire_fault(fault), failure.text.to_string()),
        }
    }
}

impl Refusal {
    fn protocol(text: impl Into<String>) -> Self {
        Self { reason: RefusedReason::Protocol, text: text.into() }
    }
}

/// The blocks of runs, each of which the array has.
fn blocks_of(grid: &OpenGrid, runs: &[Run]) -> Result<Vec<BlockIndex>, Refusal> {
    let blocks = runs.iter().flat_map(|run| run.blocks());
    let known = blocks.map(|block| grid.block_id(block).map(|id| id.index));
    known.collect::<Option<_>>().ok_or_else(|| Refusal::protocol("the array has no such block"))
}

fn wire_fault(fault: Fault) -> WireFault {
    match fault {
        Fault::Missing => WireFault::Missing,
        Fault::Corrupt => WireFault::Corrupt,
        Fault::Denied => WireFault::Denied,
        _ => WireFault::Unreachable,
    }
}

/// One link gets so much of the node's memory for blocks that its peer does not ask for.
const MAX_CREDIT_PART: u32 = 8;
/// The round trip of a link that has sent nothing yet; the credit bounds what is sent.
const DEFAULT_ROUND_TRIP: Duration = Duration::from_millis(20);
/// The bytes that wait unsent where a message waits for room: the default of streams, and that of
/// the connections of Celeritas here.
const SEND_BUFFER_BYTES: u64 = 4 << 20;
/// A message that finds room is taken in some microseconds.
const MIN_WAIT: Duration = Duration::from_micros(300);
/// The time for which the rate of a link is taken to be the same.
const MAX_RATE_AGE: Duration = Duration::from_millis(20);
/// The time that a peer has for its greeting, and a refused one for the reason.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The blocks that a peer may have asked for and not got.
const MAX_ASKED: usize = 8192;
/// The arrays and views that one link reads.
const MAX_HANDLES: usize = 256;
/// The answers that wait for a peer to take them: each may be a description.
const MAX_ANSWERS: usize = 16;
/// The bytes of blocks of one urgency that a link keeps in memory at most: enough for a disk to
/// work on, and for 2 Gbit/s over 30 ms.
const MAX_BEGUN_BYTES: u64 = 8 << 20;
/// The usual size of a block, by which the bytes are counted in blocks.
const DEFAULT_BLOCK_BYTES: u32 = 256 << 10;
/// The time for which a message that does not leave may keep blocks in memory.
const PIN_LIMIT: Duration = Duration::from_secs(5);
