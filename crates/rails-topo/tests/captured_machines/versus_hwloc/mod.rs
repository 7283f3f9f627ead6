//! Our reader of the kernel's files against hwloc's, on the same captured trees: every field of the
//! model.
//!
//! A difference that `named` does not have fails, and so does a named difference that no longer
//! exists. So every new field of the model is compared with hwloc by itself.

mod facts;
mod named;

use crate::machines::name;
use facts::{Facts, facts, is_unknown, same};
use hwlocality::topology::{
    builder::{BuildFlags, TopologyBuilder, TypeFilter},
    export::xml::XMLExportFlags,
};
use named::{How, NAMED, Named};
use rails_lab::captures::{self, Unpacked};
use rails_topo::Topology;
use std::{collections::BTreeSet, path::Path, process::Command};

/// hwloc reads another root only by its environment variables, so the test runs itself again with
/// them set; that run saves what hwloc sees.
#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_trees_agree_with_hwloc() {
    if let Some(xml) = std::env::var_os(XML) {
        return save_what_hwloc_sees(Path::new(&xml));
    }
    let mut wrong = Vec::new();
    for archive in captures::trees() {
        let tree = Unpacked::of(&archive);
        let xml = tree.root().join("hwloc.xml");
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "versus_hwloc::captured_trees_agree_with_hwloc"])
            .envs([("HWLOC_COMPONENTS", "linux,-x86,stop"), ("HWLOC_THISSYSTEM", "0"), ("HWLOC_HIDE_ERRORS", "2")])
            .env("HWLOC_FSROOT", tree.root())
            .env(XML, &xml)
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
        let (ours, theirs) = (Topology::from_sysfs_root(tree.root()).unwrap(), Topology::from_xml(&xml).unwrap());
        wrong.extend(compare(&facts(&ours), &facts(&theirs), name(&archive)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The differences without a name, and the named ones of this tree that do not exist.
fn compare(ours: &Facts, theirs: &Facts, tree: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut met: BTreeSet<usize> = BTreeSet::new();
    let has_nodes = ours.keys().any(|(field, _)| field == "nodes");
    let subjects: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    for subject @ (field, of) in subjects {
        // That something is missing is one difference, and not one for each of its fields.
        let owner = field.rsplit_once('.').map(|(owner, _)| (owner.to_owned(), of.clone()));
        let is_missing = owner.is_some_and(|owner| ours.contains_key(&owner) != theirs.contains_key(&owner));
        let (ours, theirs) = (facts::of(ours, subject), facts::of(theirs, subject));
        if is_missing || same(field, ours, theirs) {
            continue;
        }
        let is_true = |named: &Named| match named.how {
            How::OnlyOurs => is_unknown(theirs),
            How::OnlyTheirs => is_unknown(ours),
            How::MadeUp => !has_nodes && is_unknown(ours),
            How::Differs => true,
        };
        let is_named = |named: &Named| named.covers(tree, field, of) && is_true(named);
        match NAMED.iter().position(is_named) {
            Some(index) => _ = met.insert(index),
            None => wrong.push(format!("{tree}: {field} of `{of}`: {ours} is {theirs} to hwloc")),
        }
    }
    let unmet = NAMED.iter().enumerate().filter(|(index, named)| named.is_of(tree) && !met.contains(index));
    wrong.extend(unmet.map(|(_, named)| format!("{tree}: {} no longer differs: {}", named.field, named.why)));
    wrong
}

fn save_what_hwloc_sees(xml: &Path) {
    // CPUs and nodes that the captured process's control group forbids belong to the machine too.
    let builder = TopologyBuilder::new().with_flags(BuildFlags::INCLUDE_DISALLOWED).unwrap();
    let builder = builder.with_cpu_icache_type_filter(TypeFilter::KeepAll).unwrap();
    let hwloc = builder.with_io_type_filter(TypeFilter::KeepAll).unwrap().build().unwrap();
    hwloc.export_xml_file(Some(xml), XMLExportFlags::empty()).unwrap();
}

/// Names the file that the second run saves to.
const XML: &str = "RAILS_TEST_SAVE_XML";
