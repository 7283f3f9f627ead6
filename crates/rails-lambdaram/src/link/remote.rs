//! Nodes that serve copies of the same datasets, as one place to get blocks from.

use super::{
    dialer::Dialer,
    reader::{Fallback, Greeting, LinkError, LinkStatus, ReaderLink},
    reader_protocol::{Answer, Question},
};
use crate::{
    description::DatasetDescription,
    node::{Node, OpenGrid, Upstream},
    wire::{Denial, Run, Urgency, runs_of, split_runs},
};
use rails_array::{BlockIndex, Region, Selection};
use rails_cache::{BlockId, UpstreamId, pattern::Path};
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::task::JoinHandle;

/// The links to one or several nodes that serve the same datasets.
///
/// Each block is asked of the node from which it is expected first. If a link is lost, the others
/// are asked for its blocks.
#[derive(Debug)]
pub(crate) struct Remote {
    links: Vec<Arc<ReaderLink>>,
    tasks: Vec<JoinHandle<()>>,
    presends: bool,
}

/// A node's answer to the question for a description.
pub(crate) type Described = Result<DatasetDescription, Denial>;

/// A node that serves: its name for people, the way to it, and the runtime that drives the link.
pub(crate) struct Peer {
    pub(crate) name: Arc<str>,
    pub(crate) dialer: Dialer,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Remote {
    /// With `presends`, a node that serves alone may send blocks before they are asked for. Several
    /// would send the same ones.
    pub(crate) fn new(
        peers: Vec<Peer>,
        greeting: &Greeting,
        patience: Duration,
        presends: bool,
        node: &Arc<Node>,
    ) -> Arc<Self> {
        let presends = presends && peers.len() == 1;
        let upstream = presends.then_some(UpstreamId(0));
        Arc::new_cyclic(|remote: &Weak<Self>| {
            let (mut links, mut tasks) = (Vec::new(), Vec::new());
            for Peer { name, dialer, runtime } in peers {
                let link = ReaderLink::new(name, dialer, greeting.clone(), patience, upstream, node);
                let fallback: Weak<dyn Fallback> = remote.clone();
                tasks.push(runtime.spawn(Arc::clone(&link).run(fallback)));
                links.push(link);
            }
            Self { links, tasks, presends }
        })
    }

    /// Asks every node, and returns their answers in the order of the nodes.
    pub(crate) async fn ask_all(&self, question: Question) -> Vec<(Arc<str>, Result<Answer, LinkError>)> {
        let mut answers = Vec::new();
        let asked: Vec<_> = self.links.iter().map(|link| link.ask(question.clone())).collect();
        for (link, answer) in self.links.iter().zip(futures_util::future::join_all(asked).await) {
            answers.push((Arc::clone(link.name()), answer));
        }
        answers
    }

    /// Asks every node for the description of a dataset.
    pub(crate) async fn describe(&self, dataset: &Arc<str>) -> Vec<(Arc<str>, Result<Described, LinkError>)> {
        let question = Question::Describe(Arc::clone(dataset));
        let asked = self.links.iter().map(|link| link.ask(question.clone()));
        let answers = futures_util::future::join_all(asked).await;
        let described = |answer| match answer {
            Ok(Answer::Description(description)) => Ok(description),
            Ok(_) => unreachable!("a question has the answer of its kind"),
            Err(error) => Err(error),
        };
        let names = self.links.iter().map(|link| Arc::clone(link.name()));
        names.zip(answers.into_iter().map(described)).collect()
    }

    /// The nodes with these names have the data of that generation, each by a number of its own.
    pub(crate) fn note_generations(&self, dataset: &Arc<str>, generation: u64, own: &[(Arc<str>, u64)]) {
        for (name, own) in own {
            let links = self.links.iter().filter(|link| link.name() == name);
            links.for_each(|link| link.note_generation(dataset, generation, *own));
        }
    }

    /// Ends the links for good, and waits until their peers have ended them, too.
    pub(crate) async fn close(&self) {
        futures_util::future::join_all(self.links.iter().map(|link| link.end())).await;
    }

    /// Each node with the state of its link.
    pub(crate) fn links(&self) -> Vec<(Arc<str>, LinkStatus)> {
        self.links.iter().map(|link| (Arc::clone(link.name()), link.status())).collect()
    }

    /// Has the nodes keep blocks ready: each those that it would be asked for.
    pub(crate) fn warm(&self, grid: &Arc<OpenGrid>, runs: impl Iterator<Item = Vec<Run>>) {
        self.best(None, grid, 0).warm(grid, runs);
    }

    /// The link over which a block is expected first, but for one that is lost. The nodes that did
    /// not tell of the grid's generation may have other data.
    fn best(&self, lost: Option<&ReaderLink>, grid: &OpenGrid, block_bytes: u64) -> &Arc<ReaderLink> {
        let is_other = |link: &&Arc<ReaderLink>| lost.is_none_or(|lost| !std::ptr::eq(&***link, lost));
        let order = |link: &&Arc<ReaderLink>| {
            let rank = match link.status() {
                LinkStatus::Up => 0,
                LinkStatus::Idle | LinkStatus::Dialing => 1,
                LinkStatus::Down(_) => 2,
            };
            (!link.knows(grid), rank, link.backlog(block_bytes))
        };
        self.links.iter().filter(is_other).min_by_key(order).unwrap_or(&self.links[0])
    }
}

impl Upstream for Remote {
    fn fetch(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId], urgency: Urgency) {
        if let [only] = &self.links[..] {
            return only.want(grid, blocks, urgency);
        }
        for block in blocks {
            self.best(None, grid, grid.block_bytes(block.index)).want(grid, &[*block], urgency);
        }
    }

    fn raise(&self, grid: &Arc<OpenGrid>, blocks: &[BlockId]) {
        self.links.iter().for_each(|link| link.raise(grid, blocks));
    }

    fn recall(&self, grid: &Arc<OpenGrid>) {
        self.links.iter().for_each(|link| link.recall(grid));
    }

    fn reading(&self, grid: &Arc<OpenGrid>, selection: &Selection) {
        self.links.iter().for_each(|link| link.reading(grid, selection));
    }

    fn make_ready(&self, grid: &Arc<OpenGrid>, blocks: Vec<BlockIndex>) {
        self.warm(grid, split_runs(&runs_of(blocks)));
    }

    fn intend(&self, grid: &Arc<OpenGrid>, regions: &[Region]) {
        self.links.iter().for_each(|link| link.intend(grid, regions));
    }

    fn presends(&self) -> bool {
        self.presends
    }

    fn close(&self, grid: &Arc<OpenGrid>) {
        self.links.iter().for_each(|link| link.close(grid));
    }

    fn path(&self) -> Path {
        let paths = self.links.iter().map(|link| link.path());
        let sum = |one: Path, other: Path| Path {
            round_trip: one.round_trip.max(other.round_trip),
            storage_latency: one.storage_latency.max(other.storage_latency),
            bytes_per_second: one.bytes_per_second.saturating_add(other.bytes_per_second),
        };
        paths.reduce(sum).expect("there is a link")
    }
}

impl Fallback for Remote {
    fn take_over(&self, lost: &ReaderLink, grid: &Arc<OpenGrid>, block: BlockId, urgency: Urgency) -> bool {
        let other = self.best(Some(lost), grid, grid.block_bytes(block.index));
        if other.status() != LinkStatus::Up || std::ptr::eq(&**other, lost) || !other.knows(grid) {
            return false;
        }
        other.want(grid, &[block], urgency);
        true
    }
}

impl Remote {
    /// Ends the links at once. Grids lead to their upstream, and links to grids, so this is not
    /// left to a drop.
    pub(crate) fn abort(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.links.iter().for_each(|link| link.forget_all());
    }
}
