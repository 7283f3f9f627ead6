//! One read of an application.

use super::{Failure, Node, OpenGrid, Pinned, ReaderKey, Receiver};
use rails_array::{CopyPlan, Selection, copy_from_slots};
use rails_cache::RequestId;
use std::{
    future::poll_fn,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};
use tokio::task::coop;

/// The blocks that have come for one read.
#[derive(Default)]
struct Mailbox(Mutex<Letters>);

#[derive(Default)]
struct Letters {
    blocks: Vec<Pinned>,
    end: Option<Result<(), Failure>>,
    waker: Option<Waker>,
    /// The read was given up.
    is_closed: bool,
}

/// The blocks that have come since the last look, and the end if it has come.
struct News {
    blocks: Vec<Pinned>,
    end: Option<Result<(), Failure>>,
}

/// Why a read failed.
#[derive(Debug)]
pub(crate) enum ReadingError {
    /// The selection is none of the grid's.
    Outside,
    /// The source has changed before the read began.
    Changed,
    /// A block could not be had.
    Failed(Failure),
}

/// Gives a read up when it is dropped.
struct Open<'a> {
    node: &'a Arc<Node>,
    request: RequestId,
    mailbox: &'a Mailbox,
    has_ended: bool,
}

impl Node {
    /// Fills `goal` with the selected elements, in C order.
    ///
    /// # Cancel safety
    /// A read that is dropped is given up; `goal` is partly filled then.
    pub(crate) async fn read_into(
        self: &Arc<Self>,
        reader: ReaderKey,
        grid: &Arc<OpenGrid>,
        selection: &Selection,
        goal: &mut [u8],
    ) -> Result<(), ReadingError> {
        let mailbox = Arc::new(Mailbox::default());
        let receiver: Arc<dyn Receiver> = mailbox.clone();
        let request = self.read(reader, grid, selection, &receiver);
        // The budget of a grid ends with it.
        let (request, ready) =
            request.map_err(|_| if grid.is_stale() { ReadingError::Changed } else { ReadingError::Outside })?;
        let mut open = Open { node: self, request, mailbox: &mailbox, has_ended: false };
        grid.upstream.reading(grid, selection);
        if !ready.is_empty() {
            grid.upstream.make_ready(grid, ready);
        }
        loop {
            coop::consume_budget().await;
            let News { blocks, end } = poll_fn(|context| mailbox.poll(context)).await;
            for pinned in &blocks {
                let plan = CopyPlan::new(&grid.region(pinned.block.index), selection, grid.dtype.bytes())
                    .expect("a selection of the grid's rank fits its blocks");
                copy_from_slots(&plan, self.slot_bytes(), &pinned.bytes.slots, goal)
                    .expect("the goal has the size of the selection");
            }
            Pinned::release(blocks);
            if let Some(end) = end {
                open.has_ended = true;
                return end.map_err(ReadingError::Failed);
            }
        }
    }
}

impl Mailbox {
    fn poll(&self, context: &mut Context<'_>) -> Poll<News> {
        let mut letters = self.letters();
        if letters.blocks.is_empty() && letters.end.is_none() {
            let past = letters.waker.replace(context.waker().clone());
            drop(letters);
            drop(past);
            return Poll::Pending;
        }
        Poll::Ready(News { blocks: mem::take(&mut letters.blocks), end: letters.end.take() })
    }

    /// Ends the read, and gives the blocks back that nobody will copy.
    fn close(&self) {
        let mut letters = self.letters();
        letters.is_closed = true;
        let blocks = mem::take(&mut letters.blocks);
        drop(letters);
        Pinned::release(blocks);
    }

    fn letters(&self) -> MutexGuard<'_, Letters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Receiver for Mailbox {
    fn block(&self, _: RequestId, pinned: Pinned) {
        let mut letters = self.letters();
        if letters.is_closed {
            drop(letters);
            drop(pinned);
            return;
        }
        letters.blocks.push(pinned);
        let waker = letters.waker.take();
        drop(letters);
        waker.into_iter().for_each(Waker::wake);
    }

    fn ended(&self, _: RequestId, end: Result<(), Failure>) {
        let mut letters = self.letters();
        letters.end = Some(end);
        let waker = letters.waker.take();
        drop(letters);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.node.cancel(self.request);
        }
        self.mailbox.close();
    }
}
