//! NICs as blocks.

use super::{
    super::block::{Anchor, Block, Cell, Kind, Row, Tone, cut},
    Scene,
    device_block::{CARD, in_two, more},
};
use crate::{
    CpuSet, Nic, NicKind,
    render::phrases::{self, plain},
};

/// A block for each NIC; of very many NICs only for the important ones.
pub(super) fn thinned(scene: &Scene<'_>, mut nics: Vec<&Nic>, block: impl Fn(&Nic) -> Block) -> Vec<Block> {
    let marked = scene.marks.nics();
    let mut left_out = Vec::new();
    if nics.len() > MAX_NICS {
        nics.sort_by_key(|nic| {
            let matters = marked.contains(nic.name.as_str());
            (!matters, nic.up != Some(true), nic.lowers.is_empty(), nic.name.as_str())
        });
        left_out = nics.split_off(MAX_NICS);
        nics.sort_by_key(|nic| nic.name.as_str());
    }
    let mut blocks: Vec<Block> = nics.into_iter().map(block).collect();
    blocks.extend(more(left_out.iter().map(|nic| plain(&nic.name).into_owned()).collect(), "interface"));
    blocks
}

fn head(scene: &Scene<'_>, nic: &Nic) -> Row {
    let mut cells = vec![Cell::new(&cut(&plain(&nic.name), CARD / 2), Tone::Bold)];
    cells.extend(scene.marks.frames(&scene.marks.rails_of_nic(&nic.name), 3));
    cells.extend(scene.marks.letter(nic).map(|letter| Cell::new(letter, Tone::Tag)));
    Row::of(13.0, cells)
}

/// A NIC with a device, with its facts.
pub(super) fn hardware(scene: &Scene<'_>, nic: &Nic) -> Block {
    let device = nic.pci.and_then(|pci| scene.topology.pci_device(pci));
    let join = |parts: [Option<String>; 2]| parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
    let speed = Some(phrases::speed(nic)).filter(|speed| !speed.is_empty()).map(|speed| format!("{speed},"));
    let driver = nic.driver.as_deref().map(|driver| plain(driver).into_owned());
    let mut facts = vec![
        (join([speed, Some(phrases::state(nic).to_owned())]), Tone::Plain),
        (join([nic.pci.map(|pci| pci.to_string()), driver]), Tone::Dim),
    ];
    let narrow = device.and_then(phrases::narrowed).is_some();
    let tone = if narrow { Tone::Warning } else { Tone::Plain };
    facts.extend(device.and_then(phrases::link).into_iter().flat_map(in_two).map(|link| (link, tone)));
    if !nic.rx_queues.is_empty() || !nic.tx_queues.is_empty() {
        let (rx, tx) = (nic.rx_queues.len(), nic.tx_queues.len());
        facts.push((format!("queues: {rx} receive, {tx} transmit"), Tone::Dim));
    }
    facts.extend(interrupts(nic).map(|interrupts| (interrupts, Tone::Dim)));
    let functions = device.and_then(|device| device.virtual_functions).filter(|functions| functions.enabled > 0);
    facts.extend(functions.map(|of| (format!("{} of {} virtual functions", of.enabled, of.total), Tone::Dim)));
    let rdma = scene.topology.rdma_devices().iter().flat_map(|rdma| rdma.ports.iter().map(move |port| (rdma, port)));
    let rdma = rdma.filter(|(_, port)| port.nic.as_deref() == Some(nic.name.as_str()));
    facts.extend(rdma.map(|(rdma, port)| (format!("RDMA {} port {}", plain(&rdma.name), port.number), Tone::Dim)));
    facts.extend(addresses(nic).map(|addresses| (addresses, Tone::Dim)));
    let mut block = Block::new(Kind::Nic, vec![head(scene, nic)]);
    let rows = facts.iter().filter(|(fact, _)| !fact.is_empty());
    block.rows.extend(rows.map(|(fact, tone)| Row::text(10.0, &cut(fact, CARD), *tone)));
    finish(scene, nic, block, facts.into_iter().map(|(fact, _)| fact))
}

/// A virtual interface, with those under it.
pub(super) fn in_software(scene: &Scene<'_>, nic: &Nic) -> Block {
    let kind = match nic.kind {
        NicKind::Loopback => "loopback".into(),
        NicKind::Unknown => "not in /sys".into(),
        _ => nic.virtual_kind.as_deref().map_or("".into(), plain),
    };
    let lowers: Vec<_> = nic.lowers.iter().map(|lower| plain(lower)).collect();
    let over = if lowers.is_empty() { String::new() } else { format!("over {}", lowers.join(", ")) };
    let about = [kind.into_owned(), over].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let facts =
        [about, phrases::state(nic).to_owned()].into_iter().chain(addresses(nic)).filter(|fact| !fact.is_empty());
    let facts: Vec<String> = facts.collect();
    let mut block = Block::new(Kind::Nic, vec![head(scene, nic)]);
    block.rows.extend(facts.iter().map(|fact| Row::text(10.0, &cut(fact, CARD), Tone::Dim)));
    finish(scene, nic, block, facts.into_iter())
}

fn finish(scene: &Scene<'_>, nic: &Nic, mut block: Block, facts: impl Iterator<Item = String>) -> Block {
    let addresses = nic.addresses.iter().map(|address| format!("{}/{}", address.ip, address.prefix_len));
    let lines = [plain(&nic.name).into_owned()].into_iter().chain(facts).chain(addresses);
    block.hint = lines.collect::<Vec<_>>().join("\n");
    block.rails = scene.marks.rails_of_nic(&nic.name);
    block.anchor = Some(Anchor::Nic(nic.name.clone()));
    block
}

/// The number of interrupts, and the CPUs that serve them.
fn interrupts(nic: &Nic) -> Option<String> {
    let count = phrases::count(nic.interrupts.len(), "interrupt");
    let known = nic.interrupts.iter().filter_map(|interrupt| interrupt.effective.as_ref());
    let cpus = known.fold(CpuSet::new(), |all, cpus| all.union(cpus));
    match (nic.interrupts.is_empty(), cpus.is_empty()) {
        (true, _) => None,
        (false, true) => Some(format!("{count}, CPUs unknown")),
        (false, false) => Some(format!("{count} on CPUs {}", phrases::cpus(&cpus))),
    }
}

fn addresses(nic: &Nic) -> Option<String> {
    let first = nic.addresses.first()?;
    let more = nic.addresses.len() - 1;
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("{}/{}{more}", first.ip, first.prefix_len))
}

/// Blocks of one group.
const MAX_NICS: usize = 24;
