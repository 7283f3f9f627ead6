//! Texts for people are as wide as their terminal, and those for programs as long as they are.

use crate::util::{Killed, Receiver, rails_bench, run, start, stderr, stdout, text, wait_for};
use nix::pty::{Winsize, openpty};
use std::{
    fs::{self, File},
    io::Read,
    process::{Output, Stdio},
};

/// Machines whose descriptions are wide.
const MACHINES: [&str; 2] = ["two-sockets.tar.gz", "virtual-machine.tar.gz"];

fn machine(name: &str) -> String {
    format!("{}/../rails-topo/tests/fixtures/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn assert_fits(shown: &str, width: usize, of: &[&str]) {
    for line in shown.lines() {
        assert!(line.chars().count() <= width, "{of:?}, {width} columns: {line}");
    }
}

/// What a command shows a terminal of so many columns.
fn on(width: usize, args: &[&str]) -> String {
    let output = rails_bench(args.iter().copied()).env("COLUMNS", width.to_string()).output().unwrap();
    let shown = stdout(&output);
    assert!(!shown.is_empty(), "{args:?}: {}", stderr(&output));
    assert_fits(&shown, width, args);
    shown
}

#[test]
fn machines_plans_and_verdicts_fit_their_terminal() {
    for machine in MACHINES.map(machine) {
        for width in [40, 80, 120] {
            let of = ["--topology", &machine];
            let tree = on(width, &[&["topo"], &of[..]].concat());
            assert!(tree.starts_with("machine ") && tree.contains("allowed CPUs"), "{tree}");
            on(width, &[&["topo", "--explain"], &of[..]].concat());
            assert!(on(width, &[&["plan", "--rails", "auto"], &of[..]].concat()).contains("lane eth0"));
        }
    }
    for width in [40, 80, 120] {
        on(width, &["doctor", "--rails", "loopback"]);
        on(width, &["plan", "--rails", "loopback"]);
    }
}

#[test]
fn help_fits_its_terminal() {
    let help = stdout(&run(["--help"]));
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| name.len() > 2 && *name != "help").collect();
    for width in [40, 80, 120] {
        on(width, &["--help"]);
        for name in names.iter().filter(|name| help.contains(&format!("\n  {name} "))) {
            on(width, &[name, "--help"]);
            on(width, &[name, "-h"]);
        }
    }
}

#[test]
fn summaries_fit_their_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, vec![7; 3_000_000]).unwrap();
    for width in [40, 80, 120] {
        let receiver = Receiver::start(&folder.path().join(format!("inbox{width}")), ["--insecure"]);
        let sent = on(width, &["send", text(&file), "--to", &receiver.addresses, "--insecure", "-v"]);
        let has_list = sent.lines().any(|line| line.starts_with("rail: 0"));
        let has_table = sent.lines().any(|line| line.trim_start().starts_with("rail  ") && line.contains("lane"));
        assert!(has_list != has_table && (width > 40 || has_list), "{sent}");
    }
}

#[test]
fn measurements_fit_their_terminal() {
    let (child, lines) = start(rails_bench(["serve", "--listen", "127.0.0.1:0", "--insecure"]));
    let _ends = Killed(child);
    let to = wait_for(&lines, "listening on ").replace("listening on ", "");
    for width in [40, 80, 120] {
        on(width, &["stream", "--to", &to, "--bytes", "1MiB", "--insecure"]);
        let told = on(width, &["probe", "--to", &to, "--max-rate", "10mbit", "--insecure"]);
        assert!(told.starts_with("capacity") && told.contains("MTU"), "{told}");
    }
}

#[test]
#[ignore = "needs root: it makes network namespaces"]
fn netns_comparisons_fit_their_terminal() {
    for width in [40, 80, 120] {
        let case = ["compare", "--rates", "100,50", "--rounds", "1", "--seconds", "0.3"];
        let shown = on(width, &[&case[..], &["--contenders", "plain-flows,rails-adaptive"]].concat());
        assert!(shown.contains("rails, adaptive"), "{shown}");
    }
}

#[test]
fn programs_read_whole_lines() {
    let args = ["topo", "--topology", &machine(MACHINES[0])];
    let whole = stdout(&run(args));
    assert!(whole.lines().any(|line| line.chars().count() > 80), "{whole}");
    let narrow = |args: &[&str]| rails_bench(args.iter().copied()).env("COLUMNS", "40").output().unwrap();
    let json = |output: Output| serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
    let model = [&args[..], &["--json"]].concat();
    assert_eq!(json(narrow(&model)), json(run(model.iter().copied())));
    for odd in ["", "0", "many"] {
        let output = rails_bench(args).env("COLUMNS", odd).output().unwrap();
        assert_eq!(stdout(&output), whole, "COLUMNS={odd}");
    }
}

#[test]
fn terminals_say_their_width() {
    for width in [40, 80, 120] {
        let size = Winsize { ws_row: 24, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(&size, None).unwrap();
        let machine = machine(MACHINES[0]);
        let mut command = rails_bench(["topo", "--topology", &machine]);
        let mut child = command.stdout(Stdio::from(terminal.slave)).env_remove("COLUMNS").spawn().unwrap();
        // The terminal's other side is closed with the command's, and the last read fails (EIO).
        drop(command);
        let mut shown = Vec::new();
        let _ = File::from(terminal.master).read_to_end(&mut shown);
        assert!(child.wait().unwrap().success());
        let shown = String::from_utf8(shown).unwrap().replace('\r', "");
        assert!(shown.contains("allowed CPUs"), "{shown}");
        assert_fits(&shown, width.into(), &["topo"]);
    }
}
