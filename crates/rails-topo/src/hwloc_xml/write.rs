//! Objects as XML.

use super::object::Object;
use crate::{CoreKind, Distances, Id, IdSet, MemoryPerformance, NodeId, Topology};
use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
    writer::ElementWriter,
};
use std::{collections::BTreeMap, io};

type Xml = Writer<Vec<u8>>;

pub(super) fn write(topology: &Topology, machine: Object) -> String {
    let bytes = written(topology, &machine).expect("memory takes what is written to it");
    String::from_utf8(bytes).expect("what was written is text")
}

fn written(topology: &Topology, machine: &Object) -> io::Result<Vec<u8>> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.write_event(Event::DocType(BytesText::from_escaped("topology SYSTEM \"hwloc2.dtd\"")))?;
    xml.create_element("topology").with_attribute(("version", "2.0")).write_inner_content(|xml| {
        let mut numbers = Numbers::default();
        root(xml, machine, topology, &mut numbers)?;
        topology.distances.iter().try_for_each(|distances| write_distances(xml, distances))?;
        write_performance(xml, topology, &numbers)?;
        topology.core_kinds.iter().try_for_each(|kind| write_core_kind(xml, kind))
    })?;
    Ok(xml.into_inner())
}

/// hwloc's own numbers of objects, by which other elements speak of nodes.
#[derive(Default)]
struct Numbers {
    last: u64,
    nodes: BTreeMap<u32, u64>,
}

fn root(xml: &mut Xml, machine: &Object, topology: &Topology, numbers: &mut Numbers) -> io::Result<()> {
    let allowed = [
        ("allowed_cpuset", bitmap(&topology.allowed_cpus)),
        (
            "allowed_nodeset",
            match &machine.sets {
                Some(sets) if topology.nodes.is_empty() => bitmap(&sets.nodes),
                _ => bitmap(&topology.allowed_nodes),
            },
        ),
    ];
    write_object(xml, machine, &allowed, numbers)
}

fn write_object(xml: &mut Xml, object: &Object, more: &[(&str, String)], numbers: &mut Numbers) -> io::Result<()> {
    numbers.last += 1;
    if let (Some(index), "NUMANode") = (object.os_index, object.kind) {
        numbers.nodes.insert(index, numbers.last);
    }
    // hwloc wants the type first.
    let mut attributes: Vec<(&str, String)> = vec![("type", object.kind.to_owned())];
    attributes.extend(object.os_index.map(|index| ("os_index", index.to_string())));
    if let Some(sets) = &object.sets {
        let (cpus, nodes) = (bitmap(&sets.cpus), bitmap(&sets.nodes));
        attributes.extend([("cpuset", cpus.clone()), ("complete_cpuset", cpus)]);
        attributes.extend([("nodeset", nodes.clone()), ("complete_nodeset", nodes)]);
    }
    attributes.push(("gp_index", numbers.last.to_string()));
    attributes.extend(object.attributes.iter().cloned());
    attributes.extend(more.iter().cloned());
    let element = with(xml.create_element("object"), &attributes);
    let held = [&object.memory, &object.children, &object.devices];
    if object.infos.is_empty() && object.pages.is_empty() && held.iter().all(|held| held.is_empty()) {
        return element.write_empty().map(drop);
    }
    element.write_inner_content(|xml| {
        object.infos.iter().try_for_each(|(name, value)| write_info(xml, name, value))?;
        for (size, count) in &object.pages {
            let attributes = [("size", size.to_string()), ("count", count.to_string())];
            with(xml.create_element("page_type"), &attributes).write_empty()?;
        }
        held.into_iter().flatten().try_for_each(|object| write_object(xml, object, &[], numbers))
    })?;
    Ok(())
}

fn write_info(xml: &mut Xml, name: &str, value: &str) -> io::Result<()> {
    with(xml.create_element("info"), &[("name", name.to_owned()), ("value", value.to_owned())]).write_empty().map(drop)
}

/// `NUMALatency`, as hwloc calls the kernel's distances: from the system, and latencies (`hwloc_distances_kind_e`).
fn write_distances(xml: &mut Xml, distances: &Distances) -> io::Result<()> {
    let list = |numbers: &mut dyn Iterator<Item = u64>| numbers.map(|number| format!("{number} ")).collect::<String>();
    let indexes = list(&mut distances.nodes.iter().map(|NodeId(node)| u64::from(*node)));
    let attributes = [
        ("type", "NUMANode".to_owned()),
        ("nbobjs", distances.nodes.len().to_string()),
        ("kind", "5".to_owned()),
        ("name", "NUMALatency".to_owned()),
        ("indexing", "os".to_owned()),
    ];
    with(xml.create_element("distances2"), &attributes).write_inner_content(|xml| {
        let numbers = |xml: &mut Xml, name: &'static str, text: &str| {
            let element = xml.create_element(name).with_attribute(("length", text.len().to_string().as_str()));
            element.write_text_content(BytesText::new(text)).map(drop)
        };
        numbers(xml, "indexes", &indexes)?;
        // hwloc's own elements hold ten numbers each, and its reader takes no more than it reads at once.
        distances.values.chunks(10).try_for_each(|values| numbers(xml, "u64values", &list(&mut values.iter().copied())))
    })?;
    Ok(())
}

/// Memory attributes: flags 5 says that more is better, 6 that less is, and both that it depends on who asks (`hwloc_memattr_flag_e`).
fn write_performance(xml: &mut Xml, topology: &Topology, numbers: &Numbers) -> io::Result<()> {
    // hwloc's units are MiB/s and ns.
    let rate = |rate: Option<crate::Bandwidth>| Some((rate?.as_bits_per_second() / 8) >> 20);
    type Attribute<'a> = (&'static str, &'static str, &'a dyn Fn(&MemoryPerformance) -> Option<u64>);
    let attributes: [Attribute<'_>; 4] = [
        ("ReadBandwidth", "5", &|known| rate(known.read_bandwidth)),
        ("WriteBandwidth", "5", &|known| rate(known.write_bandwidth)),
        ("ReadLatency", "6", &|known| known.read_latency),
        ("WriteLatency", "6", &|known| known.write_latency),
    ];
    for (name, flags, value) in attributes {
        let of_node = |node: &crate::NumaNode| {
            let target = numbers.nodes.get(&node.id.0).copied();
            let known = move |known: &MemoryPerformance| Some((target?, value(known)?, bitmap(&known.from)));
            node.performance.iter().filter_map(known).collect::<Vec<_>>()
        };
        let values: Vec<_> = topology.nodes.iter().flat_map(of_node).collect();
        if values.is_empty() {
            continue;
        }
        let element = with(xml.create_element("memattr"), &[("name", name.to_owned()), ("flags", flags.to_owned())]);
        element.write_inner_content(|xml| {
            values.iter().try_for_each(|(target, value, from)| {
                let attributes = [
                    ("target_obj_type", "NUMANode".to_owned()),
                    ("target_obj_gp_index", target.to_string()),
                    ("value", value.to_string()),
                    ("initiator_cpuset", from.clone()),
                ];
                with(xml.create_element("memattr_value"), &attributes).write_empty().map(drop)
            })
        })?;
    }
    Ok(())
}

fn write_core_kind(xml: &mut Xml, kind: &CoreKind) -> io::Result<()> {
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
    let mut attributes = vec![("cpuset", bitmap(&kind.cpus))];
    attributes.extend(kind.efficiency.map(|rank| ("forced_efficiency", rank.to_string())));
    with(xml.create_element("cpukind"), &attributes).write_inner_content(|xml| {
        infos.iter().try_for_each(|(name, value)| value.iter().try_for_each(|value| write_info(xml, name, value)))
    })?;
    Ok(())
}

fn with<'a>(element: ElementWriter<'a, Vec<u8>>, attributes: &[(&str, String)]) -> ElementWriter<'a, Vec<u8>> {
    attributes.iter().fold(element, |element, (name, value)| {
        // XML has no way to write most of the control characters (XML 1.0, 2.2).
        let value: String = value.chars().filter(|character| !character.is_control()).collect();
        element.with_attribute((*name, value.as_str()))
    })
}

/// Words of 32 bits, the highest first (`hwloc_bitmap_snprintf`).
fn bitmap<T: Id>(set: &IdSet<T>) -> String {
    let words: Vec<String> = set.to_mask().split(',').map(|word| format!("0x{word}")).collect();
    words.join(",")
}
