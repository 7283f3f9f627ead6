//! The scene: a model becomes blocks.

mod device_block;
mod devices;
mod legend;
mod marks;
mod nics;
mod object_blocks;

use super::{
    Overlay,
    block::{Block, Kind, Row, Tone},
};
use crate::{
    Topology,
    render::{objects::ObjectTree, phrases},
};
use devices::Devices;
use marks::Marks;

/// The detail of a picture, by the room on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Every block has a name, and cores show their own caches.
    Close,
    /// PUs have numbers only; facts of all cores stand once.
    Wide,
}

/// The source of all blocks.
struct Scene<'a> {
    topology: &'a Topology,
    overlay: &'a Overlay,
    tree: ObjectTree<'a>,
    marks: Marks<'a>,
    detail: Detail,
    /// The caches of every core, where they are the same.
    caches: Option<String>,
}

impl Scene<'_> {
    /// Puts devices below the objects, or, in a detailed picture, beside them.
    fn sections(&self, block: Block, mut objects: Vec<Block>, devices: Vec<Block>) -> Block {
        match self.detail {
            Detail::Wide => block.section(objects).section(devices),
            Detail::Close => {
                objects.extend(devices);
                block.section(objects)
            }
        }
    }
}

/// The whole picture.
pub(super) fn scene(topology: &Topology, overlay: &Overlay) -> Block {
    let tree = ObjectTree::of(topology);
    let scene = Scene {
        topology,
        overlay,
        caches: same_caches(&tree, topology),
        tree,
        marks: Marks::of(topology, overlay),
        detail: if topology.online_cpus().len() <= CLOSE { Detail::Close } else { Detail::Wide },
    };
    let mut devices = Devices::of(&scene);
    let objects = scene.objects(&mut devices);
    let mut rows = vec![
        Row::text(15.0, &format!("machine {}", phrases::machine(topology)), Tone::Bold),
        Row::text(11.0, &counts(topology), Tone::Dim),
        Row::text(11.0, &phrases::origin(topology), Tone::Dim),
    ];
    if let (Detail::Wide, Some(caches)) = (scene.detail, &scene.caches) {
        rows.push(Row::text(11.0, &format!("each core has {caches}"), Tone::Dim));
    }
    let picture = Block::new(Kind::Machine, rows);
    let rest = devices.rest(&scene).into_iter().chain(legend::legend(&scene));
    picture.section(objects.into_iter().chain(rest).collect())
}

/// The caches of the cores, if they are the same for every core and so are shown once.
fn same_caches(tree: &ObjectTree<'_>, topology: &Topology) -> Option<String> {
    let words = |core| phrases::private_caches(tree.private(core));
    let mut all = topology.cores().iter().map(words);
    let first = all.next()?;
    (!first.is_empty() && all.all(|words| words == first)).then_some(first)
}

fn counts(topology: &Topology) -> String {
    let counted = [
        phrases::count(topology.packages().len(), "package"),
        phrases::count(topology.nodes().len(), "NUMA node"),
        phrases::count(topology.cores().len(), "core"),
        phrases::count(topology.online_cpus().len(), "CPU"),
        format!("CPUs {} may be used", phrases::cpus(topology.allowed_cpus())),
    ];
    counted.join(", ")
}

/// Pictures with more PUs than these have no room for words on each PU.
const CLOSE: usize = 40;
