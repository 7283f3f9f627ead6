use super::{
    Overlay, RailMark,
    block::Kind,
    layout::{Layout, Rect, layout},
    palette, scene,
};
use crate::{
    Bandwidth, Cache, CacheKind, CoreKind, CpuId, CpuSet, DataSize, Die, Gpu, Interrupt, Nic, NicKind, NodeId,
    NumaNode, PciDevice, PciLink, Topology,
};
use proptest::prelude::*;
use roxmltree::{Document, Node};

/// Two sockets of 48 cores with four NICs each, of which every one has an interrupt on each of
/// twelve cores beside it.
fn large() -> (Topology, Overlay) {
    let nic = |index: u32| {
        let node = index / 4;
        let first = node * 96 + index % 4 * 24;
        let interrupt = |nth: u32| Interrupt {
            number: 100 + index * 12 + nth,
            name: None,
            affinity: None,
            effective: Some(CpuSet::single(CpuId(first + nth * 2))),
        };
        Nic {
            pci: Some(format!("0000:{:02x}:00.{}", 0x10 + index / 2, index % 2).parse().unwrap()),
            node: Some(NodeId(node)),
            speed: Some(Bandwidth::mbps(100_000)),
            up: Some(true),
            interrupts: (0..12).map(interrupt).collect(),
            ..Nic::named(&format!("eth{index}"))
        }
    };
    let mut machine =
        Topology::synthetic("package:2 numa:1 l3:1 core:48 l2:1 pu:2", (0..8).map(nic).collect()).unwrap();
    for nic in &machine.nics {
        let mut device = PciDevice::at(nic.pci.unwrap());
        device.link = Some(PciLink { speed: 8_000, width: 8 });
        device.max_link = Some(PciLink { speed: 16_000, width: 16 });
        machine.pci_devices.push(device);
    }
    let rail = |index: u32| RailMark {
        name: format!("R{index}"),
        nic: Some(format!("eth{index}")),
        cpus: CpuSet::single(CpuId(index / 4 * 96 + index % 4 * 24)),
        node: Some(NodeId(index / 4)),
        interrupts: vec![100 + index * 12],
    };
    let overlay = Overlay { rails: (0..8).map(rail).collect() };
    (machine.in_order(), overlay)
}

fn elements<'a>(document: &'a Document<'a>, tag: &'static str, class: &'a str) -> Vec<Node<'a, 'a>> {
    let has_class =
        |node: &Node<'_, '_>| node.attribute("class").is_some_and(|of| of.split(' ').any(|one| one == class));
    document.descendants().filter(|node| node.tag_name().name() == tag && has_class(node)).collect()
}

fn texts(document: &Document<'_>) -> Vec<String> {
    let texts = document.descendants().filter(|node| node.tag_name().name() == "text");
    texts.map(|node| node.text().unwrap_or_default().trim().to_owned()).collect()
}

fn boxes<'a>(document: &'a Document<'a>, class: &'a str) -> usize {
    elements(document, "rect", class).len()
}

#[test]
fn large_machine_fits_a_screen_with_all_its_parts() {
    let (machine, overlay) = large();
    let scene = scene::scene(&machine, &overlay);
    let laid_out = layout(&scene);
    assert!(laid_out.width <= 1920.0 && laid_out.height <= 1200.0, "{} x {}", laid_out.width, laid_out.height);
    let ratio = laid_out.width / laid_out.height;
    assert!((1.2..=2.4).contains(&ratio), "{ratio}");
    assert_sound(&laid_out);

    let svg = machine.svg(&overlay);
    let document = Document::parse(&svg).unwrap();
    assert_eq!(["package", "node", "pu", "nic"].map(|class| boxes(&document, class)), [2, 2, 192, 8]);
    let texts = texts(&document);
    for said in
        ["package 1", "L3 of unknown size", "191", "eth7", "one card: 0000:13:00", "could be 16 GT/s x16 (252 Gbit/s)"]
    {
        assert!(texts.iter().any(|text| text == said), "{said} is missing");
    }
}

#[test]
fn each_sort_of_core_has_a_line_for_its_caches() {
    let mut machine = Topology::synthetic("package:1 numa:1 core:48 pu:1", vec![]).unwrap();
    let cache = |cpu: u32| {
        let kib = if cpu < 16 { 2048 } else { 512 };
        let cpus = CpuSet::single(CpuId(cpu));
        Cache { level: 2, kind: CacheKind::Unified, size: Some(DataSize::bytes(kib << 10)), cpus }
    };
    machine.caches.extend((0..48).map(cache));
    let svg = machine.in_order().svg(&Overlay::default());
    let texts = texts(&Document::parse(&svg).unwrap());
    for said in ["cores 0-15: L2 2 MiB", "cores 16-47: L2 512 KiB"] {
        assert!(texts.iter().any(|text| text == said), "{said} is missing");
    }
}

#[test]
fn rail_is_named_on_all_that_it_is_made_of() {
    let (machine, overlay) = large();
    let svg = machine.svg(&overlay);
    let document = Document::parse(&svg).unwrap();
    let texts = texts(&document);
    // On its NIC, its CPU, its node and in the legend.
    for rail in &overlay.rails {
        assert_eq!(texts.iter().filter(|text| **text == rail.name).count(), 4, "{}", rail.name);
    }
    assert!(texts.iter().any(|text| text == "eth3, CPU 72, memory of node 0, interrupt 136"), "{texts:?}");
    let lines = document.descendants().filter(|node| node.tag_name().name() == "path");
    let colours: Vec<&str> = lines.filter_map(|line| line.attribute("stroke")).collect();
    assert_eq!(colours, (0..8).map(palette::colour).collect::<Vec<_>>());
    assert_ne!(palette::dashes(0), palette::dashes(6), "the same colour comes with other dashes");
}

#[test]
fn small_machine_with_caches_and_interrupts() {
    let interrupt =
        |number, cpu| Interrupt { number, name: None, affinity: None, effective: Some(CpuSet::single(CpuId(cpu))) };
    let eth0 = Nic { interrupts: vec![interrupt(24, 0), interrupt(25, 1), interrupt(26, 1)], ..Nic::named("eth0") };
    let lo = Nic { kind: NicKind::Loopback, ..Nic::named("lo") };
    let bond = Nic {
        kind: NicKind::Virtual,
        virtual_kind: Some("bond".to_owned()),
        lowers: vec!["eth0".to_owned()],
        ..Nic::named("bond0")
    };
    let machine = Topology::synthetic("package:1 numa:1 core:2 l1:1 pu:1", vec![eth0, lo, bond]).unwrap();
    let machine = machine.with_allowed(CpuSet::single(CpuId(0)));
    let svg = machine.svg(&Overlay::default());
    let document = Document::parse(&svg).unwrap();
    let texts = texts(&document);
    for said in
        ["core 1", "CPU 1", "L1d of unknown size", "a", "a2", "3 interrupts on CPUs 0-1", "bond over eth0", "loopback"]
    {
        assert!(texts.iter().any(|text| text == said), "{said} is missing: {texts:?}");
    }
    assert_eq!(boxes(&document, "forbidden"), 2, "the CPU, and its like in the legend");
}

#[test]
fn picture_of_unknown_facts() {
    let rail = RailMark {
        name: "R0".to_owned(),
        nic: Some("no such".to_owned()),
        cpus: "999999".parse().unwrap(),
        node: Some(NodeId(77)),
        interrupts: vec![1],
    };
    let machine = Topology::synthetic("pu:1", vec![Nic::named("eth0")]).unwrap();
    let svg = machine.svg(&Overlay { rails: vec![rail] });
    let texts = texts(&Document::parse(&svg).unwrap());
    assert!(texts.iter().any(|text| text == "no such, CPU 999999, memory of node 77, interrupt 1"), "{texts:?}");
    assert!(texts.iter().any(|text| text == "of unknown locality"), "{texts:?}");
}

/// Every area lies in the one that holds it, no two of the same holder overlap, and text is inside
/// its own.
fn assert_sound(layout: &Layout<'_>) {
    let inside = |inner: Rect, outer: Rect| {
        inner.x >= outer.x - SLACK
            && inner.y >= outer.y - SLACK
            && inner.x + inner.width <= outer.x + outer.width + SLACK
            && inner.y + inner.height <= outer.y + outer.height + SLACK
    };
    let apart = |a: Rect, b: Rect| {
        a.x + a.width <= b.x + SLACK
            || b.x + b.width <= a.x + SLACK
            || a.y + a.height <= b.y + SLACK
            || b.y + b.height <= a.y + SLACK
    };
    let whole = Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
    let mut of_same: Vec<Vec<usize>> = layout.areas.iter().map(|_| Vec::new()).collect();
    for (index, area) in layout.areas.iter().enumerate() {
        let kind: Kind = area.block.kind;
        let holder = area.parent.map_or(whole, |parent| layout.areas[parent].rect);
        assert!(inside(area.rect, holder), "{kind:?} {:?} is not in {holder:?}", area.rect);
        for text in &area.texts {
            assert!(inside(text.rect, area.rect), "{kind:?}: {:?} is not in {:?}", text.cell, area.rect);
        }
        if let Some(parent) = area.parent {
            for text in &layout.areas[parent].texts {
                assert!(apart(text.rect, area.rect), "{kind:?} lies on {:?}", text.cell);
            }
            for other in &of_same[parent] {
                let other = &layout.areas[*other];
                assert!(apart(other.rect, area.rect), "{kind:?} {:?} on {:?}", area.rect, other.rect);
            }
            of_same[parent].push(index);
        }
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,6}[0-9]",
        "\\PC{0,60}",
        "[\\x00-\\x1f<>&\"']{1,8}",
        "]]>|--></svg>|<!\\[CDATA\\[|[\\u{202e}-\\u{fffe}]{3}"
    ]
}

fn set() -> impl Strategy<Value = CpuSet> {
    prop::collection::vec(0..70u32, 0..9).prop_map(|cpus| cpus.into_iter().map(CpuId).collect())
}

prop_compose! {
    fn nic()(
        name in name(), other in name(), cpus in set(), served in set(),
        node in prop::option::of(0..5u32), slot in prop::option::of(0..4u8), kind in 0..3u8, interrupts in 0..9u32,
    ) -> Nic {
        let interrupt =
            |number| Interrupt { number, name: Some(other.clone()), affinity: None, effective: Some(served.clone()) };
        Nic {
            kind: [NicKind::Device, NicKind::Virtual, NicKind::Loopback][usize::from(kind)],
            pci: slot.map(|device| crate::PciAddress { domain: 0, bus: 1, device, function: device % 2 }),
            node: node.map(NodeId),
            local_cpus: (!cpus.is_empty()).then_some(cpus),
            driver: Some(other.clone()),
            virtual_kind: Some(other.clone()),
            lowers: vec![other.clone(); interrupts as usize],
            interrupts: (0..interrupts).map(interrupt).collect(),
            ..Nic::named(&name)
        }
    }
}

prop_compose! {
    /// Machines of any shape, and of parts that contradict each other.
    fn machine()(
        counts in prop::array::uniform5(1..4u32), nics in prop::collection::vec(nic(), 0..30),
        sets in prop::collection::vec(set(), 0..12), text in name(),
    ) -> Topology {
        let [package, numa, l3, core, pu] = counts;
        let description = format!("package:{package} numa:{numa} l3:{l3} core:{core} pu:{pu}");
        let mut machine = Topology::synthetic(&description, Vec::new()).unwrap();
        machine.nics = nics;
        machine.machine.host = Some(text.clone());
        for (index, cpus) in sets.into_iter().enumerate() {
            match index % 5 {
                0 => machine.dies.push(Die { id: None, cpus }),
                1 => machine.caches.push(Cache { level: 2, kind: CacheKind::Unified, size: None, cpus }),
                2 => machine.nodes.push(NumaNode::of(NodeId(index as u32 + 9), cpus)),
                3 => machine.isolated_cpus = cpus,
                _ => machine.core_kinds.push(CoreKind { cpus, name: Some(text.clone()), ..CoreKind::default() }),
            }
        }
        let gpu = |node| Gpu { name: text.clone(), pci: None, model: Some(text.clone()), driver: None, node, local_cpus: None };
        machine.gpus = (0..20).map(|node| gpu((node < 9).then_some(NodeId(node)))).collect();
        machine.in_order()
    }
}

prop_compose! {
    fn overlay()(rails in prop::collection::vec((name(), name(), set(), prop::option::of(0..12u32)), 0..20)) -> Overlay {
        let mark = |(name, nic, cpus, node): (String, String, CpuSet, Option<u32>)| RailMark {
            name,
            nic: Some(nic),
            cpus,
            node: node.map(NodeId),
            interrupts: vec![1, 2],
        };
        Overlay { rails: rails.into_iter().map(mark).collect() }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_machine_as_a_valid_picture(machine in machine(), mut overlay in overlay()) {
        // Some rails are on NICs that there are.
        for (rail, nic) in overlay.rails.iter_mut().zip(&machine.nics).step_by(2) {
            rail.nic = Some(nic.name.clone());
        }
        let scene = scene::scene(&machine, &overlay);
        assert_sound(&layout(&scene));
        let svg = machine.svg(&overlay);
        prop_assert_eq!(&svg, &machine.svg(&overlay), "it is the same every time");
        let document = Document::parse(&svg).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(document.root_element().tag_name().name(), "svg");
        let parts = ["svg", "g", "rect", "text", "path", "title", "style"];
        for element in document.descendants().filter(Node::is_element) {
            prop_assert!(parts.contains(&element.tag_name().name()), "{:?} is none of ours", element);
        }
        let tree = machine.tree().to_string();
        prop_assert!(!tree.chars().any(|c| c.is_control() && c != '\n'));
    }
}

/// Coordinates are sums of the same numbers in other orders.
const SLACK: f64 = 1e-6;
