//! `topo` and `plan`.

use crate::util::{run, stderr, stdout};
use rails_multirail::RailPlan;
use rails_topo::Topology;

#[test]
fn the_machine_is_shown_as_a_tree_and_as_its_model() {
    let tree = run(["topo"]);
    assert!(tree.status.success(), "{}", stderr(&tree));
    assert!(stdout(&tree).starts_with("machine ") && stdout(&tree).contains("allowed CPUs"), "{}", stdout(&tree));

    let json = run(["topo", "--json"]);
    let model: Topology = serde_json::from_slice(&json.stdout).expect("the JSON is the model");
    assert!(!model.allowed_cpus().is_empty());
}

#[test]
fn a_plan_says_what_goes_where_and_why() {
    let text = run(["plan", "--rails", "loopback:2"]);
    assert!(text.status.success(), "{}", stderr(&text));
    let text = stdout(&text);
    assert!(text.contains("rail 0") && text.contains("rail 1") && text.contains("127.0.0.2"), "{text}");
    assert!(text.contains("no interrupt"), "reasons are given: {text}");

    let json = run(["plan", "--rails", "loopback:3", "--json"]);
    let plan: RailPlan = serde_json::from_slice(&json.stdout).expect("the JSON is the plan");
    assert_eq!(plan.rails.len(), 3);
}

#[test]
fn a_saved_machine_is_shown_and_planned_on() {
    let root = tempfile::tempdir().unwrap();
    let cpu = root.path().join("sys/devices/system/cpu");
    std::fs::create_dir_all(&cpu).unwrap();
    std::fs::write(cpu.join("online"), "0-3\n").unwrap();
    std::fs::write(cpu.join("possible"), "0-3\n").unwrap();
    let root = root.path().to_str().unwrap();

    let tree = run(["topo", "--topology", root]);
    assert!(tree.status.success(), "{}", stderr(&tree));
    assert!(stdout(&tree).contains(&format!("files below {root}")), "{}", stdout(&tree));
    let plan = run(["plan", "--rails", "loopback:2", "--topology", root]);
    assert!(plan.status.success(), "{}", stderr(&plan));
}

#[test]
fn a_captured_machine_is_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let capture = path("machine.tar.gz");
    let captured = run(["topo", "capture", &capture, "--anonymous"]);
    assert!(captured.status.success() && captured.stdout.is_empty(), "{}", stderr(&captured));

    let model = |file: &str| -> Topology {
        let json = run(["topo", "--json", "--topology", file]);
        assert!(json.status.success(), "{}", stderr(&json));
        std::fs::write(path("machine.json"), &json.stdout).unwrap();
        serde_json::from_slice(&json.stdout).expect("the JSON is the model")
    };
    let machine = model(&capture);
    assert_eq!(model(&path("machine.json")), machine, "the snapshot is the model, with its origin");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    assert!(machine.machine().host.as_deref().is_some_and(|name| name.starts_with("host-") && name != host.trim()));
    for name in [&capture, &path("machine.json")] {
        let plan = run(["plan", "--rails", "loopback:2", "--topology", name]);
        assert!(plan.status.success(), "{}", stderr(&plan));
    }

    let xml = run(["topo", "--of", "xml", "--topology", &capture]);
    assert!(xml.status.success() && stdout(&xml).contains("<topology version=\"2.0\">"), "{}", stderr(&xml));
    std::fs::write(path("machine.xml"), &xml.stdout).unwrap();
    if cfg!(feature = "hwloc") {
        assert_eq!(model(&path("machine.xml")).cores(), machine.cores());
    }
}

#[test]
fn the_machine_is_drawn_with_rails_over_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.svg");
    let written = run(["topo", "--svg", file.to_str().unwrap(), "--rails", "loopback:2"]);
    assert!(written.status.success(), "{}", stderr(&written));
    assert_eq!(stdout(&written), "", "the picture is in the file alone");
    // The texts stand on lines of their own.
    let dense = |picture: &str| picture.split_whitespace().collect::<String>();
    let picture = dense(&std::fs::read_to_string(&file).unwrap());
    assert!(picture.contains("<svg") && picture.contains(">R0<") && picture.contains(">R1<"), "{picture}");

    let shown = run(["topo", "--svg", "-"]);
    assert!(shown.status.success(), "{}", stderr(&shown));
    let picture = dense(&stdout(&shown));
    assert!(picture.contains("<svg") && !picture.contains(">R0<"), "{picture}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (mut child, lines) = crate::util::start(crate::util::rails_bench(["topo", "--json"]));
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(lines.iter().count(), 0);
}
