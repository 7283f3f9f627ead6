//! One link to a node that serves: the driver of [`ReaderProtocol`].

use super::{
    carrier::{LinkReceiver, LinkSender},
    dialer::Dialer,
    reader_protocol::{Answer, Event, FirstMessages, Question, ReaderProtocol},
};
use crate::{
    encoding::{self, Coder},
    node::{Landed, Landing, Node, OpenGrid},
    wire::{
        BlockHeader, DenialReason, Hello, NodeId, ReaderFrame, RefusedReason, Run, ServerMessage, Urgency, VERSION,
        WireFault,
    },
};
use bytes::Bytes;
use rails_array::{Region, Selection};
use rails_bind::memory::MemoryError;
use rails_cache::{BlockId, Fault, UpstreamId, pattern::Path};
use rails_formats::data_type::Endianness;
use rails_multirail::{Priority, error::with_causes};
use std::{
    collections::HashMap,
    fmt, io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

/// A link to one node, which is opened when blocks or answers are wanted, and opened again after it
/// was lost.
#[derive(Debug)]
pub(super) struct ReaderLink {
    /// The node's address, for people.
    name: Arc<str>,
    dialer: Dialer,
    greeting: Greeting,
    patience: Duration,
    /// The name of the peer at the node, if the peer may send blocks before they are asked for.
    presends: Option<UpstreamId>,
    node: Weak<Node>,
    state: Mutex<LinkState>,
    /// There are messages to send, or blocks or answers are wanted, or the link is to end.
    work: Notify,
    /// Whether the link is to end when all messages are sent.
    is_closing: AtomicBool,
    /// Whether the link has ended for good.
    has_ended: watch::Sender<bool>,
}

/// What a node says of itself when it opens a link.
#[derive(Debug, Clone)]
pub(crate) struct Greeting {
    /// The nodes between the application and the link, this one among them.
    pub(crate) path: Vec<NodeId>,
    pub(crate) application: String,
    pub(crate) max_block_bytes: u32,
    /// The size of a slot of this node, in which credit is counted.
    pub(crate) slot_bytes: u64,
}

#[derive(Debug)]
struct LinkState {
    protocol: ReaderProtocol,
    status: LinkStatus,
    /// The link was ended for good.
    is_closed: bool,
    answers: HashMap<u32, oneshot::Sender<Result<Answer, LinkError>>>,
}

/// The state of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    /// Nothing has been asked of it yet, or it was lost while nothing was.
    Idle,
    /// A connection is being opened.
    Dialing,
    /// The peer was greeted.
    Up,
    /// No connection could be opened, for this reason.
    Down(Arc<str>),
}

impl fmt::Display for LinkStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Dialing => f.write_str("connecting"),
            Self::Up => f.write_str("up"),
            Self::Down(reason) => write!(f, "down: {reason}"),
        }
    }
}

/// Why a node gives no answer.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{node} cannot be asked: {reason}")]
pub struct LinkError {
    /// The address of the node.
    pub node: Arc<str>,
    /// The reason.
    pub reason: Arc<str>,
}

/// What a link asks of its owner when it cannot be opened.
pub(super) trait Fallback: Send + Sync {
    /// Takes over blocks that a lost link was asked for, or gives them back.
    fn take_over(&self, lost: &ReaderLink, grid: &Arc<OpenGrid>, block: BlockId, urgency: Urgency) -> bool;
}

impl ReaderLink {
    pub(super) fn new(
        name: Arc<str>,
        dialer: Dialer,
        greeting: Greeting,
        patience: Duration,
        presends: Option<UpstreamId>,
        node: &Arc<Node>,
    ) -> Arc<Self> {
        let state = LinkState {
            protocol: ReaderProtocol::new(),
            status: LinkStatus::Idle,
            is_closed: false,
            answers: HashMap::new(),
        };
        Arc::new(Self {
            name,
            dialer,
            greeting,
            patience,
            presends,
            node: Arc::downgrade(node),
            state: Mutex::new(state),
            work: Notify::new(),
            is_closing: AtomicBool::new(false),
            has_ended: watch::Sender::new(false),
        })
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn status(&self) -> LinkStatus {
        self.state().status.clone()
    }

    pub(super) fn path(&self) -> Path {
        self.state().protocol.path()
    }

    /// Whether the node is known to have the data of a grid.
    pub(super) fn knows(&self, grid: &OpenGrid) -> bool {
        self.state().protocol.knows(grid)
    }

    /// The node has the data of that generation of a dataset, and calls it by this number.
    pub(super) fn note_generation(&self, dataset: &Arc<str>, generation: u64, own: u64) {
        self.state().protocol.note_generation(dataset, generation, own);
    }

    /// The time in which everything that is asked for would come, in nanoseconds.
    pub(super) fn backlog(&self, block_bytes: u64) -> u64 {
        let state = self.state();
        let blocks = state.protocol.wanted() as u64;
        let rate = state.protocol.path().bytes_per_second.max(1);
        (u128::from(blocks) * u128::from(block_bytes) * 1_000_000_000 / u128::from(rate)) as u64
    }

    pub(super) fn want(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId], urgency: Urgency) {
        self.tell(grid);
        let is_closed = {
            let mut state = self.state();
            if !state.is_closed {
                state.protocol.want(grid, blocks, urgency);
            }
            state.is_closed
        };
        self.work.notify_one();
        if is_closed {
            self.fail_blocks(blocks, Fault::Unreachable, &self.error(CLOSED).to_string());
        }
    }

    pub(super) fn raise(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId]) {
        self.state().protocol.raise(grid, blocks);
        self.work.notify_one();
    }

    /// The application reads.
    pub(super) fn reading(&self, grid: &Arc<OpenGrid>, selection: &Selection) {
        if self.presends.is_some() {
            self.tell(grid);
            let mut state = self.state();
            // A node that was not there then needs no old news.
            if state.status == LinkStatus::Up {
                state.protocol.reading(grid, selection);
            }
            drop(state);
            self.work.notify_one();
        }
    }

    /// The application has announced the regions that it will read.
    pub(super) fn intend(&self, grid: &Arc<OpenGrid>, regions: &[Region]) {
        if self.presends.is_some() {
            // The credit goes first: a peer without any has nothing to send by.
            self.tell(grid);
            self.state().protocol.intend(grid, regions);
            self.work.notify_one();
        }
    }

    /// The node wants the credit for blocks of a grid back.
    pub(super) fn recall(&self, grid: &Arc<OpenGrid>) {
        let is_up = {
            let mut state = self.state();
            state.protocol.recall(grid);
            state.status == LinkStatus::Up
        };
        self.work.notify_one();
        if !is_up {
            self.lose_credit();
        }
    }

    /// Tells the peer about the memory of this node, if the peer sends blocks unasked.
    fn tell(&self, grid: &Arc<OpenGrid>) {
        let (Some(upstream), Some(node)) = (self.presends, self.node.upgrade()) else { return };
        let mut state = self.state();
        let credit = state.protocol.credit(grid);
        // Credit that is on its way when the link is lost would be nobody's.
        if state.status == LinkStatus::Up
            && let Some(news) = node.presend_news(upstream, grid, credit)
        {
            state.protocol.tell(grid, news);
        }
    }

    fn lose_credit(&self) {
        if let (Some(upstream), Some(node)) = (self.presends, self.node.upgrade()) {
            node.lose_upstream(upstream);
        }
    }

    pub(super) fn close(&self, grid: &Arc<OpenGrid>) {
        let blocks = self.state().protocol.close(grid);
        self.work.notify_one();
        self.fail_blocks(&blocks, Fault::Ended, "nobody reads the array any more");
    }

    /// Forgets everything, for a site that is gone: the grids lead back to this link.
    pub(super) fn forget_all(&self) {
        let past = std::mem::replace(&mut self.state().protocol, ReaderProtocol::new());
        drop(past);
    }

    pub(super) fn warm(&self, grid: &Arc<OpenGrid>, runs: impl Iterator<Item = Vec<Run>>) {
        self.state().protocol.warm(grid, runs);
        self.work.notify_one();
    }

    /// Asks the node, and opens the link for it.
    ///
    /// # Cancel safety
    /// Cancel safe: an answer that nobody waits for is dropped.
    pub(super) async fn ask(&self, question: Question) -> Result<Answer, LinkError> {
        let (sender, receiver) = oneshot::channel();
        let number = {
            let mut state = self.state();
            if state.is_closed {
                return Err(self.error(CLOSED));
            }
            let number = state.protocol.ask(question);
            state.answers.insert(number, sender);
            number
        };
        self.work.notify_one();
        let _forget = Forget { link: self, number };
        receiver.await.unwrap_or_else(|_| Err(self.error("the node of this process has ended")))
    }

    /// Ends the link for good, once all messages are sent, and waits until the peer has ended it,
    /// too.
    pub(super) async fn end(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.work.notify_one();
        let _ = timeout(FAREWELL, self.has_ended.subscribe().wait_for(|ended| *ended)).await;
    }

    /// Opens the link whenever something is wanted. It ends with the node, or when it is closed.
    pub(super) async fn run(self: Arc<Self>, fallback: Weak<dyn Fallback>) {
        self.keep_open(&fallback).await;
        self.state().is_closed = true;
        self.fail_all(CLOSED);
        self.has_ended.send_replace(true);
    }

    async fn keep_open(&self, fallback: &Weak<dyn Fallback>) {
        loop {
            while !self.state().protocol.is_wanted() {
                if self.is_closing() {
                    return;
                }
                self.work.notified().await;
            }
            let opened = self.open(fallback).await;
            if self.is_closing() || self.node.strong_count() == 0 {
                return;
            }
            match opened {
                Ok(end) => {
                    tracing::warn!(node = %self.name, reason = %end, "a link has ended");
                    self.lost(fallback);
                }
                Err(reason) => self.fail_all(&reason),
            }
        }
    }

    /// Opens a link, again and again for as long as wanted blocks may wait, and uses it. Returns
    /// why it ended.
    ///
    /// # Errors
    /// Why it could not be opened. A peer that does not welcome this node is as good as none.
    async fn open(&self, fallback: &Weak<dyn Fallback>) -> Result<String, String> {
        let deadline = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            self.state().status = LinkStatus::Dialing;
            let first = self.state().protocol.first_messages(self.hello());
            let encoded: Vec<Bytes> = first.frames.iter().map(ReaderFrame::encode).collect();
            let reason = match self.dialer.dial(&encoded).await {
                Err(error) => with_causes(&error),
                Ok((sender, receiver)) => {
                    let end = self.exchange(sender, receiver, &first, deadline).await;
                    if self.status() == LinkStatus::Up || self.is_closing() {
                        return Ok(end);
                    }
                    end
                }
            };
            // Callers with a question want to know now.
            self.fail_questions(&reason);
            self.hand_over(fallback);
            let left = deadline.saturating_duration_since(Instant::now());
            if !self.state().protocol.is_wanted() || left.is_zero() {
                return Err(reason);
            }
            tracing::info!(node = %self.name, reason, "a link does not open, and is tried again");
            sleep(pause.min(left)).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Sends and receives until the connection ends, which it does if the peer has not welcomed
    /// this node in time. Returns why it ended.
    async fn exchange(
        &self,
        sender: LinkSender,
        receiver: LinkReceiver,
        first: &FirstMessages,
        welcomed_by: Instant,
    ) -> String {
        let outdated = self.state().protocol.connected(first);
        self.fail_blocks(&outdated, Fault::Changed, "the source has changed");
        let (mut farewell, mut receiver) = (sender.clone(), receiver);
        let end = tokio::select! {
            end = self.send(sender) => end,
            end = self.receive(&mut receiver, welcomed_by) => end,
        };
        if self.is_closing() {
            let goodbye = async {
                farewell.finish().await?;
                while receiver.recv().await?.is_some() {}
                Ok::<(), io::Error>(())
            };
            // A peer that says no more has nothing that is waited for.
            let _ = timeout(FAREWELL, goodbye).await;
        }
        end
    }

    fn hello(&self) -> Hello {
        Hello {
            version: VERSION,
            path: self.greeting.path.clone(),
            application: self.greeting.application.clone(),
            max_block_bytes: self.greeting.max_block_bytes,
            encodings: encoding::SUPPORTED,
        }
    }

    fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    async fn send(&self, mut sender: LinkSender) -> String {
        loop {
            let frame = self.state().protocol.next_frame(Instant::now().into_std());
            match frame {
                None if self.is_closing() => return "it is closed".into(),
                None => self.work.notified().await,
                Some(frame) => {
                    if let Err(error) = sender.send(vec![frame.encode()], Priority::HIGHEST).await {
                        return with_causes(&error);
                    }
                }
            }
        }
    }

    async fn receive(&self, receiver: &mut LinkReceiver, welcomed_by: Instant) -> String {
        let mut is_greeted = false;
        let mut coder = Coder::default();
        loop {
            let message = if is_greeted {
                receiver.recv().await
            } else {
                match timeout_at(welcomed_by, receiver.recv()).await {
                    Ok(message) => message,
                    Err(_) => return "the peer does not answer the greeting".into(),
                }
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => return "the peer has ended the link".into(),
                Err(error) => return with_causes(&error),
            };
            let message = match ServerMessage::decode(message) {
                Err(error) => return with_causes(&error),
                Ok(message) => message,
            };
            let Some(node) = self.node.upgrade() else { return "the node of this process has ended".into() };
            // From here to the landing of a block nothing waits, so that no block is forgotten.
            let landing = match message {
                ServerMessage::Block(..) => Some(node.landing().await),
                ServerMessage::Frame(_) => None,
            };
            let slot_bytes = self.greeting.slot_bytes;
            let event = self.state().protocol.received(message, slot_bytes, Instant::now().into_std());
            // An answer makes room for the next question.
            self.work.notify_one();
            match event {
                Err(violation) => return violation.to_string(),
                Ok(Event::Welcome) => {
                    is_greeted = true;
                    self.state().status = LinkStatus::Up;
                }
                Ok(Event::Refused { reason, text }) => return refusal(reason, &text),
                Ok(_) if !is_greeted => return "the peer does not answer the greeting first".into(),
                Ok(event) => self.happened(&node, event, landing, &mut coder),
            }
        }
    }

    fn happened(
        &self,
        node: &Arc<Node>,
        event: Event,
        landing: Option<Result<Landing<'_>, Arc<MemoryError>>>,
        coder: &mut Coder,
    ) {
        match event {
            Event::Block { grid, block, header, payload } => {
                let landing = landing.expect("a block comes by a message that is one");
                let landed = self.land(node, &grid, block, &header, &payload, landing, coder);
                if header.is_push {
                    self.state().protocol.pushed(&grid, block, landed == Landed::Taken);
                }
            }
            Event::Returned { grid, slots } => {
                if let Some(upstream) = self.presends {
                    node.return_credit(upstream, &grid, slots);
                }
            }
            Event::Fault { blocks, fault, text } => {
                let text = format!("{}: {text}", self.name).into();
                blocks.into_iter().for_each(|block| node.fail(block, fault_of(fault), &text));
            }
            Event::Ended { grid, blocks, denial } => {
                let (fault, text) = match denial {
                    None => (Fault::Changed, "the source has changed".into()),
                    Some(denial) => (fault_of_denial(denial.reason), format!("{}: {}", self.name, denial.text)),
                };
                if fault == Fault::Changed {
                    node.outdate(&grid);
                }
                if let Some(upstream) = self.presends {
                    node.return_credit(upstream, &grid, u32::MAX);
                }
                if denial_ends(fault) {
                    grid.deny();
                }
                let text = text.into();
                blocks.into_iter().for_each(|block| node.fail(block, fault, &text));
            }
            Event::Answer { question, answer } => {
                let waiting = self.state().answers.remove(&question);
                if let Some(waiting) = waiting {
                    // The caller may be gone.
                    let _ = waiting.send(Ok(answer));
                }
            }
            Event::Welcome | Event::Refused { .. } | Event::Nothing => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a block is all of these")]
    fn land(
        &self,
        node: &Arc<Node>,
        grid: &OpenGrid,
        block: BlockId,
        header: &BlockHeader,
        payload: &Bytes,
        landing: Result<Landing<'_>, Arc<MemoryError>>,
        coder: &mut Coder,
    ) -> Landed {
        let landing = match landing {
            Ok(landing) => landing,
            Err(error) => {
                node.fail_without_memory(block, &error);
                return Landed::Unwanted;
            }
        };
        let decoded = coder.decode(payload, grid.dtype, header.encoding, header.block_bytes as usize);
        let mut bytes = match decoded {
            Ok(bytes) => bytes,
            Err(error) => {
                node.fail(block, Fault::Corrupt, &format!("{}: {}", self.name, with_causes(&error)).into());
                return Landed::Unwanted;
            }
        };
        if crate::crc(&bytes) != header.crc {
            let text = format!("{}: the checksum of a block is wrong", self.name);
            node.fail(block, Fault::Corrupt, &text.into());
            return Landed::Unwanted;
        }
        grid.dtype.swap_to_native(&mut bytes, Endianness::Little);
        let crc = if Endianness::NATIVE == Endianness::Little { header.crc } else { crate::crc(&bytes) };
        match self.presends.filter(|_| header.is_push) {
            Some(upstream) => node.land_push(&landing, upstream, grid, block, &bytes, crc),
            // A block that nobody wants any more is dropped.
            None => node.land_in(&landing, block, &bytes, crc),
        }
    }

    fn fail_blocks(&self, blocks: &[BlockId], fault: Fault, text: &str) {
        let Some(node) = self.node.upgrade() else { return };
        let text = text.into();
        blocks.iter().for_each(|block| node.fail(*block, fault, &text));
    }

    /// The connection is gone: other links take over what they can. Questions are asked again on
    /// the next one.
    fn lost(&self, fallback: &Weak<dyn Fallback>) {
        self.state().status = LinkStatus::Idle;
        self.lose_credit();
        self.hand_over(fallback);
    }

    fn hand_over(&self, fallback: &Weak<dyn Fallback>) {
        let Some(fallback) = fallback.upgrade() else { return };
        let given_up = self.state().protocol.give_up();
        for (grid, block, urgency) in given_up {
            if !fallback.take_over(self, &grid, block, urgency) {
                self.state().protocol.want(&grid, &[block], urgency);
            }
        }
    }

    fn fail_questions(&self, reason: &str) {
        let answers = {
            let mut state = self.state();
            let answers = std::mem::take(&mut state.answers);
            answers.keys().for_each(|number| state.protocol.forget(*number));
            answers
        };
        for answer in answers.into_values() {
            let _ = answer.send(Err(self.error(reason)));
        }
    }

    fn fail_all(&self, reason: &str) {
        self.fail_questions(reason);
        let given_up = {
            let mut state = self.state();
            state.status = LinkStatus::Down(reason.into());
            state.protocol.give_up()
        };
        let Some(node) = self.node.upgrade() else { return };
        let text: Arc<str> = self.error(reason).to_string().into();
        for (_, block, _) in given_up {
            node.fail(block, Fault::Unreachable, &text);
        }
    }

    fn error(&self, reason: &str) -> LinkError {
        LinkError { node: Arc::clone(&self.name), reason: reason.into() }
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets a question when its answer came, or when nobody waits for it.
struct Forget<'a> {
    link: &'a ReaderLink,
    number: u32,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let mut state = self.link.state();
        state.protocol.forget(self.number);
        let answer = state.answers.remove(&self.number);
        drop(state);
        drop(answer);
    }
}

fn refusal(reason: RefusedReason, text: &str) -> String {
    let why = match reason {
        RefusedReason::Version => "the peer speaks another version of the protocol",
        RefusedReason::Circle => "the peer gets its blocks from this node",
        RefusedReason::Protocol => "the peer does not understand this node",
        RefusedReason::Full => "the peer has as many links as it takes",
        RefusedReason::Ending => "the peer ends",
    };
    if text.is_empty() { why.into() } else { format!("{why}: {text}") }
}

fn fault_of(fault: WireFault) -> Fault {
    match fault {
        WireFault::Missing => Fault::Missing,
        WireFault::Corrupt => Fault::Corrupt,
        WireFault::Denied => Fault::Denied,
        WireFault::Unreachable | WireFault::Overrun => Fault::Unreachable,
    }
}

fn fault_of_denial(reason: DenialReason) -> Fault {
    match reason {
        DenialReason::Changed => Fault::Changed,
        DenialReason::Unknown => Fault::Denied,
        DenialReason::Grid => Fault::Missing,
        DenialReason::Full | DenialReason::Source => Fault::Unreachable,
    }
}

/// Whether a fault of a denied grid is one for all of its blocks, for as long as the link lasts.
fn denial_ends(fault: Fault) -> bool {
    matches!(fault, Fault::Missing | Fault::Unreachable)
}

const CLOSED: &str = "the site was closed";
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// A closed link waits so long for its peer.
const FAREWELL: Duration = Duration::from_secs(3);
