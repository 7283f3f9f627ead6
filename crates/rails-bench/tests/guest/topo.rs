//! `topo` on a machine of two nodes: shown, drawn, explained, captured.

use crate::util::{output, rails_bench};
use rails_lab::guest;
use rails_topo::{NicKind, NodeId, Topology};

#[test]
#[ignore = "needs the NUMA guest: cargo xtask lab"]
fn guest_long_machine_is_shown_and_captured() {
    guest::require();
    let folder = tempfile::tempdir().expect("/run can be written to");
    let capture = folder.path().join("guest.tar.gz").to_str().expect("it is text").to_owned();
    let model = |how: &[&str]| -> Topology {
        serde_json::from_str(&shown(&[&["--json"], how].concat())).expect("the JSON is the model")
    };
    let machine = model(&[]);
    let nodes: Vec<_> = machine.nodes().iter().map(|node| (node.id, node.cpus.to_string())).collect();
    assert_eq!(nodes, [(NodeId(0), "0-1".to_owned()), (NodeId(1), "2-3".to_owned())]);
    assert_eq!((machine.packages().len(), machine.cores().len()), (2, 4));
    let nics = || machine.nics().iter().filter(|nic| nic.kind == NicKind::Device);
    for node in [NodeId(0), NodeId(1)] {
        assert_eq!(nics().filter(|nic| nic.node == Some(node)).count(), 2, "two NICs hang on node {node}");
    }

    let (tree, picture, explanation) =
        (shown(&[]), shown(&["--svg", "-", "--rails", "loopback:2"]), shown(&["--explain"]));
    println!("{tree}{explanation}");
    assert!(tree.contains("package 1") && picture.trim_end().ends_with("</svg>"), "{tree}{picture}");
    for nic in nics() {
        for text in [&tree, &picture, &explanation] {
            assert!(text.contains(&nic.name), "{} in {text}", nic.name);
        }
        let place = format!("/sys/bus/pci/devices/{}/numa_node", nic.pci.expect("it is on the PCI bus"));
        assert!(explanation.contains(&place), "{place} in {explanation}");
    }

    let captured = output(rails_bench(None, &["topo", "capture", &capture]));
    assert!(captured.status.success(), "{}", String::from_utf8_lossy(&captured.stderr));
    let replayed = model(&["--topology", &capture]);
    assert_eq!((replayed.nodes().len(), replayed.cores()), (2, machine.cores()));
    assert_eq!(replayed.nics(), machine.nics());
    assert_eq!(replayed.distances(), machine.distances());
}

/// The output of `topo`.
fn shown(how: &[&str]) -> String {
    let shown = output(rails_bench(None, &[&["topo"], how].concat()));
    assert!(shown.status.success(), "{how:?}: {}", String::from_utf8_lossy(&shown.stderr));
    String::from_utf8(shown.stdout).expect("it is text")
}
