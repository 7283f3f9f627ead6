//! One link as the node that reads sees it, without I/O.

use super::meter::Meter;
use crate::{
    description::{DatasetDescription, DatasetEntry},
    node::{OpenGrid, PresendNews},
    wire::{
        BlockHeader, Denial, Handle, Hello, MAX_RUNS, NodeStatus, ReaderFrame, RefusedReason, Run, ServerFrame,
        ServerMessage, Urgency, WireFault, runs_of, split_regions, split_runs,
    },
};
use bytes::Bytes;
use rails_array::{BlockIndex, Layout, Region, Selection};
use rails_cache::{BlockId, DatasetId, Lost, pattern::Path};
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

/// The blocks that a node wants over one link, and the questions that it has.
///
/// A block is `wanted` from the call of [`want`](Self::want) until it arrives or cannot be had. If
/// the connection is lost, everything that is wanted is asked for again on the next one.
#[derive(Debug)]
pub(super) struct ReaderProtocol {
    /// The grids that have a number, by number.
    grids: BTreeMap<Handle, Arc<OpenGrid>>,
    handles: HashMap<DatasetId, Handle>,
    next_handle: u32,
    wanted: HashMap<BlockId, Wanted>,
    /// Blocks to ask for. A block that is not wanted any more, or by another queue, is passed over.
    queues: [VecDeque<BlockId>; 2],
    /// The number of blocks that were asked for and have not come.
    asked: usize,
    /// The number of blocks that the peer lets be asked for.
    max_asked: usize,
    frames: VecDeque<ReaderFrame>,
    /// Messages that go behind the questions for blocks that are waited for.
    notices: VecDeque<ReaderFrame>,
    /// The slots that the peer may use for blocks that it sends unasked, and the fate of such
    /// blocks that it was told of.
    credits: HashMap<DatasetId, Credit>,
    questions: BTreeMap<u32, Question>,
    next_question: u32,
    /// The peer's numbers of the generations of datasets, by the numbers of this node. The last
    /// ones of a dataset are kept.
    generations: HashMap<Arc<str>, VecDeque<(u64, u64)>>,
    meter: Meter,
}

/// The credit of a peer for one grid.
#[derive(Debug, Clone, Copy, Default)]
struct Credit {
    slots: u32,
    used: u64,
    unused: u64,
}

#[derive(Debug)]
struct Wanted {
    grid: Arc<OpenGrid>,
    urgency: Urgency,
    /// The time at which the peer was asked.
    asked: Option<Instant>,
}

/// A question to a node that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    List,
    Describe(Arc<str>),
    Status,
}

/// The answer to a question.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    List(Vec<DatasetEntry>),
    Description(Result<DatasetDescription, Denial>),
    Status(NodeStatus),
}

/// The messages that go along with the opening of a connection.
#[derive(Debug)]
pub(super) struct FirstMessages {
    /// The greeting, and questions.
    pub(super) frames: Vec<ReaderFrame>,
    /// The numbers of the questions.
    asked: Vec<u32>,
}

/// What a message of the peer means.
#[derive(Debug)]
pub(super) enum Event {
    Welcome,
    Answer {
        question: u32,
        answer: Answer,
    },
    /// The payload has to be decoded and compared with the header.
    Block {
        grid: Arc<OpenGrid>,
        block: BlockId,
        header: BlockHeader,
        payload: Bytes,
    },
    /// Credit comes back.
    Returned {
        grid: Arc<OpenGrid>,
        slots: u32,
    },
    Fault {
        blocks: Vec<BlockId>,
        fault: WireFault,
        text: String,
    },
    /// The source of a grid has changed, or the peer does not know the grid: none of these blocks
    /// comes.
    Ended {
        grid: Arc<OpenGrid>,
        blocks: Vec<BlockId>,
        denial: Option<Denial>,
    },
    Refused {
        reason: RefusedReason,
        text: String,
    },
    /// The message means nothing here any more.
    Nothing,
}

/// A message that the peer must not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer has sent {0}")]
pub(super) struct Violation(&'static str);

impl ReaderProtocol {
    pub(super) fn new() -> Self {
        Self {
            grids: BTreeMap::new(),
            handles: HashMap::new(),
            next_handle: 0,
            wanted: HashMap::new(),
            queues: [VecDeque::new(), VecDeque::new()],
            asked: 0,
            max_asked: MAX_ASKED_BEFORE_WELCOME,
            frames: VecDeque::new(),
            notices: VecDeque::new(),
            credits: HashMap::new(),
            questions: BTreeMap::new(),
            next_question: 0,
            generations: HashMap::new(),
            meter: Meter::new(),
        }
    }

    /// The messages that go along with the opening of a connection: they ask, and change nothing,
    /// so that an attempt whose fate is unknown can be repeated.
    pub(super) fn first_messages(&self, hello: Hello) -> FirstMessages {
        let questions = self.questions.iter().take(MAX_FIRST_QUESTIONS);
        let questions: Vec<_> = questions.map(|(number, question)| (*number, question.frame(*number))).collect();
        let asked = questions.iter().map(|(number, _)| *number).collect();
        let frames = [ReaderFrame::Hello(hello)].into_iter().chain(questions.into_iter().map(|(_, frame)| frame));
        FirstMessages { frames: frames.collect(), asked }
    }

    /// A connection is there, and the peer gets the first messages by it. Grids are named, other
    /// questions are asked and wanted blocks are asked for again. Returns the wanted blocks of
    /// grids whose source has changed, which do not come.
    pub(super) fn connected(&mut self, first: &FirstMessages) -> Vec<BlockId> {
        self.max_asked = MAX_ASKED_BEFORE_WELCOME;
        self.asked = 0;
        let warm = std::mem::take(&mut self.frames).into_iter();
        let warm: Vec<_> = warm.filter(|frame| matches!(frame, ReaderFrame::Warm { .. })).collect();
        self.notices.clear();
        self.credits.clear();
        let questions = self.questions.iter().filter(|(number, _)| !first.asked.contains(number));
        let questions: Vec<_> = questions.map(|(number, question)| question.frame(*number)).collect();
        self.frames.extend(questions);
        self.grids.retain(|_, grid| !grid.is_stale());
        let of = &self.grids;
        self.handles.retain(|_, handle| of.contains_key(handle));
        let opens: Vec<_> = self.grids.iter().map(|(handle, grid)| self.open_frame(*handle, grid)).collect();
        self.frames.extend(opens.into_iter().chain(warm));
        let outdated = self.wanted.extract_if(|_, state| state.grid.is_stale()).map(|(block, _)| block).collect();
        self.queues = [VecDeque::new(), VecDeque::new()];
        let mut wanted: Vec<(BlockId, Urgency)> = Vec::new();
        for (block, state) in &mut self.wanted {
            state.asked = None;
            wanted.push((*block, state.urgency));
        }
        wanted.sort_unstable();
        for (block, urgency) in wanted {
            self.queues[urgency as usize].push_back(block);
        }
        outdated
    }

    /// The peer calls a generation of a dataset by the number `own`, and this node by
    /// `generation`.
    pub(super) fn note_generation(&mut self, dataset: &Arc<str>, generation: u64, own: u64) {
        let known = self.generations.entry(Arc::clone(dataset)).or_default();
        known.retain(|(number, _)| *number != generation);
        known.push_back((generation, own));
        if known.len() > MAX_GENERATIONS {
            known.pop_front();
        }
    }

    /// Whether the peer has told of the generation of a grid.
    pub(super) fn knows(&self, grid: &OpenGrid) -> bool {
        self.own_generation(grid).is_some()
    }

    fn own_generation(&self, grid: &OpenGrid) -> Option<u64> {
        let known = self.generations.get(&grid.key.dataset)?;
        known.iter().find(|(number, _)| *number == grid.key.generation).map(|(_, own)| *own)
    }

    /// The node wants blocks of a grid.
    pub(super) fn want(&mut self, grid: &Arc<OpenGrid>, blocks: &[BlockId], urgency: Urgency) {
        self.name(grid);
        for block in blocks {
            let wanted = Wanted { grid: Arc::clone(grid), urgency, asked: None };
            // The peer was asked before, if its answer was lost here.
            if self.wanted.insert(*block, wanted).is_some_and(|before| before.asked.is_some()) {
                self.asked -= 1;
            }
            self.queues[urgency as usize].push_back(*block);
        }
    }

    /// A reader waits for blocks that are wanted already.
    pub(super) fn raise(&mut self, grid: &Arc<OpenGrid>, blocks: &[BlockId]) {
        let mut asked = Vec::new();
        for block in blocks {
            let Some(state) = self.wanted.get_mut(block) else { continue };
            if state.urgency == Urgency::Ahead {
                state.urgency = Urgency::Demand;
                match state.asked {
                    Some(_) => asked.push(block.index),
                    None => self.queues[Urgency::Demand as usize].push_back(*block),
                }
            }
        }
        if let Some(&handle) = self.handles.get(&grid.id)
            && !asked.is_empty()
        {
            self.frames.push_back(ReaderFrame::Raise { handle, blocks: runs_of(asked) });
        }
    }

    /// No application reads a grid any more. Returns the wanted blocks of it, which do not come.
    pub(super) fn close(&mut self, grid: &OpenGrid) -> Vec<BlockId> {
        if let Some(handle) = self.handles.remove(&grid.id) {
            self.grids.remove(&handle);
            self.credits.remove(&grid.id);
            self.frames.push_back(ReaderFrame::Close { handle });
        }
        self.unwant(grid.id)
    }

    /// The slots that the peer may use for blocks of a grid that it sends unasked.
    pub(super) fn credit(&self, grid: &OpenGrid) -> u32 {
        self.credits.get(&grid.id).map_or(0, |credit| credit.slots)
    }

    /// Tells the peer, which may send blocks of a grid unasked, about the reader's memory. The news
    /// go before the questions for blocks that are asked for after this.
    pub(super) fn tell(&mut self, grid: &Arc<OpenGrid>, news: PresendNews) {
        let handle = self.name(grid);
        let lost = match news.lost {
            Lost::Blocks(blocks) => runs_of(blocks),
            Lost::Unknown => all_runs(grid.layout.block_count()),
        };
        self.frames.extend(split_runs(&lost).map(|blocks| ReaderFrame::Have { handle, blocks, holds: false }));
        let credit = self.credits.entry(grid.id).or_default();
        let (used, unused) =
            (news.stats.used.saturating_sub(credit.used), news.stats.unused.saturating_sub(credit.unused));
        (credit.used, credit.unused) = (news.stats.used, news.stats.unused);
        credit.slots += news.granted;
        if used + unused > 0 {
            let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
            self.frames.push_back(ReaderFrame::Fate { handle, used: count(used), unused: count(unused) });
        }
        if news.granted > 0 {
            self.frames.push_back(ReaderFrame::Credit { handle, slots: news.granted });
        }
    }

    /// Announces the regions that will be read: as many of the first ones as a message holds.
    /// Behind them the peer goes on by their pattern.
    pub(super) fn intend(&mut self, grid: &Arc<OpenGrid>, regions: &[Region]) {
        let handle = self.name(grid);
        let first = split_regions(regions).next().unwrap_or_default();
        self.frames.push_back(ReaderFrame::Intend { handle, regions: first.to_vec() });
    }

    /// Tells the peer of a read, behind the questions for its blocks.
    pub(super) fn reading(&mut self, grid: &Arc<OpenGrid>, selection: &Selection) {
        let handle = self.name(grid);
        self.notices.push_back(ReaderFrame::Reading { handle, selection: selection.clone() });
    }

    /// A block that came unasked has landed, or was not taken, which the peer is told.
    pub(super) fn pushed(&mut self, grid: &Arc<OpenGrid>, block: BlockId, was_taken: bool) {
        // A reader may have asked for the block while it landed: the peer takes it for the answer.
        if was_taken && self.wanted.remove(&block).is_some_and(|wanted| wanted.asked.is_some()) {
            self.asked -= 1;
        }
        if let Some(&handle) = self.handles.get(&grid.id)
            && !was_taken
        {
            self.frames.push_back(ReaderFrame::Have { handle, blocks: runs_of([block.index]), holds: false });
        }
    }

    /// Wants the credit of a grid back.
    pub(super) fn recall(&mut self, grid: &OpenGrid) {
        if let Some(&handle) = self.handles.get(&grid.id) {
            self.frames.push_back(ReaderFrame::Recall { handle });
        }
    }

    /// Asks for blocks to be had ready by the peer.
    pub(super) fn warm(&mut self, grid: &Arc<OpenGrid>, runs: impl Iterator<Item = Vec<Run>>) {
        let handle = self.name(grid);
        self.frames.extend(runs.map(|blocks| ReaderFrame::Warm { handle, blocks }));
    }

    /// Asks a question. Returns its number.
    pub(super) fn ask(&mut self, question: Question) -> u32 {
        let number = self.next_question;
        self.next_question = self.next_question.wrapping_add(1);
        self.frames.push_back(question.frame(number));
        self.questions.insert(number, question);
        number
    }

    /// A question is not of interest any more.
    pub(super) fn forget(&mut self, question: u32) {
        self.questions.remove(&question);
    }

    /// The next message to the peer, if there is one.
    pub(super) fn next_frame(&mut self, now: Instant) -> Option<ReaderFrame> {
        if let Some(frame) = self.frames.pop_front() {
            return Some(frame);
        }
        let demand = self.next_get(Urgency::Demand, now).or_else(|| self.notices.pop_front());
        demand.or_else(|| self.next_get(Urgency::Ahead, now))
    }

    /// A message has come.
    pub(super) fn received(
        &mut self,
        message: ServerMessage,
        slot_bytes: u64,
        now: Instant,
    ) -> Result<Event, Violation> {
        match message {
            ServerMessage::Block(header, payload) => self.block(header, payload, slot_bytes, now),
            ServerMessage::Frame(frame) => self.frame(frame),
        }
    }

    /// The number of blocks that are wanted.
    pub(super) fn wanted(&self) -> usize {
        self.wanted.len()
    }

    /// Whether anything waits for the peer.
    pub(super) fn is_wanted(&self) -> bool {
        let has_warm = || self.frames.iter().any(|frame| matches!(frame, ReaderFrame::Warm { .. }));
        !self.wanted.is_empty() || !self.questions.is_empty() || has_warm()
    }

    /// Gives up all wanted blocks.
    pub(super) fn give_up(&mut self) -> Vec<(Arc<OpenGrid>, BlockId, Urgency)> {
        self.queues = [VecDeque::new(), VecDeque::new()];
        self.asked = 0;
        self.frames.retain(|frame| !matches!(frame, ReaderFrame::Warm { .. }));
        let mut all: Vec<_> = self.wanted.drain().map(|(block, state)| (state.grid, block, state.urgency)).collect();
        all.sort_unstable_by_key(|(_, block, urgency)| (*block, *urgency));
        all
    }

    /// The way over the link.
    pub(super) fn path(&self) -> Path {
        self.meter.path()
    }

    /// The handle of a grid, which is named to the peer if it was not yet.
    fn name(&mut self, grid: &Arc<OpenGrid>) -> Handle {
        if let Some(handle) = self.handles.get(&grid.id) {
            return *handle;
        }
        let handle = Handle(self.next_handle);
        self.next_handle += 1;
        self.handles.insert(grid.id, handle);
        self.grids.insert(handle, Arc::clone(grid));
        self.frames.push_back(self.open_frame(handle, grid));
        handle
    }

    fn open_frame(&self, handle: Handle, grid: &OpenGrid) -> ReaderFrame {
        ReaderFrame::Open {
            handle,
            dataset: grid.key.dataset.to_string(),
            array: grid.key.array,
            grid: grid.key.grid.clone(),
            generation: self.own_generation(grid).unwrap_or(grid.key.generation),
        }
    }

    /// Blocks of one grid, as many as one message names and the peer lets be asked for.
    fn next_get(&mut self, urgency: Urgency, now: Instant) -> Option<ReaderFrame> {
        let mut of: Option<Arc<OpenGrid>> = None;
        let mut blocks = Vec::new();
        while self.asked < self.max_asked && blocks.len() < MAX_RUNS {
            let Some(block) = self.queues[urgency as usize].front().copied() else { break };
            let Some(state) =
                self.wanted.get_mut(&block).filter(|state| state.asked.is_none() && state.urgency == urgency)
            else {
                self.queues[urgency as usize].pop_front();
                continue;
            };
            if of.get_or_insert_with(|| Arc::clone(&state.grid)).id != block.dataset {
                break;
            }
            state.asked = Some(now);
            self.asked += 1;
            blocks.push(block.index);
            self.queues[urgency as usize].pop_front();
        }
        // A grid that was closed meanwhile has a new handle, whose opening goes first.
        let handle = self.name(&of?);
        let get = ReaderFrame::Get { handle, blocks: runs_of(blocks), urgency };
        match self.frames.pop_front() {
            None => Some(get),
            Some(open) => {
                self.frames.push_back(get);
                Some(open)
            }
        }
    }

    fn block(
        &mut self,
        header: BlockHeader,
        payload: Bytes,
        slot_bytes: u64,
        now: Instant,
    ) -> Result<Event, Violation> {
        if header.handle.0 >= self.next_handle {
            return Err(Violation("a block of a handle that was never named"));
        }
        let Some(grid) = self.grids.get(&header.handle) else { return Ok(Event::Nothing) };
        let block = grid.block_id(header.block).ok_or(Violation("a block that the array does not have"))?;
        if u64::from(header.block_bytes) != grid.block_bytes(header.block) {
            return Err(Violation("a block of another size than the array's"));
        }
        let grid = Arc::clone(grid);
        let wanted = self.wanted.remove(&block);
        if header.is_push {
            let slots = u32::try_from(grid.block_bytes(header.block).div_ceil(slot_bytes)).unwrap_or(u32::MAX);
            let credit = self.credits.get_mut(&grid.id).filter(|credit| credit.slots >= slots);
            credit.ok_or(Violation("a block that no credit covers"))?.slots -= slots;
        } else if wanted.is_none() {
            // Asked for twice, because it was given up or the connection was lost.
            return Ok(Event::Nothing);
        }
        if let Some(since) = wanted.and_then(|wanted| wanted.asked) {
            self.asked -= 1;
            if !header.is_push {
                self.meter.answered(now.saturating_duration_since(since), now);
            }
        }
        // In decoded bytes, as everything that is planned by the rate.
        self.meter.received(header.block_bytes.into(), self.asked == 0, now);
        Ok(Event::Block { grid, block, header, payload })
    }

    fn frame(&mut self, frame: ServerFrame) -> Result<Event, Violation> {
        let (question, answer) = match frame {
            ServerFrame::Welcome(welcome) => {
                self.max_asked = (welcome.max_asked as usize).max(1);
                return Ok(Event::Welcome);
            }
            ServerFrame::Refused { reason, text } => return Ok(Event::Refused { reason, text }),
            ServerFrame::Listed { question, datasets } => (question, Answer::List(datasets)),
            ServerFrame::Described { question, description } => (question, Answer::Description(description)),
            ServerFrame::Status { question, status } => (question, Answer::Status(status)),
            ServerFrame::Opened { outcome: Ok(()), .. } => return Ok(Event::Nothing),
            ServerFrame::Opened { handle, outcome: Err(denial) } => return Ok(self.end(handle, Some(denial))),
            ServerFrame::Stale { handle, .. } => return Ok(self.end(handle, None)),
            ServerFrame::Fault { handle, blocks, fault, text } => return Ok(self.fault(handle, &blocks, fault, text)),
            ServerFrame::Returned { handle, slots } => return self.returned(handle, slots),
        };
        match self.questions.remove(&question) {
            Some(asked) if asked.is_answered_by(&answer) => Ok(Event::Answer { question, answer }),
            Some(_) => Err(Violation("an answer to another question")),
            None => Ok(Event::Nothing),
        }
    }

    fn returned(&mut self, handle: Handle, slots: u32) -> Result<Event, Violation> {
        let Some(grid) = self.grids.get(&handle).map(Arc::clone) else { return Ok(Event::Nothing) };
        let credit = self.credits.get_mut(&grid.id).filter(|credit| credit.slots >= slots);
        credit.ok_or(Violation("more credit than it was given"))?.slots -= slots;
        Ok(Event::Returned { grid, slots })
    }

    fn fault(&mut self, handle: Handle, runs: &[Run], fault: WireFault, text: String) -> Event {
        let Some(grid) = self.grids.get(&handle) else { return Event::Nothing };
        let named = runs.iter().flat_map(|run| run.blocks()).filter_map(|index| grid.block_id(index));
        let mut blocks = Vec::new();
        for block in named {
            if let Some(state) = self.wanted.remove(&block) {
                self.asked -= usize::from(state.asked.is_some());
                blocks.push(block);
            }
        }
        Event::Fault { blocks, fault, text }
    }

    /// A handle means nothing any more.
    fn end(&mut self, handle: Handle, denial: Option<Denial>) -> Event {
        let Some(grid) = self.grids.remove(&handle) else { return Event::Nothing };
        self.handles.remove(&grid.id);
        self.credits.remove(&grid.id);
        let blocks = self.unwant(grid.id);
        Event::Ended { grid, blocks, denial }
    }

    /// Forgets the wanted blocks of a grid.
    fn unwant(&mut self, dataset: DatasetId) -> Vec<BlockId> {
        let mut blocks: Vec<BlockId> = Vec::new();
        self.wanted.retain(|block, state| {
            let is_of = block.dataset == dataset;
            if is_of {
                self.asked -= usize::from(state.asked.is_some());
                blocks.push(*block);
            }
            !is_of
        });
        blocks
    }
}

impl Question {
    fn frame(&self, question: u32) -> ReaderFrame {
        match self {
            Self::List => ReaderFrame::List { question },
            Self::Describe(dataset) => ReaderFrame::Describe { question, dataset: dataset.to_string() },
            Self::Status => ReaderFrame::Status { question },
        }
    }

    fn is_answered_by(&self, answer: &Answer) -> bool {
        matches!(
            (self, answer),
            (Self::List, Answer::List(_))
                | (Self::Describe(_), Answer::Description(_))
                | (Self::Status, Answer::Status(_))
        )
    }
}

/// All blocks of a grid.
fn all_runs(count: u64) -> Vec<Run> {
    let step = u64::from(u32::MAX);
    let firsts = (0..count).step_by(step as usize);
    firsts.map(|first| Run { first: BlockIndex(first), count: (count - first).min(step) as u32 }).collect()
}

/// The questions that go along with the opening of a connection, of at most 300 bytes each: with
/// the greeting they fit into its first packets.
const MAX_FIRST_QUESTIONS: usize = 8;
/// The blocks that are asked for before the peer has said how many it lets be asked for.
const MAX_ASKED_BEFORE_WELCOME: usize = 256;
/// The generations of a dataset for which a peer's numbers are kept: older ones have no readers
/// that go on.
const MAX_GENERATIONS: usize = 16;
