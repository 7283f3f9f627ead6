//! What the protocol asks for, done without the node's lock.

use super::{Failure, OpenGrid, Outlet, Pinned, Receiver};
use crate::wire::Urgency;
use rails_cache::{BlockId, BudgetId, RequestId};
use std::sync::Arc;

/// The wishes of one step of the protocol.
#[derive(Default)]
pub(super) struct Effects {
    /// Blocks to be asked for: those of one grid and one urgency side by side.
    fetches: Vec<(Arc<OpenGrid>, Urgency, Vec<BlockId>)>,
    raises: Vec<(Arc<OpenGrid>, BlockId)>,
    recalls: Vec<Arc<OpenGrid>>,
    closed: Vec<Arc<OpenGrid>>,
    news: Vec<(Arc<dyn Receiver>, News)>,
    presents: Vec<(Arc<dyn Outlet>, BudgetId, Pinned)>,
    /// Blocks of requests that were given up. Dropping them gives their slots back.
    pub(super) unwanted: Vec<Pinned>,
}

enum News {
    Block(RequestId, Pinned),
    Ended(RequestId, Result<(), Failure>),
}

impl Effects {
    pub(super) fn fetch(&mut self, grid: &Arc<OpenGrid>, block: BlockId, urgency: Urgency) {
        match self.fetches.last_mut() {
            Some((last, same, blocks)) if last.id == grid.id && *same == urgency => blocks.push(block),
            _ => self.fetches.push((Arc::clone(grid), urgency, vec![block])),
        }
    }

    pub(super) fn raise(&mut self, grid: &Arc<OpenGrid>, block: BlockId) {
        self.raises.push((Arc::clone(grid), block));
    }

    pub(super) fn recall(&mut self, grid: &Arc<OpenGrid>) {
        self.recalls.push(Arc::clone(grid));
    }

    pub(super) fn present(&mut self, outlet: &Arc<dyn Outlet>, budget: BudgetId, pinned: Pinned) {
        self.presents.push((Arc::clone(outlet), budget, pinned));
    }

    pub(super) fn close(&mut self, grid: Arc<OpenGrid>) {
        self.closed.push(grid);
    }

    pub(super) fn block(&mut self, receiver: &Arc<dyn Receiver>, request: RequestId, pinned: Pinned) {
        self.news.push((Arc::clone(receiver), News::Block(request, pinned)));
    }

    pub(super) fn ended(&mut self, receiver: Arc<dyn Receiver>, request: RequestId, end: Result<(), Failure>) {
        self.news.push((receiver, News::Ended(request, end)));
    }

    /// Does all of it.
    pub(super) fn carry_out(self) {
        Pinned::release(self.unwanted);
        for (grid, urgency, blocks) in self.fetches {
            grid.upstream.fetch(&grid, &blocks, urgency);
        }
        for (grid, block) in self.raises {
            grid.upstream.raise(&grid, &[block]);
        }
        for grid in self.recalls {
            grid.upstream.recall(&grid);
        }
        for (outlet, budget, pinned) in self.presents {
            outlet.present(budget, pinned);
        }
        for grid in self.closed {
            grid.upstream.close(&grid);
        }
        for (receiver, news) in self.news {
            match news {
                News::Block(request, pinned) => receiver.block(request, pinned),
                News::Ended(request, end) => receiver.ended(request, end),
            }
        }
    }
}
