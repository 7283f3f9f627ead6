//! The steps and the state of a node, for the models.

pub use crate::mutation::Mutation;
use crate::{
    block::{BlockId, BudgetId, DownstreamId, RequestId},
    memory::Shortage,
    mutation::Mutations,
    node::{Node, NodeConfig},
    request::Request,
    table::State,
};
use rails_array::BlockIndex;
use std::time::Instant;

/// A node with a fault.
pub fn mutated(config: NodeConfig, now: Instant, mutation: Mutation) -> Node {
    Node::with_mutations(config, now, Mutations::only(mutation))
}

/// One step of the access layer. Returns whether there was any.
pub fn access(node: &mut Node) -> bool {
    node.step_access()
}

/// One step of the collector. Returns whether it has reclaimed a block.
pub fn collect(node: &mut Node, now: Instant) -> bool {
    node.collect(now)
}

/// One step of the work ahead. Returns whether it has asked for a block.
pub fn speculate(node: &mut Node) -> bool {
    node.step_ahead()
}

/// Whether the work ahead would run.
pub fn speculation_is_due(node: &Node) -> bool {
    let (store, _, ahead) = node.parts();
    ahead.is_due() && store.memory.budgets().any(|budget| !budget.ahead.is_empty())
}

/// Whether the collector would run.
pub fn collector_is_due(node: &Node) -> bool {
    node.parts().1.collector().is_due()
}

/// Whether the access layer would run.
pub fn access_is_due(node: &Node) -> bool {
    let (_, access, _) = node.parts();
    access.requests().has_ready() || access.may_feed() && access.has_hungry()
}

/// A block that holds slots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldBlock {
    /// The block.
    pub block: BlockId,
    /// The seat of its budget.
    pub budget: u32,
    /// Whether it is in transit, not cached.
    pub is_in_transit: bool,
    /// The slots of its chain.
    pub slots: u32,
    /// The readers that copy it.
    pub pins: u32,
    /// Whether it came ahead of time.
    pub is_ahead: bool,
    /// Whether a reader has asked for it.
    pub is_used: bool,
    /// Whether nobody is expected to use it again.
    pub is_passed: bool,
    /// The ages of the requests that wait for it.
    pub waiters: Vec<usize>,
}

/// A request by its age: 0 is the oldest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenRequest {
    /// The seat of its budget.
    pub budget: u32,
    /// Blocks that have not been asked for, the stalled one first.
    pub rest: Vec<u64>,
    /// Blocks that are waited for or copied.
    pub open_blocks: u32,
    /// Blocks that a mutation holds.
    pub held: Vec<u64>,
    /// Whether it can go on.
    pub is_ready: bool,
    /// Whether it lacks slots, and of whom.
    pub hunger: Option<bool>,
    /// Whether no reclamation can help it, and whether it lacks slots of the node.
    pub starves: Option<bool>,
}

/// A budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BudgetState {
    /// The level of its memory.
    pub level: u8,
    /// Whether it has ended.
    pub is_ended: bool,
    /// Slots in transit, cached, and promised to upstreams.
    pub used: [u32; 3],
    /// The lists of its order of reclamation.
    pub order: Vec<Vec<BlockId>>,
    /// Blocks to fetch ahead of time.
    pub ahead: Vec<u64>,
    /// Expected uses: blocks, and their places in the line of uses; and its length.
    pub future: (Vec<(u64, Vec<u64>)>, usize),
}

/// Everything that decides about a node's future, without the numbers that do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeState {
    /// Held blocks, in the order of their names.
    pub blocks: Vec<HeldBlock>,
    /// Requests, the oldest first.
    pub requests: Vec<OpenRequest>,
    /// The budgets, in the order of their seats.
    pub budgets: Vec<BudgetState>,
    /// Free slots.
    pub free: u32,
    /// The level of the memory.
    pub level: u8,
    /// Whether the collector is due.
    pub collector_is_due: bool,
    /// Whether a hungry request may be able to go on.
    pub may_feed: bool,
    /// Whether there may be a block to fetch ahead of time.
    pub may_speculate: bool,
    /// Credits: upstream, budget, slots, and how far their recall is.
    pub credits: Vec<(u32, u32, u32, u8)>,
}

/// The state of a node. Two nodes of equal states behave alike.
pub fn state(node: &Node) -> NodeState {
    let (store, access, ahead) = node.parts();
    let (memory, requests, collector) = (&store.memory, access.requests(), access.collector());
    let ids: Vec<RequestId> = requests.iter().map(|(id, _)| id).collect();
    let age = |id: &RequestId| ids.binary_search(id).expect("only requests that exist are in sets");
    assert!(collector.starving().iter().all(|demand| age(&demand.request) < ids.len()));
    let table = memory.table();
    let mut blocks: Vec<HeldBlock> = table
        .iter()
        .map(|entry| HeldBlock {
            block: entry.block,
            budget: entry.budget.seat() as u32,
            is_in_transit: entry.state == State::InTransit,
            slots: entry.chain.count(),
            pins: entry.pins,
            is_ahead: entry.is_ahead,
            is_used: entry.is_used,
            is_passed: entry.is_passed,
            waiters: {
                let index = table.find(&entry.block).expect("an entry is found");
                requests.waiters(index).iter().map(age).collect()
            },
        })
        .collect();
    blocks.sort_unstable();
    let hunger = |id: RequestId| requests.shortage(id).map(|shortage| shortage == Shortage::Node);
    let open = |(id, request): (RequestId, &Request)| OpenRequest {
        budget: request.budget.seat() as u32,
        rest: request.stalled.into_iter().chain(request.rest.clone()).map(|index| index.0).collect(),
        open_blocks: request.open_blocks,
        held: request.held.iter().map(|block| block.index.0).collect(),
        is_ready: requests.is_ready(id),
        hunger: hunger(id),
        starves: {
            let found = collector.starving().iter().find(|demand| demand.request == id);
            found.map(|demand| demand.shortage == Shortage::Node)
        },
    };
    let budgets = memory.budgets().map(|budget| {
        let lists = budget.order.entries(table);
        let named = lists.into_iter().map(|list| list.into_iter().map(|entry| table.get(entry).block).collect());
        BudgetState {
            is_ended: budget.is_ended,
            level: memory.share_of(budget.id).level.number(),
            used: [budget.used.in_transit, budget.used.cached, budget.used.credited],
            ahead: budget.ahead.iter().map(|index| index.0).collect(),
            order: named.collect(),
            future: budget.future.places(),
        }
    });
    NodeState {
        requests: requests.iter().map(open).collect(),
        budgets: budgets.collect(),
        free: memory.free(),
        level: memory.level().number(),
        collector_is_due: collector.is_due(),
        may_feed: access.may_feed(),
        may_speculate: ahead.is_due(),
        credits: ahead.credits().all(),
        blocks,
    }
}

/// The next action that steps have led to, without a further step.
pub fn action(node: &mut Node) -> Option<crate::action::Action> {
    node.pop_action()
}

/// The budgets of a node.
pub fn budgets(node: &Node) -> Vec<BudgetId> {
    node.parts().0.memory.budgets().map(|budget| budget.id).collect()
}

/// The slots that each budget uses.
pub fn used(node: &Node) -> Vec<u32> {
    node.parts().0.memory.budgets().map(|budget| budget.used.total()).collect()
}

/// Whether the sets of budgets that decisions look at are as the budgets say.
pub fn are_budget_sets_right(node: &Node) -> bool {
    node.parts().0.memory.are_givers_right()
}

/// Whether a node downstream is known to hold a block.
pub fn is_held_by(node: &Node, downstream: DownstreamId, budget: BudgetId, index: BlockIndex) -> bool {
    node.parts().2.is_held_by(downstream, budget, index)
}

/// How many blocks requests wait for, as often as they asked for each.
pub fn awaited(node: &Node) -> usize {
    node.parts().1.requests().iter().map(|(_, request)| request.awaited.len()).sum()
}

/// How many open requests are older than this one, if it is open.
pub fn age(node: &Node, request: RequestId) -> Option<usize> {
    node.parts().1.requests().iter().position(|(id, _)| id == request)
}
