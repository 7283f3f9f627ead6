//! `demo`.

use crate::util::{finish, interrupt, pattern, rails_bench, run, start, stderr, stdout, text, wait_for};
use std::{fs, path::Path};

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn demo_of_machine_placement_traffic_and_proof() {
    let folder = tempfile::tempdir().unwrap();
    let demo = rails_bench(["demo", "--size", "8MiB", "--rails", "2"]).env("TMPDIR", folder.path()).output().unwrap();
    assert!(demo.status.success(), "{}", stderr(&demo));
    let told = stdout(&demo);
    for said in [
        "machine ",
        "8 MiB of BLAKE3 output from --seed ",
        "Placement, as read back",
        "interrupt affine  unknown: lo raises no interrupts",
        "memory affine ",
        "Traffic",
        "goodput",
        "CPU ",
        "verified   BLAKE3 ",
    ] {
        assert!(told.contains(said), "`{said}` is not in:\n{told}");
    }
    for rail in ["send        0", "send        1", "receive     0", "receive     1"] {
        assert_eq!(told.lines().filter(|line| line.starts_with(rail)).count(), 2, "placement and traffic: {told}");
    }
    assert!(is_empty(folder.path()), "the temporary folder is removed");
}

#[test]
fn one_seed_makes_one_file() {
    let digest = |seed| {
        let demo = run(["demo", "--size", "100kB", "--seed", seed, "--quiet"]);
        assert!(demo.status.success() && demo.stderr.is_empty(), "{}", stderr(&demo));
        stdout(&demo).lines().find(|line| line.starts_with("verified")).expect("it is verified").to_owned()
    };
    assert_eq!(digest("7"), digest("7"));
    assert_ne!(digest("7"), digest("8"));
}

#[test]
fn a_demo_moves_a_given_file_and_leaves_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("given");
    let bytes = pattern(300_000, 6);
    fs::write(&file, &bytes).unwrap();
    let demo = run(["demo", "--file", text(&file)]);
    assert!(demo.status.success(), "{}", stderr(&demo));
    assert!(stdout(&demo).contains(&blake3::hash(&bytes).to_hex().to_string()), "{}", stdout(&demo));
    assert!(fs::read(&file).unwrap() == bytes);
}

#[test]
fn a_demo_that_cannot_be_says_why_and_what_to_do() {
    let large = run(["demo", "--size", "1000000TiB"]);
    assert_eq!(large.status.code(), Some(1));
    assert!(stderr(&large).contains("smaller --size"), "{}", stderr(&large));
    let missing = run(["demo", "--file", "/no/such"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("error: --file /no/such: "), "{}", stderr(&missing));
    let folder = run(["demo", "--file", "/"]);
    assert!(stderr(&folder).contains("--file /: it is not a regular file"), "{}", stderr(&folder));
}

#[test]
fn an_interrupted_demo_cleans_up() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = rails_bench(["demo", "--size", "2GiB"]);
    command.env("TMPDIR", folder.path());
    let (demo, lines) = start(command);
    while is_empty(folder.path()) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    interrupt(demo.id());
    wait_for(&lines, "interrupted");
    assert_eq!(finish(demo, &lines).0, 130);
    assert!(is_empty(folder.path()), "the temporary folder is removed");
}
