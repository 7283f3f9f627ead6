//! Other people's machines, shown, drawn and explained.

use crate::util::{run, stderr, stdout};
use rails_lab::captures::{self, Unpacked};
use rails_topo::Topology;
use std::path::Path;

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_trees_are_shown_drawn_and_explained() {
    for archive in captures::trees() {
        assert_is_shown(Unpacked::of(&archive).root());
    }
}

#[test]
#[ignore = "reads captured machines: set RAILS_CAPTURES to their folder"]
fn captured_files_shown_or_too_new() {
    for file in captures::xml_files() {
        if captures::is_of_hwloc_3(&file) || cfg!(not(feature = "hwloc")) {
            let refused = run(["topo", "--topology", file.to_str().unwrap()]);
            assert!(!refused.status.success() && refused.stdout.is_empty(), "{}", stdout(&refused));
            assert!(stderr(&refused).contains(file.to_str().unwrap()), "{}", stderr(&refused));
        } else {
            assert_is_shown(&file);
        }
    }
}

/// As a tree, a model, a picture and an explanation, each with every NIC in it.
fn assert_is_shown(machine: &Path) {
    let shown = |how: &[&str]| {
        let output = run(["topo", "--topology", machine.to_str().unwrap()].into_iter().chain(how.iter().copied()));
        assert!(output.status.success(), "{}: {}", machine.display(), stderr(&output));
        stdout(&output)
    };
    let model: Topology = serde_json::from_str(&shown(&["--json"])).expect("the JSON is the model");
    let (tree, picture, explanation) = (shown(&[]), shown(&["--svg", "-"]), shown(&["--explain"]));
    assert!(tree.starts_with("machine ") && tree.contains("allowed CPUs"), "{tree}");
    assert!(picture.trim_end().ends_with("</svg>"), "{picture}");
    assert!(explanation.contains("allowed CPUs"), "{explanation}");
    for nic in model.nics() {
        for text in [&tree, &picture, &explanation] {
            assert!(text.contains(&nic.name), "{}: {} in {text}", machine.display(), nic.name);
        }
    }
}
