//! `run`: any program beside rails, its exit and its signals, and its place while it runs.

use crate::util::{DEFAULT_SIGNALS, finish, rails_bench, run, signal, start, stderr, stdout, text, wait_for};
use nix::sys::signal::Signal;
use rails_lab::{LinkLab, Sandbox, Shape, Side};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Runs a shell script beside a rail of one core.
fn script<'a>(flags: &[&'a str], script: &'a str) -> Command {
    rails_bench([&["run", "--rails", "loopback:1"], flags, &["--", "sh", "-c", script]].concat())
}

#[test]
fn the_exit_is_the_programs() {
    let output = script(&[], "echo out; exit 7").output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(stdout(&output), "out\n", "stdout is the program's");
    let said = stderr(&output);
    assert!(said.contains("ended with 7") && said.contains("thread affine"), "{said}");
    let output = script(&["-q"], "exit 0").output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    // Processes of the program that go on do not hold `run` up.
    assert_eq!(script(&["-q"], "sleep 600 >&- 2>&- & exit 3").status().unwrap().code(), Some(3));
}

#[test]
fn a_signal_ends_both_by_itself() {
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11), ("INT", 2), ("PIPE", 13)] {
        let output = script(&[], &format!("kill -{name} $$")).output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{name}: {}", stderr(&output));
        assert!(!output.status.core_dumped(), "{name}: the core is the program's");
        assert!(stderr(&output).contains(&format!("was ended by signal {number} ")), "{}", stderr(&output));
    }
}

#[test]
fn signals_go_to_the_program() {
    for what in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM, Signal::SIGUSR1, Signal::SIGUSR2] {
        let name = &what.as_str()["SIG".len()..];
        // At once, when the program has hardly begun: no signal gets lost.
        let told = format!("trap 'echo got it; exit 9' {name}; kill -{name} $PPID; while :; do sleep 0.01; done");
        let output = script(&[], &told).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(9), "got it\n"), "{}", stderr(&output));
    }
    // A program that is not asked is ended as if it had been alone.
    let (child, lines) = start(script(&["-q"], "echo ready >&2; exec sleep 600"));
    wait_for(&lines, "ready");
    signal(child.id(), Signal::SIGTERM);
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.signal(), Some(15));
}

#[test]
fn ignored_signals_stay_ignored_in_the_program() {
    let mut command = Command::new("env");
    command.arg("--ignore-signal=HUP,USR1").arg(assert_cmd::cargo::cargo_bin("rails-bench"));
    command.args(["run", "-q", "--rails", "loopback:1", "--", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]);
    let said = stdout(&command.output().unwrap());
    let mask = |field: &str| {
        let mask = said.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_else(|| panic!("{said}"));
        u64::from_str_radix(mask.trim(), 16).unwrap()
    };
    let bit = |signal: Signal| 1_u64 << (signal as i32 - 1);
    assert_eq!(mask("SigBlk:"), 0, "no signal is blocked in it");
    assert_eq!(mask("SigIgn:") & (bit(Signal::SIGHUP) | bit(Signal::SIGTERM)), bit(Signal::SIGHUP));
}

#[test]
fn exit_codes_of_programs_that_cannot_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "text").unwrap();
    for (program, code, fault) in
        [("/no/such/program", 127, "No such file"), (text(&file), 126, "Permission denied"), ("/", 126, "Permission")]
    {
        let output = run(["run", "--rails", "loopback:1", "--", program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        let said = stderr(&output);
        assert!(said.contains(fault) && said.contains(program) && said.contains("help: "), "{said}");
        assert!(!said.contains("affine"), "nothing ran: {said}");
    }
}

#[test]
fn a_profile_has_the_flags_as_keys_and_flags_win() {
    let folder = tempfile::tempdir().unwrap();
    let [file, json] = ["profile.toml", "out.json"].map(|name| folder.path().join(name));
    let profile = |text: &str| {
        fs::write(&file, text).unwrap();
    };
    profile(&format!("rails = 'loopback:1'\nquiet = true\njson = '{}'", text(&json)));
    let output = run(["run", "--profile", text(&file), "--quiet=false", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("thread affine"), "the flag won: {}", stderr(&output));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&report["command"], &report["ended"]), (&"true".into(), &"ended with 0".into()));
    let cpus: &str = report["cpus"].as_str().unwrap();
    assert!(cpus.parse::<u32>().is_ok(), "one core: {cpus}");

    let witness = folder.path().join("witness");
    for (wrong, fault) in [
        ("rails = 'loopback:1'\nexclusve = true", "unknown field `exclusve`"),
        ("rails = 3", "invalid type"),
        ("rails = ''", "line 1"),
        ("= 3", "line 1"),
    ] {
        profile(wrong);
        let output = run(["run", "--profile", text(&file), "--", "touch", text(&witness)]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--profile") && said.contains(fault) && said.contains("help: "), "{said}");
    }
    let output = run(["run", "--profile", "/no/such/file", "--", "touch", text(&witness)]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(!witness.exists(), "no program was started");
    assert_eq!(run(["run", "--rails", "loopback:1"]).status.code(), Some(2), "a command is required");
}

#[test]
fn place_is_set_before_a_program_and_read_back() {
    let read = "grep -E '^(Cpus|Mems)_allowed_list' /proc/self/status; head -n 1 /proc/self/numa_maps || true";
    let output = rails_bench(["-v", "run", "--rails", "loopback:1", "--", "sh", "-c", read]).output().unwrap();
    let (out, said) = (stdout(&output), stderr(&output));
    let line = said.lines().find(|line| line.starts_with("run: on CPU ")).unwrap_or_else(|| panic!("{said}"));
    let cpu = line["run: on CPU ".len()..].split(',').next().unwrap();
    assert!(out.contains(&format!("Cpus_allowed_list:\t{cpu}\n")), "{out}{said}");
    if let Some((_, policy)) = line.split_once("memory preferred ") {
        let node = policy.split(',').next().unwrap();
        assert!(out.contains(&format!("prefer:{node}")), "{out}{said}");
    } else {
        assert!(line.contains("memory as usual"), "a machine without nodes: {line}");
    }
    // A rail that nothing is bound for binds nothing.
    let output = run(["run", "--rails", "127.0.0.1@default", "--", "grep", "Cpus_allowed_list", "/proc/self/status"]);
    let own = fs::read_to_string("/proc/self/status").unwrap();
    assert!(own.contains(stdout(&output).trim()), "{}", stdout(&output));
}

#[test]
fn a_refused_place_is_said_and_the_program_runs() {
    let sandbox = Sandbox::new().deny(nix::errno::Errno::EPERM, &["sched_setaffinity", "set_mempolicy"]);
    let output = sandbox.output(&script(&[], "echo ran"));
    let said = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "ran\n"), "{said}");
    assert!(said.contains("not held: threads are not bound to their CPUs"), "{said}");
    assert!(said.contains("not held: the memory policy is not set"), "{said}");
    let output = sandbox.output(&script(&["--require-placement"], "echo ran"));
    let said = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{said}");
    assert!(said.contains("--require-placement") && said.contains("sched_setaffinity is refused"), "{said}");
}

#[test]
fn a_thread_that_leaves_is_put_back() {
    // The program goes to every CPU that there is, and waits until it is back.
    let leave = "place() { grep Cpus_allowed_list /proc/$$/status; }; before=$(place)
        taskset -pc 0-1023 $$ >&2; while [ \"$(place)\" != \"$before\" ]; do sleep 0.1; done; echo back";
    let (child, lines) = start(script(&[], leave));
    let (code, out, said) = finish(child, &lines);
    assert_eq!((code, out.as_str()), (0, "back\n"), "{said}");
}

#[test]
fn descendants_are_watched_too() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.json");
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let output = script(&["-q", "--json", text(&json)], &format!("sh -c '{busy}' & sh -c '{busy}'; wait")).output();
    assert_eq!(output.unwrap().status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let time = |of: &str| report["cpu_time"][of].as_f64().unwrap();
    // Their time is counted, whether a look saw it or not.
    assert!(time("in_place_seconds") + time("unseen_seconds") > 0.05, "{report}");
    assert_eq!(time("away_seconds"), 0.0, "{report}");
    assert!(report["max_threads"].as_u64().unwrap() >= 1, "{report}");
}

/// A program that runs at a terminal of its own.
struct Terminal {
    child: Child,
    keys: std::process::ChildStdin,
    screen: BufReader<std::process::ChildStdout>,
    seen: String,
}

impl Terminal {
    fn start(command: &str) -> Self {
        let mut script = Command::new("script");
        script.args(["-qec", command, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // The words of shells are in English, and the command is run by the same shell everywhere.
        script.env("LC_ALL", "C").env("PS1", "$ ").env("SHELL", "/bin/sh");
        let mut child = script.spawn().expect("script(1) is there");
        let keys = child.stdin.take().unwrap();
        let screen = BufReader::new(child.stdout.take().unwrap());
        Self { child, keys, screen, seen: String::new() }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }

    /// Reads the screen until these words come.
    fn wait_for(&mut self, words: &str) {
        while !self.seen.contains(words) {
            let mut line = Vec::new();
            let more = self.screen.read_until(b'\n', &mut line).unwrap();
            assert!(more > 0, "no `{words}` in:\n{}", self.seen);
            self.seen += &String::from_utf8_lossy(&line);
        }
        let end = self.seen.find(words).unwrap() + words.len();
        self.seen.drain(..end);
    }
}

fn quoted(arguments: &str) -> String {
    let program = assert_cmd::cargo::cargo_bin("rails-bench");
    format!("env {DEFAULT_SIGNALS} {} run -q --rails loopback:1 -- {arguments}", text(&program))
}

#[test]
fn ctrl_c_comes_once() {
    // The shell waits for a moment after the first, in which a second one would come.
    let count = "sh -c 'trap \"n=x\\$n\" INT; echo ready; while [ -z \"$n\" ]; do sleep 0.1; done; sleep 0.5; echo had $n.; exit 4'";
    // A shell between the terminal and `run` would be ended by it as well, and tell its own exit code.
    let mut terminal = Terminal::start(&format!("exec {}", quoted(count)));
    terminal.wait_for("ready");
    terminal.press("\x03");
    terminal.wait_for("had x.");
    assert_eq!(terminal.child.wait().unwrap().code(), Some(4));
}

#[test]
fn a_job_stops_and_goes_on() {
    let mut terminal = Terminal::start("bash --norc -i");
    let program = quoted("sh -c 'echo rea\"\"dy; read line; echo di\"\"d $line; exit 5'");
    terminal.press(&format!("{program}\n"));
    terminal.wait_for("ready\r\n");
    terminal.press("\x1a");
    terminal.wait_for("Stopped");
    // The program itself is stopped as well, and has the terminal again afterwards.
    terminal.press("fg\n");
    terminal.wait_for("read line");
    terminal.press("go\n");
    terminal.wait_for("did go\r\n");
    terminal.press("echo co\"\"de $?\n");
    terminal.wait_for("code 5\r\n");
    terminal.press("exit\n");
    terminal.child.wait().unwrap();
}

#[test]
#[ignore = "needs root, `ip` and `tc`"]
fn netns_a_program_follows_its_traffic() {
    let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [facts, json] = ["facts.toml", "out.json"].map(|name| folder.path().join(name));
    let [first, second] = [0, 1].map(|link| lab.interface(Side::A, link).to_owned());
    // Links in software are beside no CPU in particular, so the file says that they are.
    fs::write(&facts, format!("[nic.{first}]\nlocal_cpus = '0'\n[nic.{second}]\nlocal_cpus = '1'\n")).unwrap();
    let listener = {
        let _inside = lab.enter(Side::B).unwrap();
        TcpListener::bind((lab.address(Side::B, 1), 0)).unwrap()
    };
    let port = listener.local_addr().unwrap().port();
    let reader = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        std::io::copy(&mut connection, &mut std::io::sink()).unwrap_or_default()
    });
    // Bytes go through the second link, until the program is beside it.
    let peer = lab.address(Side::B, 1);
    let send = format!(
        "exec 3<>/dev/tcp/{peer}/{port}; grep Cpus_allowed_list /proc/$$/status
        until grep -q 'Cpus_allowed_list:.1$' /proc/$$/status; do head -c 100000 /dev/zero >&3; sleep 0.05; done; echo moved"
    );
    let mut command = lab.side(Side::A).command(assert_cmd::cargo::cargo_bin("rails-bench"));
    command.args(["--no-config", "--config", text(&facts), "run", "--json", text(&json), "--rails", &first]);
    let output = command.args(["--", "bash", "-c", &send]).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(stdout(&output), "Cpus_allowed_list:\t0\nmoved\n", "{said}");
    assert!(reader.join().unwrap() > 100_000);
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!((&report["moves"], &report["cpus"]), (&1.into(), &"1".into()), "{report}");
    assert!(report["nics"][&second]["sent"].as_u64().unwrap() > 100_000, "{report}");
    assert!(report["nics"][&first].is_null() || report["nics"][&first]["sent"] == 0, "{report}");
    assert!(said.contains("it moved once to the NICs of its traffic"), "{said}");
}

#[test]
#[ignore = "needs root, `ip` and `tc`"]
fn netns_traffic_of_one_machine_moves_nothing() {
    let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let facts = folder.path().join("facts.toml");
    let [first, second] = [0, 1].map(|link| lab.interface(Side::A, link).to_owned());
    fs::write(&facts, format!("[nic.{first}]\nlocal_cpus = '0'\n[nic.{second}]\nlocal_cpus = '1'\n")).unwrap();
    let listener = {
        let _inside = lab.enter(Side::A).unwrap();
        TcpListener::bind((lab.address(Side::A, 1), 0)).unwrap()
    };
    let address = listener.local_addr().unwrap();
    let reader = thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut buffer = vec![0; 1 << 16];
        while connection.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    let send = format!(
        "exec 3<>/dev/tcp/{}/{}; for i in 1 2 3 4 5 6; do head -c 1000000 /dev/zero >&3; sleep 1; done
        grep Cpus_allowed_list /proc/$$/status",
        address.ip(),
        address.port()
    );
    let mut command = lab.side(Side::A).command(assert_cmd::cargo::cargo_bin("rails-bench"));
    command.args(["--no-config", "--config", text(&facts), "run", "--rails", &first, "--", "bash", "-c", &send]);
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(stdout(&output), "Cpus_allowed_list:\t0\n", "{said}");
    assert!(said.contains("no traffic of it was seen") || !said.contains(" sent, "), "{said}");
    reader.join().unwrap();
}
