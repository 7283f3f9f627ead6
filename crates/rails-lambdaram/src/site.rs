//! Sites: where datasets are.

use crate::{
    SiteAddress, SiteAddressError, SiteOptionError, SiteOptions,
    address::{LinkTransport, NodeAddress},
    aside::aside,
    budgets::Budgets,
    catalogue::{Catalogue, CatalogueError, OpenLimits},
    dataset::Dataset,
    description::DatasetEntry,
    library::{DescribeError, Library, Local, Peer, Source},
    link::{Dialer, Greeting, LinkError, Remote, RemotePeer},
    node::{Node, NodeSize, SlotMemory},
    opened::OpenSite,
    storage::{Storage, StorageOptions},
    trace::Recorder,
    wire::{NodeId, NodeStatus},
};
use futures_util::future::try_join_all;
use rails_bind::memory::MemoryError;
use rails_formats::reader::NoThread;
use rails_multirail::{
    LaneAddress, RailRequest, Rails, ResolveError, Routes, Scheme, Security, StreamOptions,
    planner::{PlanError, plan_rails},
    runtime::RuntimeError,
};
use rails_topo::{DetectError, Topology};
use std::{io, sync::Arc, time::Duration};
use tokio::runtime::Handle;

/// The datasets at one address, and the memory in which this process keeps what it reads of them.
///
/// Clones are handles to the same site. The memory is given back when all handles are gone, those
/// of its [datasets](Dataset) and arrays among them.
#[derive(Debug, Clone)]
pub struct Site {
    inner: Arc<OpenSite>,
}

/// Why a site cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// The text is no address.
    #[error(transparent)]
    Address(#[from] SiteAddressError),
    /// An option is wrong.
    #[error(transparent)]
    Option(#[from] SiteOptionError),
    /// A host name is unknown.
    #[error("cannot find the node `{node}`")]
    Resolve {
        /// The node.
        node: String,
        /// The cause.
        #[source]
        error: ResolveError,
    },
    /// No route leads to an address.
    #[error("no route leads to {address}")]
    Route {
        /// The address.
        address: LaneAddress,
        /// The cause.
        #[source]
        error: io::Error,
    },
    /// Links to other machines have to be protected, or said not to be.
    #[error("{address} is another machine, and it is not said how the link is protected")]
    Security {
        /// The address.
        address: LaneAddress,
    },
    /// The machine cannot be read.
    #[error("cannot read this machine's topology")]
    Topology(#[from] DetectError),
    /// No rails can be planned.
    #[error("cannot plan rails")]
    Plan(#[from] PlanError),
    /// A rail's thread cannot be started.
    #[error("cannot start the rails")]
    Rails(#[from] RuntimeError),
    /// The memory cannot be had. For nodes that serve, this is an error of the first read.
    #[error("cannot take the memory for blocks")]
    Memory(#[from] MemoryError),
    /// No reading thread can be started.
    #[error(transparent)]
    Threads(#[from] NoThread),
    /// The files cannot be opened.
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    /// No random number can be had for the node's name.
    #[error("the system gives no random numbers")]
    Random(#[from] getrandom::Error),
}

impl Site {
    /// Opens the site of an address with the default options. The address is one of a node that
    /// serves, such as `lram://host/merra`, or a path to files: see [`SiteAddress`].
    ///
    /// # Errors
    /// [`SiteError`]. That no node answers is no error here, but one of the first question.
    ///
    /// # Panics
    /// Outside of a tokio runtime with time enabled.
    pub async fn open(address: &str) -> Result<Self, SiteError> {
        Self::open_with(address, SiteOptions::new()).await
    }

    /// Opens the site of an address.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub async fn open_with(address: &str, options: SiteOptions) -> Result<Self, SiteError> {
        let address: SiteAddress = address.parse()?;
        match &address {
            SiteAddress::Files(path) => {
                let data = vec![path.clone()];
                let limits = OpenLimits::default();
                let catalogue = aside(move || Catalogue::open(&data, &limits)).await?;
                Self::of_catalogue(address, catalogue, options)
            }
            SiteAddress::Nodes { transport, nodes, .. } => {
                let (transport, nodes) = (*transport, nodes.clone());
                Self::of_nodes(address, transport, &nodes, options).await
            }
        }
    }

    /// The site of datasets in files of this machine.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub fn of_files(catalogue: Catalogue, options: SiteOptions) -> Result<Self, SiteError> {
        Self::of_catalogue(SiteAddress::Files("".into()), catalogue, options)
    }

    /// The address.
    pub fn address(&self) -> &SiteAddress {
        &self.inner.address
    }

    /// The datasets that this process may read.
    ///
    /// # Errors
    /// [`LinkError`], if no node answers.
    pub async fn datasets(&self) -> Result<Vec<DatasetEntry>, LinkError> {
        self.inner.library.list(&Peer::owner()).await
    }

    /// Opens a dataset, as it is now.
    ///
    /// # Errors
    /// [`DescribeError`].
    pub async fn dataset(&self, name: &str) -> Result<Dataset, DescribeError> {
        let description = self.inner.library.describe(name, &Peer::owner()).await?;
        Ok(Dataset::new(&self.inner, description))
    }

    /// The files that look like datasets and are none, and the arrays of Zarr folders that cannot
    /// be read, with the reasons. Empty for nodes that serve.
    pub fn left_out(&self) -> Vec<String> {
        self.inner.library.left_out()
    }

    /// The figures of this process's memory.
    pub fn status(&self) -> NodeStatus {
        self.inner.library.status()
    }

    /// The figures of the nodes that serve, each with its address. Empty for files of this machine.
    pub async fn upstream_status(&self) -> Vec<(Arc<str>, Result<NodeStatus, LinkError>)> {
        self.inner.library.upstream_status().await
    }

    /// The nodes that serve, and how their links are. Empty for files of this machine.
    pub fn links(&self) -> Vec<(Arc<str>, String)> {
        let links = self.inner.library.upstreams().into_iter();
        links.map(|(name, status)| (name, status.to_string())).collect()
    }

    /// A site of a library that a test has made.
    #[cfg(test)]
    pub(crate) fn of_library(library: &Arc<Library>, address: SiteAddress, options: SiteOptions) -> Self {
        Self::of_parts(Arc::clone(library), options, address, Vec::new())
    }

    /// Ends the links to the nodes that serve, and waits until they have ended them, too, for three
    /// seconds at most. A process that ends without it leaves nodes that wait for its links to come
    /// back. Afterwards nothing can be read but what is in memory.
    pub async fn close(&self) {
        self.inner.library.close().await;
    }

    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.inner.library
    }

    fn of_catalogue(address: SiteAddress, catalogue: Catalogue, options: SiteOptions) -> Result<Self, SiteError> {
        let node = node_of(&options, SlotMemory::new)?;
        let storage = Storage::new(StorageOptions::default())?;
        let source = Source::Local(Local::new(&node, catalogue, storage, &Handle::current()));
        let library = Library::new(&node, source);
        Ok(Self::of_parts(library, options, address, Vec::new()))
    }

    fn of_parts(library: Arc<Library>, options: SiteOptions, address: SiteAddress, rails: Vec<Rails>) -> Self {
        let recorder = Recorder::of(&options, &address, &library);
        Self { inner: Arc::new(OpenSite { library, options, address, rails, recorder }) }
    }

    async fn of_nodes(
        address: SiteAddress,
        transport: LinkTransport,
        nodes: &[NodeAddress],
        options: SiteOptions,
    ) -> Result<Self, SiteError> {
        // Both take milliseconds, one of the processor and the other of a server of names.
        let (topology, names) = tokio::join!(aside(Topology::detect), resolve(nodes));
        let (topology, names) = (topology?, names?);
        // Another node with copies is asked sooner than a lost one may come back.
        let outage = if nodes.len() > 1 { options.patience.min(OUTAGE_BESIDE_COPIES) } else { options.patience };
        let (mut peers, mut all_rails) = (Vec::new(), Vec::new());
        for (node, names) in nodes.iter().zip(names) {
            let security = security_towards(&names, &options)?;
            let routes = Routes::towards(&topology, &names, |remote| {
                rails_net::local_address_towards(remote)
                    .map_err(|error| SiteError::Route { address: remote.into(), error })
            })?;
            let rails = Rails::build(&plan_rails(&topology, &RailRequest::routed(routes.rails()))?)?;
            let runtime = rails.iter().next().map_or_else(Handle::current, |rail| rail.runtime().handle().clone());
            let dialer = match transport {
                LinkTransport::Rails => {
                    let pairing = routes.pairing(&rails.offers(Scheme::TCP), &names);
                    let stream = StreamOptions::new(security).window(options.window.as_bytes());
                    let stream = stream.outage_limit(outage).connect_timeout(options.patience);
                    Dialer::Rails { rails: rails.clone(), pairing, options: Box::new(stream) }
                }
                LinkTransport::Celeritas => {
                    Dialer::Celeritas { addresses: names.concat(), options: Box::new(options.celeritas(&security)) }
                }
            };
            peers.push(RemotePeer { name: node.to_string().into(), dialer, runtime });
            all_rails.push(rails);
        }
        // The memory is made ready while the link is opened.
        let node = node_of(&options, |size| Ok(SlotMemory::made_meanwhile(size)))?;
        let greeting = Greeting {
            path: vec![node.id()],
            application: options.application.clone(),
            max_block_bytes: u32::try_from(node.max_block_bytes()).unwrap_or(u32::MAX),
            slot_bytes: node.slot_bytes().get(),
        };
        let remote = Remote::new(peers, &greeting, options.patience, options.presend, &node);
        let library = Library::new(&node, Source::Remote(remote));
        Ok(Self::of_parts(library, options, address, all_rails))
    }
}

/// The addresses of each node, by the names that it has.
async fn resolve(nodes: &[NodeAddress]) -> Result<Vec<Vec<Vec<LaneAddress>>>, SiteError> {
    let resolved = nodes.iter().map(async |node| {
        let names = rails_multirail::resolve(&node.lanes).await;
        names.map_err(|error| SiteError::Resolve { node: node.to_string(), error })
    });
    try_join_all(resolved).await
}

/// A node with the memory of the options.
fn node_of(
    options: &SiteOptions,
    memory: impl FnOnce(NodeSize) -> Result<SlotMemory, MemoryError>,
) -> Result<Arc<Node>, SiteError> {
    options.check()?;
    let slots = options.slots()?;
    let mut random = [0; 24];
    getrandom::fill(&mut random)?;
    let (id, seed) = random.split_at(16);
    let id = NodeId(id.try_into().expect("sixteen bytes"));
    let seed = u64::from_le_bytes(seed.try_into().expect("eight bytes"));
    let size = NodeSize { slots, slot_bytes: options.slot_bytes, max_block_slots: MAX_BLOCK_SLOTS };
    let budgets =
        Budgets::new(&options.budgets, slots, options.slot_bytes, MAX_BLOCK_SLOTS).map_err(SiteOptionError::from)?;
    Ok(Node::new(id, size, budgets, memory(size)?, seed, &Handle::current()))
}

/// The security that the options state, or none for nodes on this machine.
fn security_towards(names: &[Vec<LaneAddress>], options: &SiteOptions) -> Result<Security, SiteError> {
    if let Some(security) = &options.security {
        return Ok(security.clone());
    }
    match names.iter().flatten().find(|address| !address.socket.ip().is_loopback()) {
        None => Ok(Security::insecure()),
        Some(address) => Err(SiteError::Security { address: *address }),
    }
}

/// 1 MiB of slots of 64 KiB.
const MAX_BLOCK_SLOTS: u32 = 16;
/// A link without a lane is kept so long, where another node has the same data.
const OUTAGE_BESIDE_COPIES: Duration = Duration::from_secs(2);
