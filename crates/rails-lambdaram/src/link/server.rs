//! One link of a node that serves: the peer's questions, and the blocks that it asks for.

use super::{
    carrier::{LinkReceiver, LinkSender},
    reader::words,
    server_queue::{Key, ServerQueue},
};
use crate::{
    encoding::{self, Chooser, Coder, LinkLoad},
    library::{Library, Peer},
    node::{Failure, Lease, Node, OpenGrid, Pinned, Receiver},
    wire::{
        BlockHeader, Denial, DenialReason, Encoding, Encodings, Handle, ReaderFrame, RefusedReason,
        Run, ServerFrame, Urgency, VERSION, Welcome, WireFault, check_description, runs_of,
    },
};
use bytes::Bytes;
use rails_array::BlockIndex;
use rails_cache::{BudgetId, Fault, RequestId};
use rails_formats::data_type::Endianness;
use rails_multirail::Priority;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

/// A link to a node that reads.
struct ServerLink {
    node: Arc<Node>,
    library: Arc<Library>,
    peer: Peer,
    state: Mutex<State>,
    /// Blocks of demand, or frames, can be sent.
    demand: Notify,
    /// Blocks ahead of time can be sent.
    ahead: Notify,
}

struct State {
    queue: ServerQueue,
    frames: VecDeque<ServerFrame>,
    handles: HashMap<Handle, Served>,
    encodings: Encodings,
}

/// An array that the peer reads.
struct Served {
    grid: Lease,
    budget: BudgetId,
    chooser: Chooser,
}

/// Gets one block for a peer.
struct ForPeer {
    link: std::sync::Weak<ServerLink>,
    key: Key,
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
        Ok(Err(error)) => return words(&error),
        Ok(Ok(None)) => return "the peer has ended the link".into(),
        Ok(Ok(Some(message))) => greeted(node, &message),
    };
    let mut farewell = sender.clone();
    let refused = match application {
        Err(refusal) => refusal,
        Ok((application, encodings, welcome)) => {
            let link = Arc::new(ServerLink::new(node, library, peer, encodings, welcome));
            let ends = tokio::select! {
                end = link.send(sender.clone(), Urgency::Demand) => Err(end),
                end = link.send(sender, Urgency::Ahead) => Err(end),
                end = link.receive(receiver, &application) => end,
            };
            link.end();
            match ends {
                Err(end) => return end,
                Ok(refusal) => refusal,
            }
        }
    };
    let Refusal { reason, text } = refused;
    let frame = ServerFrame::Refused { reason, text: text.clone() };
    // The peer may be gone.
    let _ = timeout(GREETING_LIMIT, farewell.send(vec![frame.encode()], Priority::HIGHEST)).await;
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
        Err(error) => return Err(Refusal::protocol(words(&error))),
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
            handles: HashMap::new(),
            encodings,
        };
        Self {
            node: Arc::clone(node),
            library: Arc::clone(library),
            peer,
            state: Mutex::new(state),
            demand: Notify::new(),
            ahead: Notify::new(),
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
            let (message, priority) = match self.next(urgency) {
                None => {
                    work.notified().await;
                    continue;
                }
                Some(Outgoing::Frame(frame)) => (vec![frame.encode()], Priority::HIGHEST),
                Some(Outgoing::Block(key, grid, pinned)) => {
                    let load = LinkLoad { bytes_per_second: rate.of(&sender), queued_bytes: 0 };
                    let message = self.message(key, &grid, pinned, &mut coder, &load);
                    // There is room for another block.
                    self.begin();
                    (vec![message], priority)
                }
            };
            let mut sending = std::pin::pin!(sender.send(message, priority));
            let sent = tokio::select! {
                sent = &mut sending => sent,
                () = sleep(PIN_LIMIT) => {
                    // A peer that takes nothing keeps no memory of others.
                    let unpinned = self.state().queue.unpin();
                    Pinned::release(unpinned);
                    sending.await
                }
            };
            if let Err(error) = sent {
                return words(&error);
            }
        }
    }

    fn next(&self, urgency: Urgency) -> Option<Outgoing> {
        let mut state = self.state();
        if urgency == Urgency::Demand
            && let Some(frame) = state.frames.pop_front()
        {
            return Some(Outgoing::Frame(frame));
        }
        let (key, pinned) = state.queue.next(urgency)?;
        let served = state.handles.get(&key.0).expect("a handle ends with its blocks");
        Some(Outgoing::Block(key, Arc::clone(&*served.grid), pinned))
    }

    /// The message of a block. The block's slots are given back.
    fn message(
        &self,
        key: Key,
        grid: &OpenGrid,
        pinned: Pinned,
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
        let encoding = coder.encode(&block, grid.dtype.bytes() as usize, wanted, &mut message);
        let took = begin.elapsed();
        if let Some(served) = self.state().handles.get_mut(&key.0) {
            served.chooser.record(wanted, block_bytes, message.len() - BlockHeader::BYTES, took);
        }
        let header = BlockHeader {
            handle: key.0,
            block: key.1,
            is_push: false,
            encoding,
            block_bytes: block_bytes as u32,
            crc,
        };
        header.write(message.first_chunk_mut().expect("a message begins with a header"));
        message.into()
    }

    /// Does what the peer asks for. Returns a refusal, or why the link ended.
    async fn receive(self: &Arc<Self>, mut receiver: LinkReceiver, application: &str) -> Result<Refusal, String> {
        loop {
            let message = match receiver.recv().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err("the peer has ended the link".into()),
                Err(error) => return Err(words(&error)),
            };
            let frame = match ReaderFrame::decode(&message) {
                Ok(frame) => frame,
                Err(error) => return Ok(Refusal::protocol(words(&error))),
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
                let description = described.map_err(Denial::from).and_then(|described| match check_description(&described) {
                    Ok(()) => Ok((*described).clone()),
                    Err(error) => Err(Denial { reason: DenialReason::Source, text: short(words(&error)) }),
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
                    state.handles.insert(handle, Served { grid, budget, chooser });
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
                let status = self.library.status();
                self.answer(ServerFrame::Status { question, status });
            }
            // Blocks are sent to those alone who ask for them.
            ReaderFrame::Credit { .. }
            | ReaderFrame::Recall { .. }
            | ReaderFrame::Reading { .. }
            | ReaderFrame::Intend { .. }
            | ReaderFrame::Have { .. }
            | ReaderFrame::Fate { .. } => {}
        }
        Ok(())
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
                (key, state.handles.get(&key.0).map(|served| (Arc::clone(&*served.grid), served.budget)))
            };
            let Some((grid, budget)) = served else {
                self.drop_blocks([key]);
                continue;
            };
            let receiver: Arc<dyn Receiver> = Arc::new(ForPeer { link: Arc::downgrade(self), key });
            match self.node.read_blocks(budget, vec![key.1], &receiver) {
                Ok(request) => {
                    let unwanted = self.state().queue.requested(key, request);
                    unwanted.into_iter().for_each(|request| self.node.cancel(request));
                }
                // The budget of a grid ends with it.
                Err(_) if grid.is_stale() => self.tell_stale(key.0),
                Err(error) => self.fault(key, WireFault::Missing, words(&error)),
            }
        }
    }

    fn fault(&self, key: Key, fault: WireFault, text: String) {
        self.drop_blocks([key]);
        let blocks = runs_of([key.1]);
        self.answer(ServerFrame::Fault { handle: key.0, blocks, fault, text: short(text) });
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
        self.state().handles.get(&handle).map(|served| (Arc::clone(&*served.grid), served.budget))
    }

    /// The link is over.
    fn end(&self) {
        let mut state = self.state();
        let keys = state.queue.keys(None);
        let removed = state.removed(keys);
        drop(state);
        removed.give_back(&self.node);
    }

    /// Ends a handle, and drops the blocks that were asked for by it.
    fn close(&self, handle: Handle) -> Option<Served> {
        let mut state = self.state();
        let served = state.handles.remove(&handle);
        let keys = state.queue.keys(Some(handle));
        let removed = state.removed(keys);
        drop(state);
        removed.give_back(&self.node);
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
    blocks: u32,
    bytes_per_second: Option<u64>,
}

impl SentRate {
    fn of(&mut self, sender: &LinkSender) -> Option<u64> {
        if self.blocks.is_multiple_of(BLOCKS_PER_RATE) {
            self.bytes_per_second = sender.bytes_per_second();
        }
        self.blocks = self.blocks.wrapping_add(1);
        self.bytes_per_second
    }
}

enum Outgoing {
    Frame(ServerFrame),
    Block(Key, Arc<OpenGrid>, Pinned),
}

impl Receiver for ForPeer {
    fn block(&self, _: RequestId, pinned: Pinned) {
        let Some(link) = self.link.upgrade() else { return };
        let unwanted = link.state().queue.ready(self.key, pinned);
        if unwanted.is_none() {
            link.demand.notify_one();
            link.ahead.notify_one();
        }
    }

    fn ended(&self, _: RequestId, end: Result<(), Failure>) {
        let (Some(link), Err(failure)) = (self.link.upgrade(), end) else { return };
        match failure.fault {
            Fault::Changed => link.tell_stale(self.key.0),
            fault => link.fault(self.key, wire_fault(fault), failure.text.to_string()),
        }
    }
}

impl Refusal {
    fn protocol(text: impl Into<String>) -> Self {
        Self { reason: RefusedReason::Protocol, text: short(text.into()) }
    }
}

/// The blocks of runs, each of which the array has.
fn blocks_of(grid: &OpenGrid, runs: &[Run]) -> Result<Vec<BlockIndex>, Refusal> {
    let blocks = runs.iter().flat_map(|run| run.blocks());
    let known = blocks.map(|block| grid.block_id(block).map(|id| id.index));
    known.collect::<Option<_>>().ok_or_else(|| Refusal::protocol("the array has no such block"))
}

/// A text that fits a message.
fn short(mut text: String) -> String {
    let end = (0..=crate::wire::MAX_TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    text
}

fn wire_fault(fault: Fault) -> WireFault {
    match fault {
        Fault::Missing => WireFault::Missing,
        Fault::Corrupt => WireFault::Corrupt,
        Fault::Denied => WireFault::Denied,
        _ => WireFault::Unreachable,
    }
}

/// The blocks for which the rate of a link is taken to be the same.
const BLOCKS_PER_RATE: u32 = 16;
/// The time that a peer has for its greeting, and a refused one for the reason.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The blocks that a peer may have asked for and not got.
const MAX_ASKED: usize = 8192;
/// The arrays and views that one link reads.
const MAX_HANDLES: usize = 1024;
/// The bytes of blocks of one urgency that a link keeps in memory at most: enough for a disk to
/// work on, and for 2 Gbit/s over 30 ms.
const MAX_BEGUN_BYTES: u64 = 8 << 20;
/// The usual size of a block, by which the bytes are counted in blocks.
const DEFAULT_BLOCK_BYTES: u32 = 256 << 10;
/// The time for which a message that does not leave may keep blocks in memory.
const PIN_LIMIT: Duration = Duration::from_secs(5);
