//! XML elements of the file: objects, and the facts about nodes and cores beside them.

use super::object::Object;
use crate::{Bandwidth, Distances, Id, IdSet, MemoryPerformance, Topology};
use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};
use std::{collections::BTreeMap, io};

/// An element, with a text or other elements in it.
#[derive(Debug)]
pub(super) struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    text: String,
    inner: Vec<Element>,
}

impl Element {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, attributes: Vec::new(), text: String::new(), inner: Vec::new() }
    }

    pub(super) fn info(name: &str, value: &str) -> Self {
        Self::new("info").with("name", name).with("value", value)
    }

    pub(super) fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    pub(super) fn containing(mut self, inner: impl IntoIterator<Item = Self>) -> Self {
        self.inner.extend(inner);
        self
    }

    fn write(&self, xml: &mut Writer<Vec<u8>>) -> io::Result<()> {
        let attributes = self.attributes.iter().fold(xml.create_element(self.name), |element, (name, value)| {
            // XML has no way to write most of the control characters (XML 1.0, 2.2).
            let value: String = value.chars().filter(|character| !character.is_control()).collect();
            element.with_attribute((*name, value.as_str()))
        });
        match (self.text.is_empty(), self.inner.is_empty()) {
            (false, _) => attributes.write_text_content(BytesText::new(&self.text)),
            (true, true) => attributes.write_empty(),
            _ => attributes.write_inner_content(|xml| self.inner.iter().try_for_each(|inner| inner.write(xml))),
        }
        .map(drop)
    }
}

pub(super) fn file(topology: &Topology, machine: Object) -> String {
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
    let mut element = Element::new("object").with("type", object.kind);
    element.attributes.extend(object.os_index.map(|index| ("os_index", index.to_string())));
    if let Some(cpus) = &object.cpus {
        let (cpus, nodes) = (bitmap(cpus), bitmap(&object.nodes));
        element = element.with("cpuset", &cpus).with("complete_cpuset", cpus);
        element = element.with("nodeset", &nodes).with("complete_nodeset", nodes);
    }
    element = element.with("gp_index", numbers.last);
    element.attributes.extend(object.attributes);
    let held = object.memory.into_iter().chain(object.children).chain(object.devices);
    element.containing(object.inner).containing(held.map(|held| self::object(held, numbers)))
}

/// `NUMALatency`, hwloc's name of the kernel's distances: from the system, and latencies (`hwloc_distances_kind_e`).
fn distances(distances: &Distances) -> Element {
    let list = |name, numbers: &mut dyn Iterator<Item = u64>| {
        let text: String = numbers.map(|number| format!("{number} ")).collect();
        Element { text: text.clone(), ..Element::new(name).with("length", text.len()) }
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

/// Flags 5: more is better; 6: less is better; both: the value depends on the initiator (`hwloc_memattr_flag_e`).
/// hwloc's units are MiB/s and ns.
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
        Element::new("memattr").with("name", name).with("flags", flags).containing(values)
    };
    attributes.into_iter().map(element).filter(|element| !element.inner.is_empty()).collect()
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
    let mut element = Element::new("cpukind").with("cpuset", bitmap(&kind.cpus));
    element.attributes.extend(kind.efficiency.map(|rank| ("forced_efficiency", rank.to_string())));
    element.containing(infos.into_iter().filter_map(|(name, value)| Some(Element::info(name, &value?))))
}

/// Words of 32 bits, the highest first (`hwloc_bitmap_snprintf`).
fn bitmap<T: Id>(set: &IdSet<T>) -> String {
    let words: Vec<String> = set.to_mask().split(',').map(|word| format!("0x{word}")).collect();
    words.join(",")
}
