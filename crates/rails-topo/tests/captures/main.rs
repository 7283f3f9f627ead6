//! Captures in one file: their contents, and the files that are refused.

mod archive;

use archive::{Archive, EXTRA};
use proptest::prelude::*;
use rails_topo::{Capture, CaptureError, CaptureFault, CpuId, NodeId, Origin, SavedError, SavedKind, Topology};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

fn fault(bytes: &[u8]) -> CaptureFault {
    Capture::read(bytes).unwrap_err()
}

fn refused(archive: Archive) -> String {
    match fault(&archive.packed()) {
        CaptureFault::Entry { entry, reason } => format!("{entry}: {reason}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn capture_packed_by_tar_is_replayed() {
    let capture = Archive::machine().folder("./sys/class/").link("sys/class/net", "../../etc").packed();
    let machine = Capture::read(&capture[..]).unwrap().replay("there.tar.gz").unwrap();
    assert_eq!(machine.origin(), &Origin::Capture { path: "there.tar.gz".into() });
    assert_eq!(machine.online_cpus().to_string(), "0-3");
    assert!(machine.nics().is_empty(), "a link out of the capture leads nowhere");
}

#[test]
fn entries_that_lead_out_of_the_capture_are_refused() {
    for path in ["../x", "sys/../../x", "/etc/passwd", "sys/.."] {
        assert!(refused(Archive::machine().raw_file(path)).contains("leads out of the capture"), "{path}");
    }
    assert!(refused(Archive::machine().file(&format!("{}x", "d/".repeat(65)), "")).contains("too deep"));
    assert!(refused(Archive::machine().file(&format!("sys/{}", "x".repeat(5000)), "")).contains("too long"));
    let below_a_link = Archive::machine().link("sys/class", "/etc").file("sys/class/passwd", "");
    assert_eq!(refused(below_a_link), "sys/class/passwd: the folder that it lies in is missing");
    assert!(refused(Archive::machine().file("a/b", "")).contains("is missing"));
    assert!(refused(Archive::machine().file("sys", "")).contains("twice"));
    assert!(refused(Archive::machine().link("sys/x", "y").link("sys/x", "z")).contains("twice"));
}

#[test]
fn entries_of_other_kinds_are_refused() {
    use tar::EntryType;
    for kind in [EntryType::Fifo, EntryType::Char, EntryType::Link, EntryType::Continuous] {
        let refused = refused(Archive::machine().of_kind("sys/x", kind));
        assert!(refused.contains("no file, folder or symlink"), "{kind:?}: {refused}");
    }
}

#[test]
fn oversized_file_refused_by_its_header() {
    let mut archive = Archive::machine().bytes();
    archive.extend(Archive::header("sys/one", 65 << 20));
    let fault = fault(&archive::pack(&archive));
    assert!(matches!(&fault, CaptureFault::Entry { reason: "it is too long", .. }), "{fault:?}");
}

#[test]
fn other_files_are_no_captures() {
    assert!(matches!(fault(b""), CaptureFault::Damaged { .. }));
    assert!(matches!(fault(b"\x1f\x8b\x08"), CaptureFault::Damaged { .. }));
    let of_another_kind = Archive::new().folder("home/").file("home/x", "y").packed();
    assert!(matches!(fault(&of_another_kind), CaptureFault::NotACapture));
    let newer = Archive::new().file(EXTRA, r#"{ "version": 2, "more": {} }"#).packed();
    assert!(matches!(fault(&newer), CaptureFault::Version { version: 2, known: 1 }));
    for extra in ["", "[]", r#"{ "version": 1 "#, r#"{ "version": 1, "addresses": 7 }"#] {
        assert!(matches!(fault(&Archive::new().file(EXTRA, extra).packed()), CaptureFault::Extra { .. }), "{extra}");
    }
    let without_cpus = Archive::new().file(EXTRA, archive::EMPTY).packed();
    let error = Capture::read(&without_cpus[..]).unwrap().replay("x.tar.gz").unwrap_err();
    assert!(error.to_string().starts_with("`x.tar.gz` is not the root of a machine's files"), "{error}");
}

#[test]
fn capture_cut_at_any_byte_is_refused() {
    let whole = Archive::machine().packed();
    for length in 0..whole.len() {
        assert!(Capture::read(&whole[..length]).is_err(), "{length} of {}", whole.len());
    }
}

#[test]
fn saved_machine_is_told_by_its_content() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine");
    let saved = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        (SavedKind::of(&path).unwrap(), Topology::from_saved(&path))
    };
    let (kind, capture) = saved(&Archive::machine().packed());
    let capture = capture.unwrap();
    assert_eq!((kind, capture.online_cpus().len()), (Some(SavedKind::Capture), 4));
    let (kind, snapshot) = saved(format!("\n {}", serde_json::to_string(&capture).unwrap()).as_bytes());
    assert_eq!((kind, snapshot.unwrap()), (Some(SavedKind::Snapshot), capture.clone()));
    let (kind, xml) = saved(capture.to_hwloc_xml().as_bytes());
    assert_eq!((kind, xml.is_ok()), (Some(SavedKind::HwlocXml), cfg!(feature = "hwloc")));
    let (kind, none) = saved(b"[nic.eth0]\n");
    assert!(kind.is_none() && matches!(none, Err(SavedError::Unknown { .. })));
    assert_eq!(SavedKind::of(folder.path()).unwrap(), Some(SavedKind::Folder));
    assert!(matches!(Topology::from_saved("/no/such"), Err(SavedError::Read { .. })));
    let (_, damaged) = saved(b"\x1f\x8b");
    let damaged = damaged.unwrap_err();
    assert!(damaged.to_string().contains(path.to_str().unwrap()), "{damaged}");
    assert!(damaged.source().is_some());
    assert!(matches!(damaged, SavedError::Capture(CaptureError::Invalid { .. })));
}

#[test]
fn snapshot_that_contradicts_itself_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.json");
    let model = Topology::synthetic("package:2 numa:1 core:2 pu:2", vec![]).unwrap();
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = serde_json::to_value(&model).unwrap();
        change(&mut json);
        fs::write(&path, json.to_string()).unwrap();
        Topology::from_snapshot(&path).map_err(|error| error.to_string())
    };
    assert_eq!(changed(&|_| {}).unwrap(), model);
    let said = |change: &dyn Fn(&mut serde_json::Value), what: &str| {
        let error = changed(change).unwrap_err();
        assert!(error.contains(path.to_str().unwrap()) && error.contains(what), "{error}");
    };
    said(&|json| json["online_cpus"] = "".into(), "no CPU is online");
    said(&|json| json["allowed_cpus"] = "0-8".into(), "allowed that are not online");
    said(&|json| json["cores"][0]["cpus"] = "99".into(), "in places and are not online");
    said(&|json| json["distances"] = serde_json::json!({ "nodes": [0, 1], "values": [10] }), "more or fewer distances");
    said(&|json| drop(json.as_object_mut().unwrap().remove("nics")), "is no model of a machine");
}

/// One of the machines that were captured with `rails-bench topo capture --anonymous`, for good.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// Captured in the two-socket guest, with its NICs up.
#[test]
fn two_sockets_with_nics_and_interrupts() {
    let machine = Topology::from_capture(fixture("two-sockets.tar.gz")).unwrap();
    let nodes: Vec<_> = machine.nodes().iter().map(|node| (node.id, node.cpus.to_string())).collect();
    assert_eq!(nodes, [(NodeId(0), "0-1".to_owned()), (NodeId(1), "2-3".to_owned())]);
    assert_eq!((machine.packages().len(), machine.cores().len(), machine.caches().len()), (2, 4, 14));
    assert_eq!(machine.distances().unwrap().between(NodeId(0), NodeId(1)), Some(21));
    for (name, node) in [("eth0", 1), ("eth1", 1), ("eth2", 0), ("eth3", 0)] {
        let nic = machine.nic(name).unwrap();
        assert_eq!((nic.node, nic.up, nic.addresses.len()), (Some(NodeId(node)), Some(true), 2), "{name}");
        let queues: Vec<_> = nic.rx_queues.iter().map(|queue| queue.interrupt.is_some()).collect();
        assert_eq!((queues, nic.interrupts.len()), (vec![true], 3), "{name}");
        let beside = &machine.nodes()[node as usize].cpus;
        assert!(nic.interrupts.iter().all(|it| it.effective.as_ref().is_some_and(|on| on.is_subset(beside))), "{name}");
    }
}

/// Captured on a virtual machine, with a reader that read less than today's.
#[test]
fn machine_that_was_captured_once_is_still_read() {
    let path = fixture("virtual-machine.tar.gz");
    let machine = Topology::from_capture(&path).unwrap();
    assert_eq!(machine.origin(), &Origin::Capture { path });
    assert_eq!((machine.packages().len(), machine.cores().len(), machine.online_cpus().len()), (1, 2, 2));
    assert_eq!(machine.machine().cpu_model.as_deref(), Some("AMD EPYC"));
    assert_eq!(machine.sharing_last_level_cache(CpuId(0)).unwrap().to_string(), "0-1");
    let eth0 = machine.nic("eth0").unwrap();
    assert_eq!(
        (eth0.driver.as_deref(), eth0.pci.unwrap().to_string()),
        (Some("virtio_net"), "0000:00:03.0".to_owned())
    );
    assert!(eth0.addresses.iter().any(|address| address.ip.is_ipv4()), "{:?}", eth0.addresses);
    assert!(!eth0.interrupts.is_empty() && !eth0.rx_queues.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_damage_makes_it_panic(at: prop::sample::Index, byte: u8, unpacked: bool) {
        let mut bytes = if unpacked { Archive::machine().bytes() } else { Archive::machine().packed() };
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let packed = if unpacked { archive::pack(&bytes) } else { bytes };
        if let Ok(capture) = Capture::read(&packed[..]) {
            let _ = capture.replay("x");
        }
    }
}
