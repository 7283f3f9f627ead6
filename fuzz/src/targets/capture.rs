//! Captures of machines in one file, which other people send.

use flate2::{Compression, write::GzEncoder};
use rails_topo::{Capture, Topology};
use std::io::Write;

/// Reads an archive, which this target packs so that no search has to find a checksum; if the first
/// byte is 1, the input is the packed bytes themselves. A capture that was read can be replayed,
/// printed and written, and reads back as the same.
pub(crate) fn read(data: &[u8]) {
    let capture = match data.split_first() {
        Some((1, packed)) => Capture::read(packed),
        Some((_, archive)) => Capture::read(&pack(archive)[..]),
        None => return,
    };
    let Ok(capture) = capture else { return };
    let mut written = Vec::new();
    capture.write(&mut written).expect("memory takes every write");
    assert_eq!(Capture::read(&written[..]).expect("a written capture reads back"), capture);
    let replayed = capture.clone().replay("capture");
    if let Ok(topology) = &replayed {
        assert!(!topology.online_cpus().is_empty());
        let _ = topology.tree().to_string();
        let _ = topology.to_hwloc_xml();
    }
    let hidden = capture.anonymous().replay("capture");
    assert_eq!(cpus(&hidden), cpus(&replayed));
}

fn cpus<E>(topology: &Result<Topology, E>) -> Option<String> {
    topology.as_ref().ok().map(|topology| topology.online_cpus().to_string())
}

/// This machine, and one of four CPUs.
pub(crate) fn captures() -> Vec<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut add = |kind, path: &str, text: &str| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(text.len() as u64);
        archive.append_data(&mut header, path, text.as_bytes()).expect("memory takes every write");
    };
    add(
        tar::EntryType::Regular,
        "rails-capture.json",
        r#"{"version":1,"addresses":[["eth0",{"ip":"10.0.0.1","prefix_len":24}]]}"#,
    );
    for folder in
        ["sys/", "sys/devices/", "sys/devices/system/", "sys/devices/system/cpu/", "sys/class/", "sys/class/net/"]
    {
        add(tar::EntryType::Directory, folder, "");
    }
    add(tar::EntryType::Regular, "sys/devices/system/cpu/online", "0-3\n");
    add(tar::EntryType::Directory, "sys/class/net/eth0", "");
    let small = [&[0], &archive.into_inner().expect("memory takes every write")[..]].concat();
    let mut whole = vec![1];
    let this_machine = Capture::of_this_machine().ok().and_then(|capture| capture.write(&mut whole).ok());
    [small].into_iter().chain(this_machine.map(|()| whole)).collect()
}

fn pack(archive: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::none());
    packed.write_all(archive).expect("memory takes every write");
    packed.finish().expect("memory takes every write")
}

pub(crate) const WORDS: &[&str] =
    &["ustar", "sys/class/net/", "proc/self", "../", "rails-capture.json", "{\"version\":1,\"addresses\":null}"];
