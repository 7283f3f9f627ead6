//! hwloc's XML files, written by the installed hwloc.
#![cfg(feature = "hwloc")]

use hwlocality::topology::{builder::TopologyBuilder, export::xml::XMLExportFlags};
use rails_topo::{
    Bandwidth, CoreKind, CpuId, DataSize, Hugepages, MemoryPerformance, NodeId, Origin, PciBridge, PciLink, Topology,
    XmlError,
};
use std::{error::Error, fs, path::PathBuf};
use tempfile::TempDir;

struct File(TempDir, PathBuf);

impl File {
    fn with(bytes: impl AsRef<[u8]>) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("machine.xml");
        fs::write(&path, bytes).unwrap();
        Self(folder, path)
    }

    fn read(&self) -> Result<Topology, XmlError> {
        assert!(self.0.path().exists());
        Topology::from_xml(&self.1)
    }
}

fn exported(description: &str) -> String {
    let hwloc = TopologyBuilder::new().from_synthetic(description).unwrap().build().unwrap();
    hwloc.export_xml(XMLExportFlags::empty()).unwrap().to_string()
}

#[test]
fn exported_machine_is_read_as_the_described_one() {
    let description = "package:2 numa:1 l3:1 core:4 pu:2";
    let file = File::with(exported(description));
    let (read, described) = (file.read().unwrap(), Topology::synthetic(description, vec![]).unwrap());
    assert_eq!(read.origin(), &Origin::Xml { path: file.1.clone() });
    assert_eq!(read.packages(), described.packages());
    assert_eq!(read.nodes(), described.nodes());
    let sharing = |machine: &Topology| machine.caches().iter().map(|cache| cache.cpus.clone()).collect::<Vec<_>>();
    assert_eq!(sharing(&read), sharing(&described));
    let cores = |machine: &Topology| machine.cores().iter().map(|core| core.cpus.clone()).collect::<Vec<_>>();
    assert_eq!(cores(&read), cores(&described));
    assert_eq!((read.online_cpus(), read.allowed_cpus()), (described.online_cpus(), described.allowed_cpus()));
    assert_eq!(read.allowed_nodes(), described.allowed_nodes());
    assert_eq!(read.nearest_node(CpuId(15)), Some(NodeId(1)));
    assert!(read.nics().is_empty());
}

#[test]
fn devices_by_their_attachment() {
    let device = |index: u32, bus: &str, name: &str| {
        format!(
            "<object type=\"Bridge\" gp_index=\"{index}0\" bridge_type=\"0-1\" depth=\"0\" \
             bridge_pci=\"0000:[{bus}-{bus}]\"><object type=\"PCIDev\" gp_index=\"{index}1\" \
             pci_busid=\"0000:{bus}:00.0\" pci_type=\"0200 [8086:1521] [8086:0001] 01\" pci_link_speed=\"0.000000\">\
             <object type=\"OSDev\" gp_index=\"{index}2\" name=\"{name}\" osdev_type=\"2\">\
             <info name=\"Address\" value=\"52:54:00:00:00:{bus}\"/></object></object></object>"
        )
    };
    // One device in the second package, one at the end of the whole machine.
    let xml = exported("package:2 numa:1 core:2 pu:1");
    let (rest, after) = xml.rsplit_once("</object>").unwrap();
    let (package, rest_of_package) = rest.rsplit_once("</object>").unwrap();
    let (near, far) = (device(71, "03", "near"), device(72, "04", "far"));
    let xml = format!("{package}{near}</object>{rest_of_package}{far}</object>{after}");
    let machine = File::with(xml).read().unwrap();
    let near = machine.nic("near").unwrap();
    assert_eq!(near.pci.unwrap().to_string(), "0000:03:00.0");
    assert_eq!(near.mac.unwrap().to_string(), "52:54:00:00:00:03");
    assert_eq!((near.node, near.speed, near.up), (Some(NodeId(1)), None, None));
    assert_eq!(near.locality(&machine).unwrap().to_string(), "2-3");
    let far = machine.nic("far").unwrap();
    assert_eq!((far.node, &far.local_cpus, far.locality(&machine)), (None, &None, None));
}

/// The file with more in it, at the end.
fn with(xml: &str, more: &str) -> File {
    let (rest, end) = xml.rsplit_once("</topology>").unwrap();
    File::with(format!("{rest}{more}</topology>{end}"))
}

/// hwloc's number of the node in this file.
fn number_of_node(xml: &str, node: u32) -> &str {
    let (_, object) = xml.split_once(&format!("<object type=\"NUMANode\" os_index=\"{node}\"")).unwrap();
    object.split_once("gp_index=\"").unwrap().1.split_once('"').unwrap().0
}

#[test]
fn parts_of_a_package_are_dies() {
    let machine = File::with(exported("package:2 die:2 core:2 pu:1")).read().unwrap();
    let dies: Vec<(Option<u32>, String)> = machine.dies().iter().map(|die| (die.id, die.cpus.to_string())).collect();
    let die = |id, cpus: &str| (Some(id), cpus.to_owned());
    assert_eq!(dies, [die(0, "0-1"), die(1, "2-3"), die(2, "4-5"), die(3, "6-7")]);
    assert!(File::with(exported("package:2 die:1 core:2 pu:1")).read().unwrap().dies().is_empty());
}

#[test]
fn memory_attributes_are_read_by_initiator() {
    let xml = exported("package:2 numa:1 core:2 pu:1");
    let value = |node, cpus: &str, value: u64| {
        let number = number_of_node(&xml, node);
        format!(
            "<memattr_value target_obj_type=\"NUMANode\" target_obj_gp_index=\"{number}\" value=\"{value}\" \
             initiator_cpuset=\"{cpus}\"/>"
        )
    };
    let attribute = |name: &str, flags: u32, values: &[String]| {
        format!("<memattr name=\"{name}\" flags=\"{flags}\">{}</memattr>", values.concat())
    };
    let (higher, lower) = (5, 6);
    let more = [
        attribute("ReadBandwidth", higher, &[value(0, "0x3", 6400), value(0, "0xc", 3200)]),
        attribute("WriteBandwidth", higher, &[value(0, "0x3", 6000)]),
        attribute("ReadLatency", lower, &[value(0, "0xc", 250), value(0, "0x3", 80)]),
        attribute("Bandwidth", higher, &[value(1, "0xf", 100), value(0, "0x3", 1)]),
        attribute("Latency", lower, &[value(1, "0xf", 90)]),
    ];
    let machine = with(&xml, &more.concat()).read().unwrap();
    let rate = |megabytes: u64| Some(Bandwidth::bits_per_second(megabytes * 8_000_000));
    let seen = |cpus: &str, read, write, latency, write_latency| MemoryPerformance {
        from: cpus.parse().unwrap(),
        read_bandwidth: read,
        write_bandwidth: write,
        read_latency: latency,
        write_latency,
    };
    let of_first =
        [seen("0-1", rate(6400), rate(6000), Some(80), None), seen("2-3", rate(3200), None, Some(250), None)];
    assert_eq!(machine.nodes()[0].performance, of_first, "the nearest first");
    let average = seen("0-3", rate(100), rate(100), Some(90), Some(90));
    assert_eq!(machine.nodes()[1].performance, [average]);
    assert!(File::with(xml).read().unwrap().nodes()[0].performance.is_empty());
}

#[test]
fn kinds_of_cores_are_read_in_their_order() {
    let kind = |cpus: &str, efficiency: &str, infos: &[(&str, &str)]| {
        let info = |(name, value): &(&str, &str)| format!("<info name=\"{name}\" value=\"{value}\"/>");
        let infos: String = infos.iter().map(info).collect();
        format!("<cpukind cpuset=\"{cpus}\" forced_efficiency=\"{efficiency}\">{infos}</cpukind>")
    };
    let xml = exported("package:1 core:4 pu:1");
    let fast = kind("0x3", "7", &[("CoreType", "IntelCore"), ("FrequencyMaxMHz", "5000"), ("FrequencyBaseMHz", "x")]);
    let slow = kind("0xc", "3", &[("CoreType", "IntelAtom"), ("LinuxCapacity", "446")]);
    let machine = with(&xml, &format!("{fast}{slow}")).read().unwrap();
    let expected = [
        CoreKind {
            cpus: "2-3".parse().unwrap(),
            efficiency: Some(0),
            name: Some("cpu_atom".to_owned()),
            capacity: Some(446),
            ..CoreKind::default()
        },
        CoreKind {
            cpus: "0-1".parse().unwrap(),
            efficiency: Some(1),
            name: Some("cpu_core".to_owned()),
            max_frequency: Some(5_000_000),
            ..CoreKind::default()
        },
    ];
    assert_eq!(machine.core_kinds(), expected);
    let one_kind = with(&xml, &kind("0xf", "-1", &[("FrequencyMaxMHz", "5000")])).read().unwrap();
    assert!(one_kind.core_kinds().is_empty());
}

#[test]
fn all_but_the_ordinary_pages_are_huge() {
    let xml = exported("numa:1 core:2 pu:1");
    let (before, page) = xml.split_once("<page_type size=\"4096\"").unwrap();
    let page = page.split_once("/>").unwrap().1;
    let types = |huge| format!("{before}<page_type size=\"4096\" count=\"9\"/>{huge}{page}");
    let huge = "<page_type size=\"2097152\" count=\"12\"/><page_type size=\"1073741824\" count=\"0\"/>";
    let pool = |size, total| Hugepages { size: DataSize::bytes(size), total: Some(total), free: None };
    let machine = File::with(types(huge)).read().unwrap();
    assert_eq!(machine.nodes()[0].hugepages, [pool(2 << 20, 12), pool(1 << 30, 0)]);
    // Pages of no size are none.
    let machine = File::with(types("<page_type size=\"0\" count=\"12\"/>")).read().unwrap();
    assert!(machine.nodes()[0].hugepages.is_empty());
}

/// A machine of two packages with these objects on the second one.
fn with_objects(objects: &str) -> File {
    let xml = exported("package:2 numa:1 core:2 pu:1");
    let (rest, after) = xml.rsplit_once("</object>").unwrap();
    let (package, rest_of_package) = rest.rsplit_once("</object>").unwrap();
    File::with(format!("{package}{objects}</object>{rest_of_package}</object>{after}"))
}

fn bridge(index: u32, kinds: &str, inside: &str) -> String {
    format!(
        "<object type=\"Bridge\" gp_index=\"{index}\" bridge_type=\"{kinds}\" depth=\"0\" bridge_pci=\"0000:[03-05]\" \
         pci_busid=\"0000:02:00.0\" pci_type=\"0604 [8086:0001] [0000:0000] 00\" pci_link_speed=\"0.000000\">{inside}</object>"
    )
}

fn function(index: u32, address: &str, inside: &str) -> String {
    function_of_class("0302", index, address, inside)
}

fn function_of_class(class: &str, index: u32, address: &str, inside: &str) -> String {
    format!(
        "<object type=\"PCIDev\" gp_index=\"{index}\" pci_busid=\"{address}\" pci_type=\"{class} [10de:2335] [10de:18be] a1\" \
         pci_link_speed=\"63.015385\">{inside}</object>"
    )
}

fn os_device(index: u32, kind: u32, name: &str, infos: &[(&str, &str)]) -> String {
    let info = |(name, value): &(&str, &str)| format!("<info name=\"{name}\" value=\"{value}\"/>");
    let infos: String = infos.iter().map(info).collect();
    format!("<object type=\"OSDev\" gp_index=\"{index}\" name=\"{name}\" osdev_type=\"{kind}\">{infos}</object>")
}

#[test]
fn devices_of_all_kinds_are_read() {
    let gpu = os_device(90, 1, "card0", &[]) + &os_device(91, 5, "cuda0", &[("GPUModel", "H200")]);
    let network = os_device(92, 2, "ib0", &[("Port", "1")]) + &os_device(93, 2, "ib1", &[("Port", "2")]);
    let states = [("Port1State", "4"), ("Port2State", "1")];
    let disk = os_device(95, 0, "nvme0n1", &[("Size", "1024"), ("Model", "Fast")]);
    let functions = function(80, "0000:03:00.0", &gpu)
        + &function_of_class("0207", 81, "0000:04:00.0", &(network + &os_device(94, 3, "mlx5_0", &states)))
        + &function_of_class("0108", 82, "0000:05:00.0", &disk);
    let machine = with_objects(&bridge(70, "1-1", &functions)).read().unwrap();

    let device = machine.pci_device("0000:03:00.0".parse().unwrap()).unwrap();
    let port = machine.pci_device(device.parent.unwrap()).unwrap();
    assert_eq!((port.address.to_string(), port.parent), ("0000:02:00.0".to_owned(), None));
    assert_eq!(port.bridge, Some(PciBridge { secondary: 3, subordinate: 5 }));
    assert_eq!((device.class, device.vendor, device.device), (Some(0x030200), Some(0x10de), Some(0x2335)));
    assert_eq!((device.link, port.bandwidth), (None, None));
    let bandwidth = PciLink { speed: 32_000, width: 16 }.bandwidth().as_bits_per_second();
    let read = device.bandwidth.unwrap().as_bits_per_second();
    assert!(bandwidth.abs_diff(read) < bandwidth / 100_000, "{bandwidth} {read}");
    assert_eq!((device.node, device.local_cpus.as_ref().unwrap().to_string()), (Some(NodeId(1)), "2-3".to_owned()));

    let [gpu] = machine.gpus() else { panic!("{:?}", machine.gpus()) };
    assert_eq!((gpu.name.as_str(), gpu.model.as_deref(), gpu.pci), ("cuda0", Some("H200"), Some(device.address)));
    let ports: Vec<(u32, Option<&str>, Option<bool>)> =
        machine.rdma_devices()[0].ports.iter().map(|port| (port.number, port.nic.as_deref(), port.active)).collect();
    assert_eq!(ports, [(1, Some("ib0"), Some(true)), (2, Some("ib1"), Some(false))]);
    let [disk] = machine.block_devices() else { panic!("{:?}", machine.block_devices()) };
    assert_eq!((disk.size, disk.model.as_deref()), (Some(DataSize::bytes(1 << 20)), Some("Fast")));
}

#[test]
fn function_described_twice() {
    let inside = bridge(70, "1-1", &function(80, "0000:03:00.0", ""));
    let machine = with_objects(&(inside + &function(81, "0000:03:00.0", ""))).read().unwrap();
    let device = machine.pci_device("0000:03:00.0".parse().unwrap()).unwrap();
    assert_eq!((device.class, device.parent), (Some(0x030200), None));
    assert_eq!(machine.pci_devices().len(), 2);
}

#[test]
fn bridge_that_leads_nowhere_does_no_harm() {
    for kinds in ["1-0", "0-0", "7-9", "0-7"] {
        match with_objects(&bridge(70, kinds, "")).read() {
            Ok(machine) => assert!(machine.pci_devices().iter().all(|device| device.bridge.is_none()), "{kinds}"),
            Err(error) => assert!(matches!(error, XmlError::Load { .. }), "{kinds}: {error:?}"),
        }
    }
}

#[test]
fn newer_version_is_named_in_the_error() {
    let file = File::with(exported("pu:2").replace("version=\"2.0\"", "version=\"3.0\""));
    let error = file.read().unwrap_err();
    assert!(matches!(&error, XmlError::Version { version, .. } if version == "3.0"), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("is hwloc XML version 3.0, which hwloc 2."), "{message}");
}

#[test]
fn other_xml_is_no_machine() {
    let whole = exported("package:2 core:2 pu:2");
    let damaged = File::with(&whole[..whole.len() / 2]).read().unwrap_err();
    assert!(matches!(damaged, XmlError::Load { .. }), "{damaged:?}");
    assert!(damaged.source().is_some());
    for text in ["", "<svg version=\"1.1\"/>", "<topology", "\u{0}"] {
        let error = File::with(text).read().unwrap_err();
        assert!(matches!(error, XmlError::NotHwloc { .. }), "{text:?}: {error:?}");
    }
    assert!(matches!(File::with([0xff, 0xfe]).read(), Err(XmlError::NotHwloc { .. })));
    assert!(matches!(Topology::from_xml("/nonexistent.xml"), Err(XmlError::Read { .. })));
}
