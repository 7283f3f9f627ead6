//! The datasets that a node knows, and the places from which it gets their blocks.
//!
//! - `peer`: who asks, and what it may read;
//! - `local`: datasets in files of this machine.
//!
//! A node gets datasets from files or from other nodes, and reads and serves both alike.

mod local;
mod peer;

use crate::{
    description::{DatasetDescription, DatasetEntry},
    link::{Answer, LinkError, LinkStatus, Question, Remote},
    node::{BudgetLease, GridKey, Lease, NoBudget, Node, OpenGrid, OpenGridError, Upstream},
    wire::{Denial, DenialReason, GridOf, NodeStatus, Run},
};
pub(crate) use local::Local;
pub(crate) use peer::Peer;
use rails_cache::pattern::Path;
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// The datasets that a node knows.
#[derive(Debug)]
pub(crate) struct Library {
    node: Arc<Node>,
    source: Source,
    /// What other nodes have told.
    described: Mutex<HashMap<Arc<str>, Arc<DatasetDescription>>>,
    links: AtomicU32,
}

/// Where the datasets of a node come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// Files of this machine.
    Local(Arc<Local>),
    /// Other nodes.
    Remote(Arc<Remote>),
    #[cfg(test)]
    Simulated(Arc<crate::simulation::SimulatedSource>),
}

/// Why a dataset cannot be told of.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum DescribeError {
    /// There is none of that name, or the reader may not read it, or its source cannot be read.
    #[error("the dataset `{dataset}` cannot be opened: {}", denial.text)]
    Denied {
        /// The dataset.
        dataset: String,
        /// The reason.
        denial: Denial,
    },
    /// No node answers; this is the first one's error.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Two nodes serve other data under one name.
    #[error("{first} and {second} serve different data as `{dataset}`")]
    Disagreement {
        /// The dataset.
        dataset: String,
        /// A node.
        first: Arc<str>,
        /// Another one.
        second: Arc<str>,
    },
}

impl Library {
    pub(crate) fn new(node: &Arc<Node>, source: Source) -> Arc<Self> {
        Arc::new(Self { node: Arc::clone(node), source, described: Mutex::default(), links: AtomicU32::new(0) })
    }

    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// The datasets that a peer may read.
    ///
    /// # Errors
    /// [`LinkError`] if no node answers.
    pub(crate) async fn list(&self, peer: &Peer) -> Result<Vec<DatasetEntry>, LinkError> {
        match &self.source {
            Source::Local(local) => Ok(local.list(peer)),
            #[cfg(test)]
            Source::Simulated(_) => Ok(Vec::new()),
            Source::Remote(remote) => {
                let mut first_error = None;
                let mut all: Vec<DatasetEntry> = Vec::new();
                let mut has_answer = false;
                for (_, answer) in remote.ask_all(Question::List).await {
                    match answer {
                        Ok(Answer::List(entries)) => {
                            has_answer = true;
                            all.extend(entries);
                        }
                        Ok(_) => {}
                        Err(error) => drop(first_error.get_or_insert(error)),
                    }
                }
                all.sort_by(|one, other| one.name.cmp(&other.name));
                all.dedup_by(|one, other| one.name == other.name);
                match first_error {
                    Some(error) if !has_answer => Err(error),
                    _ => Ok(all),
                }
            }
        }
    }

    /// Ends the links to other nodes.
    pub(crate) async fn close(&self) {
        if let Source::Remote(remote) = &self.source {
            remote.close().await;
        }
    }

    /// The facts about a dataset as they are now.
    ///
    /// # Errors
    /// [`DescribeError`].
    pub(crate) async fn describe(&self, dataset: &str, peer: &Peer) -> Result<Arc<DatasetDescription>, DescribeError> {
        let description = match &self.source {
            Source::Local(local) => local
                .describe(dataset, peer)
                .await
                .map_err(|denial| DescribeError::Denied { dataset: dataset.into(), denial })?,
            Source::Remote(remote) => ask_for_description(remote, dataset).await?,
            #[cfg(test)]
            Source::Simulated(source) => source.describe(),
        };
        self.described().insert(dataset.into(), Arc::clone(&description));
        Ok(description)
    }

    /// Opens an array of a dataset that was described, and the memory of an application for it.
    pub(crate) fn open(
        &self,
        description: &DatasetDescription,
        array: u32,
        grid: &GridOf,
        application: &str,
    ) -> Result<(Lease, BudgetLease), OpenError> {
        let generation = description.generation;
        let key = GridKey { dataset: description.name.as_str().into(), array, grid: grid.clone(), generation };
        let summary = description.arrays.get(array as usize).ok_or(OpenError::NoArray { array })?;
        let upstream: Arc<dyn Upstream> = match &self.source {
            Source::Local(local) => local.upstream(description).ok_or(OpenError::Changed)?,
            Source::Remote(remote) => remote.clone(),
            #[cfg(test)]
            Source::Simulated(source) => source.upstream(description).ok_or(OpenError::Changed)?,
        };
        let grid = self.node.open_grid(&key, &summary.description, &upstream)?;
        let budget = self.node.budget(&grid, application)?;
        Ok((grid, budget))
    }

    /// Opens an array for a peer, which names the generation that it knows.
    pub(crate) async fn open_for(
        &self,
        dataset: &str,
        array: u32,
        grid: &GridOf,
        generation: u64,
        application: &str,
        peer: &Peer,
    ) -> Result<(Lease, BudgetLease), Denial> {
        let known = self.described().get(dataset).filter(|known| known.generation == generation).cloned();
        let is_allowed = match &self.source {
            Source::Local(local) => local.may_read(dataset, peer),
            _ => true,
        };
        let description = match known {
            Some(known) if is_allowed => known,
            _ => self.describe(dataset, peer).await.map_err(Denial::from)?,
        };
        if description.generation != generation {
            return Err(OpenError::Changed.into());
        }
        self.open(&description, array, grid, application).map_err(Denial::from)
    }

    /// Has blocks ready where they come from.
    pub(crate) fn warm(&self, grid: &Arc<OpenGrid>, runs: impl Iterator<Item = Vec<Run>>) {
        // Files are as near as they can be.
        if let Source::Remote(remote) = &self.source {
            remote.warm(grid, runs);
        }
    }

    /// The reasons why files were left out.
    pub(crate) fn left_out(&self) -> Vec<String> {
        match &self.source {
            Source::Local(local) => local.left_out(),
            _ => Vec::new(),
        }
    }

    /// The nodes from which the datasets come.
    pub(crate) fn upstreams(&self) -> Vec<(Arc<str>, LinkStatus)> {
        match &self.source {
            Source::Remote(remote) => remote.links(),
            _ => Vec::new(),
        }
    }

    /// The figures of the nodes from which the datasets come.
    pub(crate) async fn upstream_status(&self) -> Vec<(Arc<str>, Result<NodeStatus, LinkError>)> {
        let Source::Remote(remote) = &self.source else { return Vec::new() };
        let answers = remote.ask_all(Question::Status).await.into_iter();
        let status = |answer| match answer {
            Ok(Answer::Status(status)) => Some(Ok(status)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        };
        answers.filter_map(|(name, answer)| Some((name, status(answer)?))).collect()
    }

    /// The way to the bytes of a block.
    pub(crate) fn path(&self) -> Path {
        match &self.source {
            Source::Local(local) => local.path(),
            Source::Remote(remote) => remote.path(),
            #[cfg(test)]
            Source::Simulated(source) => source.path(),
        }
    }

    /// The node's figures, as far as they are about datasets that a peer may read.
    pub(crate) fn status_for(&self, peer: &Peer) -> NodeStatus {
        let mut status = self.status();
        if let Source::Local(local) = &self.source {
            status.budgets.retain(|budget| local.may_read(&budget.dataset, peer));
        }
        status
    }

    /// The node's figures.
    pub(crate) fn status(&self) -> NodeStatus {
        NodeStatus { links: self.links.load(Ordering::Relaxed), ..self.node.status() }
    }

    /// Counts a link to a node that reads, until the result is dropped.
    pub(crate) fn count_link(self: &Arc<Self>) -> CountedLink {
        self.links.fetch_add(1, Ordering::Relaxed);
        CountedLink(Arc::clone(self))
    }

    fn described(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<DatasetDescription>>> {
        self.described.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Source::Remote(remote) = &self.source {
            remote.abort();
        }
    }
}

/// A link that a node serves.
#[derive(Debug)]
pub(crate) struct CountedLink(Arc<Library>);

impl Drop for CountedLink {
    fn drop(&mut self) {
        self.0.links.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Why an array cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error("the dataset has no array of the number {array}")]
    NoArray { array: u32 },
    #[error("the source has changed")]
    Changed,
    #[error(transparent)]
    Grid(#[from] OpenGridError),
    #[error(transparent)]
    Budget(#[from] NoBudget),
}

impl From<OpenError> for Denial {
    fn from(error: OpenError) -> Self {
        let reason = match &error {
            OpenError::NoArray { .. } => DenialReason::Unknown,
            OpenError::Changed => DenialReason::Changed,
            OpenError::Grid(OpenGridError::Full { .. }) | OpenError::Budget(_) => DenialReason::Full,
            OpenError::Grid(_) => DenialReason::Grid,
        };
        Self { reason, text: error.to_string() }
    }
}

impl From<DescribeError> for Denial {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Denied { denial, .. } => denial,
            error => Self { reason: DenialReason::Source, text: error.to_string() },
        }
    }
}

/// Asks all nodes, and takes what they agree on.
async fn ask_for_description(remote: &Remote, dataset: &str) -> Result<Arc<DatasetDescription>, DescribeError> {
    let name: Arc<str> = dataset.into();
    let mut known: Option<(Arc<str>, DatasetDescription)> = None;
    let mut own = Vec::new();
    let (mut denied, mut unreachable) = (None, None);
    for (node, answer) in remote.describe(&name).await {
        match answer {
            Ok(Ok(description)) => {
                own.push((Arc::clone(&node), description.generation));
                match &known {
                    Some((first, other)) if other.digest != description.digest => {
                        let (first, second) = (Arc::clone(first), node);
                        return Err(DescribeError::Disagreement { dataset: dataset.into(), first, second });
                    }
                    Some(_) => {}
                    None => known = Some((node, description)),
                }
            }
            Ok(Err(denial)) => drop(denied.get_or_insert(DescribeError::Denied { dataset: dataset.into(), denial })),
            Err(error) => drop(unreachable.get_or_insert(DescribeError::Link(error))),
        }
    }
    let error = || denied.or(unreachable).expect("every node answers or fails");
    let (_, description) = known.ok_or_else(error)?;
    remote.note_generations(&name, description.generation, &own);
    Ok(Arc::new(description))
}
