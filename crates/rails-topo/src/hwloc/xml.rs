//! hwloc's XML files.

use super::{BoxedError, allowed_cpus, allowed_nodes, devices, kinds, load, sets, tree, version};
use crate::{CpuSet, Gpu, Origin, Topology, XmlError, bounded_file};
use hwlocality::{
    Topology as Hwloc,
    topology::builder::{BuildFlags, TopologyBuilder, TypeFilter},
};
use std::path::Path;

pub(super) fn read(path: &Path) -> Result<Topology, XmlError> {
    let xml = bounded_file::read_model(path).map_err(|source| XmlError::Read { path: path.to_owned(), source })?;
    let not_hwloc = |reason| XmlError::NotHwloc { path: path.to_owned(), reason };
    let xml = String::from_utf8(xml).map_err(|_| not_hwloc("it is not text in UTF-8"))?;
    let version_of_file = format_version(&xml).map_err(not_hwloc)?;
    if is_too_new(version_of_file) {
        let version_of_file = version_of_file.to_owned();
        return Err(XmlError::Version { path: path.to_owned(), version: version_of_file, hwloc: version() });
    }
    let failed = |source| XmlError::Load { path: path.to_owned(), hwloc: version(), source };
    let hwloc = parse(&xml).map_err(failed)?;
    let online_cpus = sets::cpus(&hwloc.cpuset());
    if online_cpus.is_empty() {
        return Err(not_hwloc("it describes no CPU"));
    }
    let packages = tree::packages(&hwloc);
    let pci_devices = devices::pci_devices(&hwloc);
    let mut gpus = devices::gpus(&hwloc);
    gpus.extend(Gpu::unnamed(&pci_devices, &gpus));
    Ok(Topology {
        origin: Origin::Xml { path: path.to_owned() },
        machine: tree::machine(&hwloc),
        dies: tree::dies(&hwloc, &packages),
        packages,
        nodes: tree::nodes(&hwloc),
        distances: tree::distances(&hwloc),
        caches: tree::caches(&hwloc),
        cores: tree::cores(&hwloc),
        allowed_cpus: allowed_cpus(&hwloc).intersection(&online_cpus),
        allowed_nodes: allowed_nodes(&hwloc),
        core_kinds: kinds::core_kinds(&hwloc, &online_cpus),
        online_cpus,
        isolated_cpus: CpuSet::new(),
        nohz_full_cpus: CpuSet::new(),
        pci_devices,
        nics: tree::nics(&hwloc),
        rdma_devices: devices::rdma_devices(&hwloc),
        gpus,
        block_devices: devices::block_devices(&hwloc),
        overrides: Vec::new(),
    }
    .in_order())
}

fn parse(xml: &str) -> Result<Hwloc, BoxedError> {
    load(TopologyBuilder::new().from_xml(xml)?, BuildFlags::INCLUDE_DISALLOWED, TypeFilter::KeepAll)
}

/// The version that the root element carries; hwloc 1 wrote none.
///
/// hwloc reports an unknown version as any other fault, so the version is read beforehand.
fn format_version(xml: &str) -> Result<&str, &'static str> {
    let (_, element) = xml.split_once("<topology").ok_or("it has no `topology` element")?;
    let (attributes, _) = element.split_once('>').ok_or("its `topology` element does not end")?;
    let version = attributes.split_once("version=\"").and_then(|(_, rest)| rest.split_once('"'));
    Ok(version.map_or("1.0", |(version, _)| version))
}

/// The format's major version is the library's, and a library reads its own and older ones.
fn is_too_new(version: &str) -> bool {
    let major = version.split('.').next().and_then(|major| major.parse::<usize>().ok());
    major.is_some_and(|major| major > hwlocality::hwloc_api_version() >> 16)
}
