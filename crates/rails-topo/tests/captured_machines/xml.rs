//! hwloc XML files.

#[cfg(feature = "hwloc")]
use crate::machines::{Counts, assert_sound, counts, name};
use rails_lab::captures;
#[cfg(feature = "hwloc")]
use rails_topo::{Bandwidth, MemoryPerformance, NodeId};
use rails_topo::{Topology, XmlError};

#[cfg(feature = "hwloc")]
const KNOWN: [(&str, Counts); 5] = [
    ("16intel64-manyVFs.xml", [2, 2, 16, 16, 2]),
    ("24em64t-2n6c2t-pci.xml", [2, 2, 12, 24, 2]),
    ("32em64t-2n8c2t-pci-wholeio.xml", [2, 2, 16, 32, 2]),
    ("8intel64-4n2t-memattrs.xml", [0, 4, 0, 8, 0]),
    ("cxlmem+dax.v2.xml", [1, 1, 4, 4, 1]),
];

#[test]
#[cfg(feature = "hwloc")]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_files_are_read_or_too_new() {
    for file in captures::xml_files() {
        let too_new = captures::is_of_hwloc_3(&file);
        match Topology::from_xml(&file) {
            Ok(machine) => {
                assert_sound(&machine);
                if let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == name(&file)) {
                    assert_eq!(counts(&machine), *known, "{}", file.display());
                }
            }
            Err(XmlError::Version { version, .. }) if too_new => assert_eq!(version, "3.0"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
#[cfg(feature = "hwloc")]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_files_place_nics() {
    let places = |name| -> Vec<(String, String, Option<NodeId>)> {
        let machine = Topology::from_xml(captures::xml_file(name)).unwrap();
        let place = |nic: &rails_topo::Nic| (nic.name.clone(), nic.pci.unwrap().to_string(), nic.node);
        machine.nics().iter().map(place).collect()
    };
    let place = |name: &str, pci: &str, node| (name.to_owned(), pci.to_owned(), Some(NodeId(node)));
    assert_eq!(
        places("16intel64-manyVFs.xml"),
        [
            place("eth0", "0000:02:00.0", 0),
            place("eth1", "0000:02:00.1", 0),
            place("eth4", "0000:0b:00.0", 0),
            place("eth5", "0000:0c:00.0", 0),
            place("eth6", "0000:88:00.0", 1),
            place("eth7", "0000:89:00.0", 1),
        ]
    );
    assert_eq!(places("cxlmem+dax.v2.xml"), [place("enp0s2", "0000:00:02.0", 0)]);
}

#[test]
#[cfg(feature = "hwloc")]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_memory_attributes_are_read() {
    let machine = Topology::from_xml(captures::xml_file("8intel64-4n2t-memattrs.xml")).unwrap();
    let rate = Some(Bandwidth::bits_per_second(20 * 8_000_000));
    let average = MemoryPerformance {
        from: "0-7".parse().unwrap(),
        read_bandwidth: rate,
        write_bandwidth: rate,
        ..MemoryPerformance::default()
    };
    let of_nodes = machine.nodes().iter().map(|node| node.performance.as_slice());
    assert_eq!(of_nodes.collect::<Vec<_>>(), [&[][..], &[average], &[], &[]], "attributes of its own are nobody's");
}

#[test]
#[cfg(not(feature = "hwloc"))]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_files_are_refused_without_hwloc() {
    for file in captures::xml_files() {
        assert!(matches!(Topology::from_xml(&file), Err(XmlError::WithoutHwloc { .. })));
    }
}
