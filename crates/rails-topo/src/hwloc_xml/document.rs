//! The whole file: objects, and the facts about nodes and cores beside them.

use super::{element::Element, object::Object};
use crate::{Bandwidth, Distances, Id, IdSet, MemoryPerformance, Topology};
use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};
use std::collections::BTreeMap;

pub(super) fn document(topology: &Topology, machine: Object) -> String {
    let mut numbers = Numbers::default();
    let nodes = if topology.nodes.is_empty() { machine.nodes.clone() } else { topology.allowed_nodes.clone() };
    let machine = object(machine, &mut numbers)
        .with("allowed_cpuset", bitmap(&topology.allowed_cpus))
        .with("allowed_nodeset", bitmap(&nodes));
    let root = Element::new("topology")
        .with("version", "2.0")
        .containing([machine])
        .containing(topology.distances.iter().map(distances))
        .containing(memory_attributes(topology, &numbers))
        .containing(topology.core_kinds.iter().map(core_kind));
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    let written = xml
        .write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))
        .and_then(|()| xml.write_event(Event::DocType(BytesText::from_escaped("topology SYSTEM \"hwloc2.dtd\""))))
        .and_then(|()| root.write(&mut xml));
    written.expect("memory takes all that is written to it");
    String::from_utf8(xml.into_inner()).expect("text was written")
}

/// hwloc's own numbers of objects (`gp_index`), by which other elements refer to nodes.
#[derive(Default)]
struct Numbers {
    last: u64,
    nodes: BTreeMap<u32, u64>,
}

fn object(object: Object, numbers: &mut Numbers) -> Element {
    numbers.last += 1;
    if let (Some(index), "NUMANode") = (object.os_index, object.kind) {
        numbers.nodes.insert(index, numbers.last);
    }
    // hwloc wants the type first.
    let os_index = object.os_index.map(|index| ("os_index", index.to_string()));
    let mut element = Element::new("object").with("type", object.kind).with_all(os_index);
    if let Some(cpus) = &object.cpus {
        let (cpus, nodes) = (bitmap(cpus), bitmap(&object.nodes));
        element = element.with("cpuset", &cpus).with("complete_cpuset", cpus);
        element = element.with("nodeset", &nodes).with("complete_nodeset", nodes);
    }
    element = element.with("gp_index", numbers.last).with_all(object.attributes);
    let held = object.memory.into_iter().chain(object.children).chain(object.devices);
    element.containing(object.inner).containing(held.map(|held| self::object(held, numbers)))
}

/// `NUMALatency`, hwloc's name of the kernel's distances: from the system, and latencies
/// (`hwloc_distances_kind_e`).
fn distances(distances: &Distances) -> Element {
    let list = |name, numbers: &mut dyn Iterator<Item = u64>| {
        let text: String = numbers.map(|number| format!("{number} ")).collect();
        Element::new(name).with("length", text.len()).with_text(text)
    };
    // hwloc's own elements hold ten numbers each, and its reader takes no more at once.
    let values = distances.values.chunks(10).map(|values| list("u64values", &mut values.iter().copied()));
    Element::new("distances2")
        .with("type", "NUMANode")
        .with("nbobjs", distances.nodes.len())
        .with("kind", 5)
        .with("name", "NUMALatency")
        .with("indexing", "os")
        .containing([list("indexes", &mut distances.nodes.iter().map(|node| u64::from(node.0)))])
        .containing(values)
}

/// Flags 5: more is better; 6: less is better; both: the value depends on the initiator
/// (`hwloc_memattr_flag_e`). hwloc's units are MiB/s and ns.
fn memory_attributes(topology: &Topology, numbers: &Numbers) -> Vec<Element> {
    let rate = |rate: Option<Bandwidth>| Some((rate?.as_bits_per_second() / 8) >> 20);
    type Attribute<'a> = (&'static str, u8, &'a dyn Fn(&MemoryPerformance) -> Option<u64>);
    let attributes: [Attribute<'_>; 4] = [
        ("ReadBandwidth", 5, &|known| rate(known.read_bandwidth)),
        ("WriteBandwidth", 5, &|known| rate(known.write_bandwidth)),
        ("ReadLatency", 6, &|known| known.read_latency),
        ("WriteLatency", 6, &|known| known.write_latency),
    ];
    let element = |(name, flags, value): Attribute<'_>| {
        let known = topology.nodes.iter().flat_map(|node| node.performance.iter().map(move |known| (node, known)));
        let values = known.filter_map(|(node, known)| {
            let element = Element::new("memattr_value").with("target_obj_type", "NUMANode");
            let element = element.with("target_obj_gp_index", numbers.nodes.get(&node.id.0)?);
            Some(element.with("value", value(known)?).with("initiator_cpuset", bitmap(&known.from)))
        });
        let values: Vec<Element> = values.collect();
        let is_known = !values.is_empty();
        is_known.then(|| Element::new("memattr").with("name", name).with("flags", flags).containing(values))
    };
    attributes.into_iter().filter_map(element).collect()
}

fn core_kind(kind: &crate::CoreKind) -> Element {
    let name = kind.name.as_deref().map(|name| match name {
        "cpu_core" => "IntelCore",
        "cpu_atom" => "IntelAtom",
        other => other,
    });
    let infos = [
        ("CoreType", name.map(str::to_owned)),
        ("FrequencyMaxMHz", kind.max_frequency.map(|khz| (khz / 1000).to_string())),
        ("FrequencyBaseMHz", kind.base_frequency.map(|khz| (khz / 1000).to_string())),
        ("LinuxCapacity", kind.capacity.map(|capacity| capacity.to_string())),
    ];
    let efficiency = kind.efficiency.map(|rank| ("forced_efficiency", rank.to_string()));
    let element = Element::new("cpukind").with("cpuset", bitmap(&kind.cpus)).with_all(efficiency);
    element.containing(infos.into_iter().filter_map(|(name, value)| Some(Element::info(name, &value?))))
}

/// Words of 32 bits, the highest first (`hwloc_bitmap_snprintf`).
fn bitmap<T: Id>(set: &IdSet<T>) -> String {
    let words: Vec<String> = set.to_mask().split(',').map(|word| format!("0x{word}")).collect();
    words.join(",")
}
