//! `doctor` and `undo`, as anybody may run them.

use crate::util::{json, run, stderr, stdout, text};
use rails_bind::settings::{Change, Host, Journal, Refusals, Setting, Value};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program must end with this code and say all of this on stderr.
fn refused<'a>(args: impl IntoIterator<Item = &'a str>, code: i32, said: &[&str]) {
    let output = run(args);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    said.iter().for_each(|said| assert!(text.contains(said), "`{said}` is not in:\n{text}"));
    assert!(output.stdout.is_empty(), "errors go to stderr");
}

fn undo(journal: &Path, more: &[&str]) -> Output {
    run(["undo", "--journal", text(journal)].into_iter().chain(more.iter().copied()))
}

#[test]
fn a_process_that_cannot_be_looked_at_is_named() {
    refused(["doctor", "--pid", "0"], 2, &["--pid", "above zero"]);
    refused(["doctor", "--pid=-1"], 2, &["--pid"]);
    refused(["doctor", "--pid", "init"], 2, &["--pid", "above zero"]);
    // Linux ends at 4,194,304.
    refused(["doctor", "--pid", "4194305"], 1, &["error: --pid 4194305: ", "does not exist", "help: `ps -e`"]);
    refused(["doctor", "--pid", "1", "--iface", "lo"], 2, &["--pid", "--iface"]);
    refused(["doctor", "--iface", "lo", "--seconds", "0"], 2, &["--seconds", "more than 0"]);
}

#[test]
fn a_process_that_has_ended_is_not_called_healthy() {
    let mut ended = Command::new("true").stdin(Stdio::null()).spawn().expect("it is there");
    let pid = ended.id().to_string();
    // A zombie until it is waited for, which the test does at its end.
    let stat = format!("/proc/{pid}/stat");
    while !fs::read_to_string(&stat).expect("it is not waited for yet").contains(") Z ") {
        std::thread::yield_now();
    }
    refused(["doctor", "--pid", &pid, "--seconds", "0.1"], 1, &[&format!("--pid {pid}: "), "has ended"]);
    ended.wait().expect("it ended");

    // On a busy machine a process may have ended before it is looked at: then another one lives longer.
    for (lives, watched) in [("0.5", "3"), ("5", "10"), ("30", "40")] {
        let mut brief = Command::new("sleep").arg(lives).spawn().expect("it is there");
        let pid = brief.id().to_string();
        let waiter = std::thread::spawn(move || brief.wait());
        let output = run(["doctor", "--pid", &pid, "--seconds", watched]);
        waiter.join().expect("it does not panic").expect("it ended");
        let said = stderr(&output);
        if !said.contains("does not exist") {
            assert_eq!(output.status.code(), Some(1), "{said}");
            assert!(said.contains(&format!("--pid {pid}: ")) && said.contains("ended while it was watched"), "{said}");
            return;
        }
    }
    panic!("no process was looked at before it ended");
}

#[test]
fn an_unknown_interface_comes_with_those_there_are() {
    refused(["doctor", "--iface", "nosuch0"], 1, &["error: --iface nosuch0: ", "help: interfaces here: ", "lo"]);
}

#[test]
fn rails_are_examined_as_json() {
    let output = run(["doctor", "--rails", "loopback:2", "--seconds", "0.1", "--json"]);
    let document = json(&output);
    let examined = document["examined"].as_array().expect("one for each rail");
    assert_eq!(examined.len(), 2);
    let mut broken = false;
    for (index, rail) in examined.iter().enumerate() {
        assert_eq!(rail["what"], format!("rail {index}"));
        assert_eq!(rail["report"]["interrupt"]["state"], "unknown", "the loopback raises none: {rail:#}");
        broken |= ["thread", "memory"].iter().any(|property| rail["report"][property]["state"] == "broken");
        assert_eq!(rail["seen"]["threads"].as_array().expect("the rail's own").len(), 1);
    }
    assert_eq!(output.status.code(), Some(broken.into()), "{}", stderr(&output));
}

#[test]
fn an_empty_journal_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let list = undo(folder.path(), &["--list"]);
    assert_eq!(list.status.code(), Some(0), "{}", stderr(&list));
    assert_eq!(stdout(&list), format!("nothing is written down in {}\n", text(folder.path())));
    let nothing = undo(folder.path(), &[]);
    assert_eq!(nothing.status.code(), Some(0), "{}", stderr(&nothing));
    assert_eq!(stdout(&nothing), format!("nothing in {} is to be put back\n", text(folder.path())));
    let missing = folder.path().join("missing");
    let said = ["error: --journal: cannot open `", "missing`: No such file", "help: "];
    refused(["undo", "--journal", text(&missing)], 1, &said);
    refused(["undo", "--list", "--journal", text(&missing)], 1, &said);
    assert!(!missing.exists());
    refused(["undo", "--list", "--force"], 2, &["--list", "--force"]);
}

#[test]
fn a_kept_setting_that_has_gone_is_done_with() {
    let folder = tempfile::tempdir().unwrap();
    let steering = folder.path().join("sys/class/net/rails-gone0/queues/rx-0/rps_cpus");
    fs::create_dir_all(steering.parent().unwrap()).unwrap();
    fs::write(&steering, "1\n").unwrap();
    let path = folder.path().join("journal");
    let journal = Journal::at(&path).unwrap();
    let setting = Setting::ReceiveSteering { interface: "rails-gone0".parse().unwrap(), queue: 0 };
    let change = Change { setting, value: Value::Cpus("1".parse().unwrap()) };
    let guard = Host::under(folder.path()).apply(&journal, &[change], Refusals::Fail).unwrap();
    guard.keep().unwrap();

    let listed = json(&undo(&path, &["--list", "--json"]));
    assert_eq!((&listed["schema"], &listed["version"]), (&"rails-bench.undo".into(), &1.into()));
    let change = serde_json::json!({
        "setting": { "setting": "receive_steering", "interface": "rails-gone0", "queue": 0 },
        "value": { "cpus": "1" }, "former": { "cpus": "0" }
    });
    assert_eq!((&listed["records"][0]["changes"][0], &listed["records"][0]["is_kept"]), (&change, &true.into()));
    let list = stdout(&undo(&path, &["--list"]));
    assert!(list.contains("was meant to stay") && list.contains("rails-gone0 rx-0: CPU 1, before CPU 0"), "{list}");
    let undone = undo(&path, &["--json"]);
    assert_eq!(undone.status.code(), Some(0), "{}", stderr(&undone));
    let undone = json(&undone);
    assert_eq!((&undone["undone"][0]["outcome"], &undone["undone"][0]["is_final"]), (&"gone".into(), &true.into()));
    assert_eq!(undone["undone"][0]["interface"], "rails-gone0", "{undone}");
    assert!(journal.records().unwrap().is_empty());
}

#[test]
fn journals_that_cannot_be_trusted_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = text(folder.path());
    fs::write(folder.path().join("0000000001.json"), "{}").unwrap();
    refused(["undo", "--journal", path], 1, &["0000000001.json is no record", "remove it"]);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    refused(["undo", "--journal", path], 1, &["error: --journal: ", "others can write to it", "mode 777", "help: "]);
    refused(["undo", "--journal", "/proc/none"], 1, &["error: --journal: ", "/proc/none", "help: "]);
}
