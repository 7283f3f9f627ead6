//! hwloc's XML files, written by the installed hwloc.
#![cfg(feature = "hwloc")]

use hwlocality::topology::{builder::TopologyBuilder, export::xml::XMLExportFlags};
use rails_topo::{CpuId, NodeId, Origin, Topology, XmlError};
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
fn an_exported_machine_is_read_as_the_described_one() {
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
fn devices_are_placed_by_what_they_hang_on() {
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

#[test]
fn a_newer_version_is_named_in_the_error() {
    let file = File::with(exported("pu:2").replace("version=\"2.0\"", "version=\"3.0\""));
    let error = file.read().unwrap_err();
    assert!(matches!(&error, XmlError::Version { version, .. } if version == "3.0"), "{error:?}");
    let message = error.to_string();
    assert!(message.contains("is hwloc XML version 3.0, which hwloc 2."), "{message}");
}

#[test]
fn what_is_no_machine_is_refused() {
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
