//! Errors: each has words, an exit code, and leaves nothing behind.

use crate::util::{Data, Node, lram, run, stderr};
use nix::{
    errno::Errno,
    fcntl::OFlag,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rails_formats::{data_type::DataType, manifest::Attributes, netcdf3::Writer};
use rails_lab::Sandbox;
use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::ExitStatusExt},
    thread::sleep,
    time::Duration,
};

/// Runs `get` into a new file, which has to fail with that code and words in the message.
fn refused(data: &Data, address: &str, selection: &str, code: i32, words: &str) {
    let before = data.names();
    let few = ["--patience", "1s", "--memory", "8MiB"];
    let output = run(["get", address, "--box", selection, "-o", &data.text("new.nc")].into_iter().chain(few));
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(words), "`{words}` is not in: {stderr}");
    assert!(stderr.starts_with("error: "), "{stderr}");
    assert!(output.stdout.is_empty());
    assert_eq!(data.names(), before, "{selection}");
}

#[test]
fn boxes_that_select_nothing() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    let address = node.dataset("wind");
    // Those that no array has are a wrong command line.
    for (selection, code, words) in [
        ("u[0:41]", 1, "lies outside axis 0, which has 40 coordinates"),
        ("u[..., 500]", 1, "lies outside axis 2"),
        ("u[1, 1, 1, 1]", 1, "has entries for 4 axes"),
        ("u[7:7]", 1, "has no element"),
        ("u[9:3]", 1, "begins at 9 and ends before, at 3"),
        ("u[::-1]", 2, "the step `-1` has to be 1 or more"),
        ("u[::0]", 2, "the step `0` has to be 1 or more"),
        ("u", 2, "does not end with `[...]`"),
        ("v[...]", 1, "has no array `v`; it has time, level, u"),
        ("[...]", 2, "names no array"),
    ] {
        refused(&data, &address, selection, code, words);
    }
}

#[test]
fn an_unknown_congestion_control() {
    let data = Data::new();
    let wind = data.text("wind.nc");
    let output = run(["serve", &wind, "--listen", "127.0.0.1:0", "--congestion", "swift"]);
    let stderr = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("TCP_CONGESTION = `swift`") && stderr.contains("sysctl net.ipv4"), "{stderr}");
}

#[test]
fn places_without_data() {
    let data = Data::new();
    let node = Node::start(&data.text("wind.nc"), &[]);
    refused(&data, &node.dataset("storm"), "u[0]", 1, "there is no such dataset");
    refused(&data, "lram://127.0.0.1:9/wind", "u[0]", 1, "see that `lram serve` runs there");
    refused(&data, "http://127.0.0.1/wind", "u[0]", 2, "is no address of a site");
    refused(&data, &data.text("nothing.nc"), "u[0]", 1, "No such file or directory");
    refused(&data, "127.0.0.1:9/wind", "u[0]", 1, "the address of a node is lram://127.0.0.1:9/wind");
    fs::write(data.path("broken.nc"), b"CDF\x01 and no more").unwrap();
    refused(&data, &data.text("broken.nc"), "u[0]", 1, "broken.nc");
    fs::write(data.path("unknown"), b"something else").unwrap();
    refused(&data, &data.text("unknown"), "u[0]", 1, "the format of");
}

#[test]
fn a_file_that_is_there_stays() {
    let data = Data::new();
    let target = data.text("old.nc");
    fs::write(&target, "of value").unwrap();
    let get = |more: &[&str]| {
        let wind = data.text("wind.nc");
        run(["get", &wind, "--box", "u[0]", "-o", &target].into_iter().chain(more.iter().copied()))
    };
    let output = get(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("the file is there already\nhelp: --force replaces it"), "{}", stderr(&output));
    assert_eq!(fs::read(&target).unwrap(), b"of value");
    assert!(get(&["--force"]).status.success());
    assert!(fs::read(&target).unwrap().starts_with(b"CDF"));
    assert_eq!(data.names(), ["old.nc", "wind.nc"]);
}

#[test]
fn command_lines_that_say_too_little() {
    let data = Data::new();
    let wind = data.text("wind.nc");
    for (args, words) in [
        (&["get", &wind[..], "--box", "u[0]", "-o", "u.txt"][..], "the name does not say the format"),
        (&["get", &wind, "-o", "u.nc", "--box", "u[0]", "--memory", "1MiB"], "has from 4 MiB to "),
        (&["get", &wind, "-o", "u.nc"], "--box is missing: the dataset has 3 arrays"),
        (&["status", &wind], "no node is there to be asked"),
        (&["warm", &wind], "have no node"),
        (&["serve", "lram://127.0.0.1:9", &wind], "an address of another node is served alone"),
        (&["serve", &wind, "--listen", "::1"], "an IPv6 address stands in brackets"),
        (&["serve", &wind, "--no-encryption"], "--no-encryption goes with a secret"),
        (&["serve", &wind, "--budget", "a:wind,min=2GiB,least=1"], "`least=1` is none of min=SIZE"),
        (&["serve", &wind, "--budget", "a,weight=none"], "`weight=none`: a weight is a number"),
        (&["serve", &wind, "--budget", "a,max=1KiB"], "the budget `a:*,max=1 KiB` allows 0 B"),
        (&["serve", &wind, "--budget", "a,min=1GiB"], "1 GiB: of the memory of 256 MiB, 0 B are guaranteed by rules"),
        (&["serve", "lram://127.0.0.1:9", "--budget", "a,min=1GiB"], "give more by --memory, or guarantee less"),
    ] {
        let output = run(args.iter().copied());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    }
    let open = run(["serve", &wind, "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(1));
    assert!(stderr(&open).contains("help: give --secret-file PATH at both ends"), "{}", stderr(&open));
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_threads_that_cannot_be_had_are_errors() {
    let data = Data::new();
    fs::set_permissions(data.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    let (wind, target) = (data.text("wind.nc"), data.text("part.raw"));
    let get = ["get", &wind, "--box", "u[0]", "-o", &target, "--force"];
    let codes = [1, 2, 3, 64].map(|threads| {
        let output = Sandbox::new().user(UNUSED).max_processes(threads).output(&lram(get));
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{threads} threads: {said}");
        let is_named = said.contains("RLIMIT_NPROC allows the user") && said.contains("`ulimit -u`");
        assert!(output.status.success() || is_named, "{threads} threads: {said}");
        output.status.code()
    });
    assert_eq!((codes[0], codes[3]), (Some(1), Some(0)), "{codes:?}");
}

/// As in a container of Docker, whose filter lets nobody choose the nodes of memory.
#[test]
fn memory_whose_nodes_nobody_may_choose() {
    let data = Data::new();
    let (wind, target) = (data.text("wind.nc"), data.text("part.raw"));
    let policies = ["get_mempolicy", "set_mempolicy", "mbind", "move_pages"];
    for errno in [Errno::EPERM, Errno::ENOSYS] {
        for calls in [&policies[..], &["madvise"]] {
            let get = lram(["get", &wind, "--box", "u[0]", "-o", &target, "--force"]);
            let output = Sandbox::new().deny(errno, calls).output(&get);
            assert!(output.status.success() && output.stderr.is_empty(), "{calls:?}: {}", stderr(&output));
        }
    }
}

/// As on Lustre without `-o flock`, and on other network file systems.
#[test]
fn a_lame_file_system_keeps_no_part() {
    let data = Data::new();
    let unnamed = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_TMPFILE;
    let sandbox = Sandbox::new().deny_where(Errno::EOPNOTSUPP, "openat", 2, unnamed.bits());
    let get = lram(["get", &data.text("wind.nc"), "--box", "u[0]", "-o", &data.text("part.raw")]);
    let output = sandbox.deny(Errno::EOPNOTSUPP, &["flock"]).output(&get);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(data.names(), ["part.raw", "wind.nc"]);
}

/// A user whom no system has.
const UNUSED: u32 = 3_650_000_054;

#[test]
fn a_signal_leaves_no_part_of_a_file() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGKILL, 9)] {
        leaves_no_part(signal, code);
    }
}

/// Ends a read by a signal in its middle, and asserts its exit code, or the signal's number.
fn leaves_no_part(signal: Signal, code: i32) {
    let data = Data::new();
    // A file of 4 GiB with a hole in place of its elements, so that its copy takes long.
    let mut writer = Writer::new(Attributes::new());
    let axes = ["row", "column"].map(|name| writer.dimension(name, 1 << 16).unwrap());
    writer.variable("hole", DataType::Int8, &axes, Attributes::new()).unwrap();
    fs::write(data.path("hole.nc"), writer.header().unwrap()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(data.path("hole.nc")).unwrap();
    file.set_len((1 << 32) + 4096).unwrap();
    let before = data.names();
    let mut get = lram(["get", &data.text("hole.nc"), "-o", &data.text("copy.raw")]).spawn().unwrap();
    // The file of the result has no name, but for what the kernel calls it.
    let (of_result, descriptors) = (data.text("#"), format!("/proc/{}/fd", get.id()));
    let has_begun = || {
        let open = fs::read_dir(&descriptors).expect("it runs").flatten();
        let mut names = open.filter_map(|descriptor| fs::read_link(descriptor.path()).ok());
        names.any(|name| name.to_string_lossy().starts_with(&of_result) || data.names() != before)
    };
    while !has_begun() {
        assert!(get.try_wait().unwrap().is_none(), "it has ended");
        sleep(Duration::from_millis(1));
    }
    kill(Pid::from_raw(get.id() as i32), signal).unwrap();
    let ended = get.wait().unwrap();
    assert_eq!(ended.code().or(ended.signal()), Some(code));
    assert_eq!(data.names(), before);
}
