//! The machine as hwloc sees it, from the system or from an XML file.

mod devices;
mod kinds;
mod memory;
mod object;
mod sets;
mod tree;
mod xml;

use crate::{CpuSet, DetectError, Gpu, Nic, NicKind, NodeId, NodeSet, NumaNode, Origin, Topology, linux::Root};
use hwlocality::{
    Topology as Hwloc,
    object::types::ObjectType,
    topology::builder::{BuildFlags, TopologyBuilder, TypeFilter},
};
use std::path::Path;

/// The reason that hwloc failed; its own error types stay out of this crate's interface.
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

/// Replaces the facts from this machine's files that hwloc knows better.
///
/// The kernel's files decide which objects exist: the online CPUs, and whether there are NUMA nodes
/// (on a kernel without NUMA hwloc makes one up). Where hwloc fails, all facts are those of the
/// files, and the origin says so.
pub(crate) fn complete(root: &Root, mut topology: Topology) -> Result<Topology, DetectError> {
    let hwloc = match unusable_reason(root).map_or_else(this_machine, |reason| Err(reason.into())) {
        Ok(hwloc) => hwloc,
        Err(error) => {
            let reader = format!("sysfs; hwloc {} did not read this machine: {error}", version());
            topology.origin = Origin::ThisMachine { reader };
            return Ok(topology);
        }
    };
    if !hwloc.is_this_system() {
        return Err(DetectError::NotThisMachine);
    }
    let nodes = tree::nodes(&hwloc);
    if is_incomplete(&topology, &hwloc, &nodes) {
        let reader = format!("sysfs; hwloc {} did not read all of this machine", version());
        topology.origin = Origin::ThisMachine { reader };
        return Ok(topology);
    }
    topology.packages = tree::packages(&hwloc);
    topology.dies = tree::dies(&hwloc, &topology.packages);
    topology.caches = tree::caches(&hwloc);
    topology.cores = tree::cores(&hwloc);
    topology.allowed_cpus = topology.allowed_cpus.intersection(&allowed_cpus(&hwloc));
    if !topology.nodes.is_empty() {
        topology.nodes = with_known(nodes, &topology.nodes);
        topology.distances = tree::distances(&hwloc);
        topology.allowed_nodes = topology.allowed_nodes.intersection(&allowed_nodes(&hwloc));
    }
    complete_devices(&mut topology, &hwloc);
    topology.origin = Origin::ThisMachine { reader: format!("hwloc {}", version()) };
    Ok(topology.in_order())
}

/// Whether hwloc lacks CPUs that the kernel's files have, or nodes of CPUs: hwloc leaves out files
/// that it cannot open for lack of descriptors. It always leaves out nodes without CPUs, such as
/// the memory of GPUs.
fn is_incomplete(topology: &Topology, hwloc: &Hwloc, nodes: &[NumaNode]) -> bool {
    let lacks = |known: &NumaNode| !known.cpus.is_empty() && nodes.iter().all(|node| node.id != known.id);
    !topology.online_cpus.is_subset(&sets::cpus(&hwloc.cpuset())) || topology.nodes.iter().any(lacks)
}

/// The reason why hwloc cannot describe this machine; `None` if it can.
///
/// hwloc would end the process: hwloc 2 asserts that a folder of nodes lists one (`list_sysfsnode`
/// in its topology-linux.c). Without the folder of the CPUs it would make CPUs up.
fn unusable_reason(root: &Root) -> Option<&'static str> {
    const NODES: &str = "sys/devices/system/node";
    let listed = format!("{NODES}/online");
    let lists_nodes = match root.bytes(&listed, 1) {
        Some(_) => root.value::<NodeSet>(&listed).is_some_and(|nodes| !nodes.is_empty()),
        None => !root.numbered(NODES, "node").is_empty(),
    };
    if root.is_dir(NODES) && !lists_nodes {
        return Some("/sys/devices/system/node lists no node");
    }
    let has_cpus = !root.numbered("sys/devices/system/cpu", "cpu").is_empty();
    (!has_cpus).then_some("/sys/devices/system/cpu lists no CPU")
}

/// The version of the installed library.
fn version() -> String {
    let signature = |hwloc: Hwloc| object::info(hwloc.root_object(), "hwlocVersion");
    let made_up = TopologyBuilder::new().from_synthetic("pu:1").ok().and_then(|builder| builder.build().ok());
    made_up.and_then(signature).unwrap_or_else(|| "of unknown version".to_owned())
}

fn this_machine() -> Result<Hwloc, BoxedError> {
    // PUs outside the cpuset belong to the machine too; and detecting must not bind the calling thread
    // for a moment to every PU in turn, as hwloc's x86 backend does.
    let flags = BuildFlags::INCLUDE_DISALLOWED | BuildFlags::DONT_CHANGE_BINDING;
    load(TopologyBuilder::new(), flags, TypeFilter::KeepImportant)
}

/// Loads with instruction caches and I/O devices, both of which hwloc leaves out unless asked.
fn load(builder: TopologyBuilder, flags: BuildFlags, io: TypeFilter) -> Result<Hwloc, BoxedError> {
    let builder = builder.with_flags(flags)?.with_cpu_cache_type_filter(TypeFilter::KeepAll)?;
    let builder = builder.with_cpu_icache_type_filter(TypeFilter::KeepAll)?.with_io_type_filter(io)?;
    Ok(builder.with_type_filter(ObjectType::Group, TypeFilter::KeepStructure)?.build()?)
}

/// Adds hwloc's facts of devices that the kernel's files do not state.
fn complete_devices(topology: &mut Topology, hwloc: &Hwloc) {
    let online = &topology.online_cpus;
    for found in tree::nics(hwloc) {
        // hwloc reads the files, which may be those of another interface of that name.
        let same = |nic: &&mut Nic| nic.name == found.name && nic.kind != NicKind::Unknown;
        if let Some(nic) = topology.nics.iter_mut().find(same) {
            fill_in(nic, found, online);
        }
    }
    for found in devices::pci_devices(hwloc) {
        if let Some(device) = topology.pci_devices.iter_mut().find(|device| device.address == found.address) {
            locate((&mut device.node, &mut device.local_cpus), (found.node, found.local_cpus), online);
        }
    }
    for found in devices::rdma_devices(hwloc) {
        if let Some(device) = topology.rdma_devices.iter_mut().find(|device| device.name == found.name) {
            locate((&mut device.node, &mut device.local_cpus), (found.node, found.local_cpus), online);
        }
    }
    for found in devices::block_devices(hwloc) {
        if let Some(device) = topology.block_devices.iter_mut().find(|device| device.name == found.name) {
            locate((&mut device.node, &mut device.local_cpus), (found.node, found.local_cpus), online);
        }
    }
    for found in devices::gpus(hwloc) {
        name_gpu(&mut topology.gpus, found, online);
    }
}

fn fill_in(nic: &mut Nic, found: Nic, online: &CpuSet) {
    nic.pci = nic.pci.or(found.pci);
    nic.mac = nic.mac.or(found.mac);
    locate((&mut nic.node, &mut nic.local_cpus), (found.node, found.local_cpus), online);
}

/// Takes the locality of a device from hwloc, if the kernel's files do not state it.
///
/// hwloc attaches a device of unknown locality to the whole machine: that does not turn the
/// kernel's -1 into a node.
fn locate(
    (node, local_cpus): (&mut Option<NodeId>, &mut Option<CpuSet>),
    (found_node, found_cpus): (Option<NodeId>, Option<CpuSet>),
    online: &CpuSet,
) {
    if let (None, None, Some(cpus)) = (*node, &*local_cpus, found_cpus)
        && cpus != *online
    {
        *node = found_node;
        *local_cpus = Some(cpus);
    }
}

/// hwloc's nodes, with the facts that only the kernel's files have: free huge pages, the kernel's
/// tiers, and the initiators of the firmware's figures.
fn with_known(mut nodes: Vec<NumaNode>, known: &[NumaNode]) -> Vec<NumaNode> {
    let has_tiers = known.iter().any(|node| node.tier.is_some());
    for node in &mut nodes {
        let Some(known) = known.iter().find(|known| known.id == node.id) else { continue };
        node.hugepages.clone_from(&known.hugepages);
        if has_tiers {
            node.tier = known.tier;
        }
        if !known.performance.is_empty() {
            node.performance.clone_from(&known.performance);
        }
    }
    nodes
}

/// Adds to a device the name that computing libraries have for it, and its model; or adds a device
/// that the kernel's files lack.
fn name_gpu(gpus: &mut Vec<Gpu>, found: Gpu, online: &CpuSet) {
    let same = |gpu: &&mut Gpu| gpu.name == found.name || (gpu.pci.is_some() && gpu.pci == found.pci);
    match gpus.iter_mut().find(same) {
        Some(gpu) => {
            gpu.name = found.name;
            gpu.model = gpu.model.take().or(found.model);
            locate((&mut gpu.node, &mut gpu.local_cpus), (found.node, found.local_cpus), online);
        }
        None => gpus.push(found),
    }
}

fn allowed_cpus(hwloc: &Hwloc) -> CpuSet {
    sets::cpus(&hwloc.allowed_cpuset())
}

fn allowed_nodes(hwloc: &Hwloc) -> NodeSet {
    sets::node_set(&hwloc.allowed_nodeset())
}

/// Reads an hwloc XML file; see [`Topology::from_xml`].
pub(crate) fn read_xml(path: &Path) -> Result<Topology, crate::XmlError> {
    xml::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_with_hwlocs_name_and_the_kernels_node() {
        let gpu = |name: &str, pci: &str| Gpu {
            name: name.to_owned(),
            pci: Some(pci.parse().unwrap()),
            model: None,
            driver: None,
            node: None,
            local_cpus: None,
        };
        let card = Gpu { driver: Some("nvidia".to_owned()), node: Some(NodeId(1)), ..gpu("card0", "0000:84:00.0") };
        let mut gpus = vec![card.clone()];
        let model = Some("H200".to_owned());
        let online = "0-7".parse().unwrap();
        let found = Gpu { model: model.clone(), node: Some(NodeId(0)), ..gpu("cuda0", "0000:84:00.0") };
        name_gpu(&mut gpus, found, &online);
        name_gpu(&mut gpus, gpu("cuda1", "0000:85:00.0"), &online);
        assert_eq!(gpus, [Gpu { name: "cuda0".to_owned(), model, ..card }, gpu("cuda1", "0000:85:00.0")]);
        let beside =
            |name| Gpu { node: Some(NodeId(1)), local_cpus: Some("4-7".parse().unwrap()), ..gpu(name, "0000:85:00.0") };
        name_gpu(&mut gpus, beside("cuda1"), &online);
        assert_eq!(gpus[1], beside("cuda1"), "the kernel did not say where it is");
    }

    #[test]
    fn place_that_is_the_whole_machine_says_nothing() {
        let online: CpuSet = "0-7".parse().unwrap();
        let found =
            |cpus: &str| Nic { node: Some(NodeId(0)), local_cpus: Some(cpus.parse().unwrap()), ..Nic::named("eth0") };
        let mut nic = Nic::named("eth0");
        fill_in(&mut nic, found("0-7"), &online);
        assert_eq!(nic, Nic::named("eth0"));
        fill_in(&mut nic, found("0-3"), &online);
        assert_eq!(nic, found("0-3"));
        fill_in(&mut nic, Nic { node: Some(NodeId(1)), ..found("4-7") }, &online);
        assert_eq!(nic, found("0-3"), "the kernel has the last word");
    }
}
