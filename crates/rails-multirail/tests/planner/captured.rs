//! A captured machine with NICs at both nodes.
//!
//! Run: `RAILS_CAPTURES=FOLDER cargo test -p rails-multirail --test planner -- --ignored`. Without the variable the folder is
//! `shared/topologies` beside the repository.

use crate::{interfaces, planned};
use rails_topo::{NicKind, NodeId, Topology};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

fn read(archive: &str) -> Topology {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/topologies");
    let captures = std::env::var_os("RAILS_CAPTURES").map_or_else(beside, PathBuf::from);
    let folder = tempfile::TempDir::new().unwrap();
    let archive = captures.join("sysfs").join(archive);
    let tar = Command::new("tar").arg("-xjf").arg(&archive).arg("-C").arg(folder.path()).status().unwrap();
    assert!(tar.success(), "{}", archive.display());
    let root = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    // Some folders were captured without the right to look into them.
    assert!(Command::new("chmod").args(["-R", "u+rX"]).arg(&root).status().unwrap().success());
    Topology::from_sysfs_root(root).unwrap()
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_nics_get_rails_on_their_own_node() {
    let machine = read("32em64t-2n8c+dax+nvme+mic+dimms.tar.bz2");
    let plan = planned(&machine, "eth0,ib0");
    println!("{plan}{}", planned(&machine, "auto"));
    let nodes: Vec<_> = plan.rails.iter().map(|rail| rail.node).collect();
    assert_eq!(nodes, [Some(NodeId(0)), Some(NodeId(1))]);
    for rail in &plan.rails {
        assert!(machine.node_of_cpu(rail.cpu).is_some_and(|node| Some(node.id) == rail.node), "{plan}");
    }
    let auto = planned(&machine, "auto");
    for name in interfaces(&auto) {
        let nic = machine.nic(name).unwrap();
        assert!(nic.kind == NicKind::Device && nic.up != Some(false), "{auto}");
    }
    let loopback = planned(&machine, "loopback");
    assert_eq!(loopback.rails.len(), machine.cores().len());
}
