//! `rails`, the list of claims; and claims of the machine, which other commands make and heed.

use crate::{
    measure::measured,
    util::{Killed, json, rails_bench, run, start, stderr, stdout, text, wait_for, watch_stderr},
};
use rails_bind::claims::{Claims, Resource};
use rails_lab::Sandbox;
use rails_topo::{CpuId, CpuSet, Topology};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Output,
    sync::{Mutex, MutexGuard, PoisonError},
};

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
    let holders = json(&output);
    let holders = &holders["holders"];
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
    let none = json(&rails(claims.folder(), &["--json"]));
    assert_eq!(none, serde_json::json!({ "schema": "rails-bench.rails", "version": 1, "holders": [] }));
}

#[test]
fn listing_without_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rails");
    let output = rails(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    let said = format!("error: --claims: cannot open `{}`: No such file", path.display());
    assert!(stderr(&output).starts_with(&said), "{}", stderr(&output));
    assert!(!path.exists());
}

#[test]
#[ignore = "needs root: it makes a mount namespace"]
fn netns_listing_without_the_machines_folder() {
    let output = Sandbox::new().hide("/run/lock").output(&rails_bench(["rails"]));
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "no claims on this host\n"));
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

/// Claims of the machine are other tests' too: one test at a time makes them, on one core, which
/// leaves the others a core.
fn one_core_at_a_time() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last core that this process may use.
fn last_core() -> CpuSet {
    let topology = Topology::detect().unwrap();
    let mut cores = topology.cores().iter().filter(|core| core.cpus.intersects(topology.allowed_cpus()));
    cores.next_back().unwrap().cpus.clone()
}

fn refused(args: &[&str], said: &[&str]) {
    let output = run(args.iter().copied());
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    said.iter().for_each(|said| assert!(text.contains(said), "`{said}` is not in:\n{text}"));
}

#[test]
fn transfers_keep_away_from_claimed_cores() {
    let _turn = one_core_at_a_time();
    let core = last_core();
    let claim = Claims::machine().claim(core.iter().map(Resource::Cpu)).unwrap();
    let (sent, _) = measured(&["--json"], &["--bytes", "1MiB"]);
    claim.check().unwrap();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    for side in ["sender", "receiver"] {
        let rails = sent[side]["rails"].as_array().unwrap();
        assert_eq!(rails.len(), 2);
        for rail in rails {
            let cpus: CpuSet = rail["cpus"].as_str().unwrap().parse().unwrap();
            assert!(!cpus.is_empty() && !cpus.intersects(&core), "{rail}");
        }
    }
}

#[test]
fn claimed_core_is_refused_with_its_holder() {
    let _turn = one_core_at_a_time();
    let core = last_core();
    let _claim = Claims::machine().claim(core.iter().map(Resource::Cpu)).unwrap();
    let (from, pid) = (format!("127.0.0.1@{core}"), format!("process {} (`", std::process::id()));
    let said = [
        "error: --from: ",
        "none of them is free: they are claimed",
        "help: ",
        &pid,
        &format!("CPU{} {core}", plural(&core)),
    ];
    refused(&["stream", "--exclusive", "--insecure", "--to", "127.0.0.1:1", "--from", &from], &said);
    refused(&["send", "Cargo.toml", "--exclusive", "--insecure", "--to", "127.0.0.1:1", "--from", &from], &said);
}

/// One user's claims keep no other process from running.
#[test]
fn claimed_core_is_shared_by_who_wants_none_alone() {
    let _turn = one_core_at_a_time();
    let core = last_core();
    let _claim = Claims::machine().claim(core.iter().map(Resource::Cpu)).unwrap();
    let output = run(["plan", "--rails", &format!("127.0.0.1@{core}")]);
    let (told, said) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said}");
    assert!(told.contains(&format!("note: CPUs {core} are claimed by other owners")), "{told}");
    let holder = format!("rails share CPUs {core} with process {} (`", std::process::id());
    assert!(said.contains(&holder), "`{holder}` is not in:\n{said}");
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_another_user_holds_half_and_root_overrides() {
    let _turn = one_core_at_a_time();
    let user = Sandbox::new().user(65534);
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let recv = ["recv", "--insecure", "--listen", "127.0.0.1:0", "--exclusive", "--into", text(folder.path())];
    let mut holders = Vec::new();
    let refused = loop {
        let mut child = user.spawn(&rails_bench(recv));
        let lines = watch_stderr(&mut child);
        let line = lines.iter().find(|line| line.contains("listening on ") || line.contains("error: "));
        let line = line.expect("it says what it does");
        holders.push(Killed(child));
        if line.contains("error: ") {
            break lines.iter().fold(line, |all, line| all + "\n" + &line);
        }
    };
    assert!(refused.contains("may hold") && refused.contains("/etc/rails/claims.toml"), "{refused}");
    let told = stdout(&run(["rails"]));
    let of_user = told.lines().filter(|line| line.split_whitespace().nth(1) == Some("65534")).count();
    assert_eq!(of_user, holders.len() - 1, "{told}");

    let rails = format!("loopback:{}", Topology::detect().unwrap().cores().len());
    let output = run(["plan", "--exclusive", "--rails", &rails]);
    let (told, said) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said}");
    assert!(said.contains("user 65534), which holds CPU"), "{told}{said}");
}

/// The core that is asked for twice is not the claimed one.
#[test]
fn holder_that_is_not_in_the_way_is_not_named() {
    let _turn = one_core_at_a_time();
    let _claim = Claims::machine().claim(last_core().iter().map(Resource::Cpu)).unwrap();
    let first = Topology::detect().unwrap().allowed_cpus().first().unwrap();
    let from = format!("127.0.0.1@{first},127.0.0.2@{first}");
    let output = run(["stream", "--insecure", "--exclusive", "--to", "127.0.0.1:1", "--from", &from]);
    let said = stderr(&output);
    assert!(said.contains("error: --from: "), "{said}");
    assert!(!said.contains(&format!("process {} (", std::process::id())), "{said}");
}

fn plural(cpus: &CpuSet) -> &'static str {
    if cpus.len() == 1 { "" } else { "s" }
}

#[test]
fn running_end_holds_its_core() {
    let _turn = one_core_at_a_time();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--exclusive", "--insecure"];
    let (child, lines) = start(rails_bench(serve));
    let child = Killed(child);
    wait_for(&lines, "listening on ");
    let holders = |pid: u32| {
        let holders = json(&run(["rails", "--json"]));
        holders["holders"].as_array().unwrap().iter().find(|holder| holder["pid"] == pid).cloned()
    };
    let id = child.0.id();
    let holder = holders(id).expect("it has claimed its core");
    assert!(holder["command"].as_str().unwrap().contains("serve --listen 127.0.0.1:0 --exclusive"), "{holder}");
    let cpus: CpuSet = holder["holds"]["cpus"].as_str().unwrap().parse().unwrap();
    let core = Topology::detect().unwrap().core_of_cpu(cpus.first().unwrap()).unwrap().cpus.clone();
    assert_eq!(cpus, core, "one whole core");

    let from = format!("127.0.0.1@{cpus}");
    let (pid, named) = (format!("process {id} (`"), format!("holds CPU{} {cpus}", plural(&cpus)));
    refused(
        &["stream", "--insecure", "--exclusive", "--to", "127.0.0.1:1", "--from", &from],
        &["error: --from: ", &pid, "serve --listen 127.0.0.1:0 --exclusive", &named, "`rails-bench rails`"],
    );

    drop(child);
    assert_eq!(holders(id), None);
    drop(Claims::machine().claim(cpus.iter().map(Resource::Cpu)).unwrap());
}
