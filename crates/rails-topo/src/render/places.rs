//! Packages, nodes, caches and cores, each below the smallest that holds it.

use crate::{Cache, Core, CpuSet, DataSize, NumaNode, Package, Topology};
use std::fmt;

/// A line of the tree and the PUs it speaks of.
struct Place<'a> {
    label: String,
    cpus: &'a CpuSet,
    /// The places right below, by index.
    inner: Vec<usize>,
    /// The cores right below.
    cores: Vec<&'a Core>,
}

pub(super) fn write(f: &mut fmt::Formatter<'_>, topology: &Topology) -> fmt::Result {
    let mut places = places(topology);
    let mut outermost = Vec::new();
    for index in 0..places.len() {
        match holder(&places[..index], places[index].cpus) {
            Some(outer) => places[outer].inner.push(index),
            None => outermost.push(index),
        }
    }
    let mut loose = Vec::new();
    let mut in_cores = CpuSet::new();
    for core in topology.cores() {
        in_cores = in_cores.union(&core.cpus);
        match holder(&places, &core.cpus) {
            Some(outer) => places[outer].cores.push(core),
            None => loose.push(core),
        }
    }
    outermost.sort_by_key(|index| places[*index].cpus.first());
    outermost.iter().try_for_each(|index| write_place(f, &places, *index, 1))?;
    write_cores(f, &loose, 1)?;
    let without_core = topology.online_cpus().difference(&in_cores);
    match without_core.is_empty() {
        true => Ok(()),
        false => writeln!(f, "  PUs of unknown cores: CPUs {without_core}"),
    }
}

/// The places from the largest to the smallest, so that what holds another comes before it.
fn places(topology: &Topology) -> Vec<Place<'_>> {
    let packages = topology.packages().iter().map(|package| (package_label(package), &package.cpus, 0));
    let nodes = topology.nodes().iter().map(|node| (node_label(node), &node.cpus, 1));
    let caches = shared_last_level(topology).into_iter().map(|cache| (cache_label(cache), &cache.cpus, 2));
    let mut places: Vec<_> = packages.chain(nodes).chain(caches).collect();
    places.sort_by_key(|(_, cpus, rank)| (std::cmp::Reverse(cpus.len()), *rank));
    let place = |(label, cpus, _)| Place { label, cpus, inner: Vec::new(), cores: Vec::new() };
    places.into_iter().map(place).collect()
}

/// The smallest of the places that hold these CPUs.
fn holder(places: &[Place<'_>], cpus: &CpuSet) -> Option<usize> {
    places.iter().rposition(|place| !cpus.is_empty() && cpus.is_subset(place.cpus))
}

fn write_place(f: &mut fmt::Formatter<'_>, places: &[Place<'_>], index: usize, depth: usize) -> fmt::Result {
    let place = &places[index];
    writeln!(f, "{:indent$}{}", "", place.label, indent = depth * 2)?;
    let mut inner = place.inner.clone();
    inner.sort_by_key(|index| places[*index].cpus.first());
    inner.iter().try_for_each(|index| write_place(f, places, *index, depth + 1))?;
    write_cores(f, &place.cores, depth + 1)
}

/// A line for each run of cores with rising numbers and equally many PUs.
fn write_cores(f: &mut fmt::Formatter<'_>, cores: &[&Core], depth: usize) -> fmt::Result {
    let is_run = |a: &&Core, b: &&Core| a.cpus.len() == b.cpus.len() && a.id.is_some() == b.id.is_some();
    for run in cores.chunk_by(is_run) {
        let cpus = run.iter().fold(CpuSet::new(), |cpus, core| cpus.union(&core.cpus));
        let number = |core: &&Core| core.id.filter(|id| *id <= LARGEST_SHOWN).map(crate::CpuId);
        let numbers: Option<CpuSet> = run.iter().map(number).collect();
        // The kernel numbers cores within a package: below something that spans packages numbers repeat.
        let numbers = numbers.filter(|numbers| numbers.len() == run.len());
        let cores = match (numbers, run.len()) {
            (Some(numbers), 1) => format!("core {numbers}"),
            (Some(numbers), _) => format!("cores {numbers}"),
            (None, 1) => "1 core".to_owned(),
            (None, count) => format!("{count} cores"),
        };
        let pus = match (run[0].cpus.len(), run.len()) {
            (1, 1) => "1 PU".to_owned(),
            (1, _) => "1 PU each".to_owned(),
            (count, 1) => format!("{count} PUs"),
            (count, _) => format!("{count} PUs each"),
        };
        writeln!(f, "{:indent$}{cores} ({pus}): CPUs {cpus}", "", indent = depth * 2)?;
    }
    Ok(())
}

/// A set takes memory and time by the largest number in it, and firmware may number cores as it likes.
const LARGEST_SHOWN: u32 = 1 << 16;

/// The caches that no larger one stands behind and that more than one core shares: others are the same in every core.
fn shared_last_level(topology: &Topology) -> Vec<&Cache> {
    let mut covered = CpuSet::new();
    let mut last_level = Vec::new();
    for cache in topology.caches().iter().rev().filter(|cache| !cache.cpus.is_empty()) {
        if !cache.cpus.intersects(&covered) {
            covered = covered.union(&cache.cpus);
            last_level.push(cache);
        }
    }
    let core = |cache: &Cache| cache.cpus.first().and_then(|cpu| topology.core_of_cpu(cpu));
    last_level.retain(|cache| !core(cache).is_some_and(|core| cache.cpus.is_subset(&core.cpus)));
    last_level
}

fn package_label(package: &Package) -> String {
    let number = package.id.map_or("of unknown number".to_owned(), |id| id.to_string());
    format!("package {number}: CPUs {}", package.cpus)
}

fn node_label(node: &NumaNode) -> String {
    let memory = node.memory.map_or("memory unknown".to_owned(), |memory| memory.to_string());
    match node.cpus.is_empty() {
        true => format!("node {}: {memory}, no CPUs", node.id),
        false => format!("node {}: {memory}, CPUs {}", node.id, node.cpus),
    }
}

fn cache_label(cache: &Cache) -> String {
    let size = cache.size.as_ref().map_or("size unknown".to_owned(), DataSize::to_string);
    format!("L{}: {size}, CPUs {}", cache.level, cache.cpus)
}
