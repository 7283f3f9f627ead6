//! The meaning of the marks in the picture.

use super::{
    super::block::{Block, Cell, Kind, PuState, Row, Tone, cut},
    Scene,
};
use crate::render::phrases::{self, plain};

/// The legend; `None` if there is nothing to explain.
pub(super) fn legend(scene: &Scene<'_>) -> Option<Block> {
    let rails = rails(scene);
    let signs = signs(scene);
    let is_empty = rails.is_empty() && signs.is_empty();
    let heading = vec![Row::text(11.0, "legend", Tone::Dim)];
    (!is_empty).then(|| Block { shape: Some(FLAT), ..Block::new(Kind::Group, heading).section(rails).section(signs) })
}

/// Each rail, with all its parts.
fn rails(scene: &Scene<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (index, rail) in scene.overlay.rails.iter().enumerate() {
        let nic = rail.nic.as_deref().map_or("interface unknown".into(), plain).into_owned();
        let cpus = match rail.cpus.len() {
            0 => "CPU unknown".to_owned(),
            1 => format!("CPU {}", rail.cpus),
            _ => format!("CPUs {}", phrases::cpus(&rail.cpus)),
        };
        let node = rail.node.map(|node| format!("memory of node {node}"));
        let interrupts = match rail.interrupts.as_slice() {
            [] => None,
            [one] => Some(format!("interrupt {one}")),
            several => Some(format!("{} interrupts", several.len())),
        };
        let facts: Vec<String> = [Some(nic), Some(cpus), node, interrupts].into_iter().flatten().collect();
        let mut cells = scene.marks.frames(&[index], 1);
        cells.push(Cell::new(&cut(&facts.join(", "), LONGEST), Tone::Plain));
        let mut block = Block::new(Kind::Key, vec![Row::of(11.0, cells)]);
        block.hint = format!("{}: {}", plain(&rail.name), facts.join(", "));
        blocks.push(block);
    }
    blocks
}

/// Letters, and the looks of PUs and cores.
fn signs(scene: &Scene<'_>) -> Vec<Block> {
    let mut signs = Vec::new();
    let letters = scene.marks.letters();
    if let [(letter, nic), ..] = letters.as_slice() {
        let nic = cut(&plain(nic), LONGEST / 4);
        let text = format!("on a CPU: it serves an interrupt of {nic}, which has that letter; {letter}2: two of them");
        let cells = vec![Cell::new(letter, Tone::Tag), Cell::new(&cut(&text, LONGEST), Tone::Dim)];
        signs.push(Block::new(Kind::Key, vec![Row::of(10.0, cells)]));
    }
    let topology = scene.topology;
    let mut sample = |is_there: bool, kind: Kind, text: &str| {
        if is_there {
            signs.push(Block::new(kind, vec![Row::text(10.0, &cut(text, LONGEST), Tone::Dim)]));
        }
    };
    let forbidden = !topology.online_cpus().is_subset(topology.allowed_cpus());
    let isolated = !topology.isolated_cpus().is_empty();
    let tickless = !topology.nohz_full_cpus().is_empty();
    let pu = PuState::default();
    sample(forbidden, Kind::Pu(PuState { forbidden: true, ..pu }), "CPU that may not be used here");
    sample(isolated, Kind::Pu(PuState { isolated: true, ..pu }), "isolated CPU");
    sample(tickless, Kind::Pu(PuState { tickless: true, ..pu }), "CPU without a tick (nohz_full)");
    for (rank, kind) in topology.core_kinds().iter().enumerate() {
        let facts = phrases::core_kind(kind);
        let facts = if facts.is_empty() { String::new() } else { format!(": {}", facts.join(", ")) };
        sample(true, Kind::Core(rank), &format!("core of {}{facts}", phrases::name_of_kind(kind)));
    }
    signs
}

/// Width over height.
const FLAT: f64 = 3.0;
/// The longest line in columns.
const LONGEST: usize = 96;
