//! `topo --watch`.

use crate::util::{finish, interrupt, rails_bench, run, start, stderr, wait_for};

#[test]
fn watching_ends_by_ctrl_c_and_that_is_no_failure() {
    let (child, lines) = start(rails_bench(["topo", "--watch", "--json"]));
    wait_for(&lines, "watching");
    interrupt(child.id());
    let (code, out, rest) = finish(child, &lines);
    assert_eq!(code, 0, "{rest}");
    for line in out.lines() {
        let change: serde_json::Value = serde_json::from_str(line).expect("a line is an object");
        assert!(change["time"].is_string() && change["kind"].is_string(), "{line}");
    }
}

#[test]
fn watch_of_another_machine_is_refused() {
    let output = run(["topo", "--watch", "--xml", "machine.xml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--watch"), "{}", stderr(&output));
}
