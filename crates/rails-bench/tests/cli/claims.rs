//! `rails`, the list of claims.

use crate::util::{run, stderr, stdout, text};
use rails_bind::claims::{Claims, Resource};
use rails_topo::CpuId;
use std::{fs, path::Path, process::Output};

fn rails(claims: &Path, more: &[&str]) -> Output {
    run(["rails", "--claims", text(claims)].into_iter().chain(more.iter().copied()))
}

#[test]
fn claims_of_another_process_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let claims = Claims::at(folder.path().join("rails"));
    let queue = |index| Resource::Queue { interface: "eth0".parse().unwrap(), index };
    let claim = claims.claim([Resource::Cpu(CpuId(2)), Resource::Cpu(CpuId(3)), queue(1)]).unwrap();

    let output = rails(claims.folder(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (pid, user) = (std::process::id().to_string(), nix::unistd::geteuid().to_string());
    let told = stdout(&output);
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].trim_start().starts_with("process  user  holds"), "{told}");
    let [process, owner] = [0, 1].map(|word| lines[1].split_whitespace().nth(word).unwrap());
    assert_eq!((process, owner, lines.len()), (pid.as_str(), user.as_str(), 2), "{told}");
    assert!(lines[1].contains("  CPUs 2-3, rx queue 1 of eth0  "), "{told}");

    let output = rails(claims.folder(), &["--json"]);
    let holders: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(holders.as_array().map(Vec::len), Some(1));
    assert_eq!(holders[0]["pid"].to_string(), pid);
    assert_eq!(holders[0]["user"].to_string(), user);
    assert!(holders[0]["command"].is_string());
    let holds = serde_json::json!({ "cpus": "2-3", "interrupts": "", "queues": { "eth0": "1" } });
    assert_eq!(holders[0]["holds"], holds);

    // The list has let go of nothing.
    claim.check().unwrap();
    drop(claim);
    assert_eq!(stdout(&rails(claims.folder(), &[])), "no claims on this host\n");
    assert_eq!(stdout(&rails(claims.folder(), &["--json"])), "[]\n");
}

#[test]
fn listing_without_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rails");
    let output = rails(&path, &[]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "no claims on this host\n"));
    assert!(!path.exists());
}

#[test]
fn folder_that_is_none_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = rails(file.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("error: --claims: cannot "), "{said}");
    assert!(said.contains(text(file.path())) && said.contains("install -d -m 1777"), "{said}");
    assert!(output.stdout.is_empty(), "errors go to stderr");
    fs::metadata(file.path()).expect("it was left alone");
}
