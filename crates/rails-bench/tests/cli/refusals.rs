//! Refusals name the flag and the help.

use crate::util::{Receiver, rails_bench, run, secret, stderr, text};
use nix::errno::Errno;
use rails_lab::Sandbox;
use std::{
    fs,
    io::Write,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    process::{Command, Output},
};

/// The program must end with this code and say all of this.
fn refused<'a>(args: impl IntoIterator<Item = &'a str>, code: i32, said: &[&str]) {
    check(&run(args), code, said);
}

fn check(output: &Output, code: i32, said: &[&str]) {
    let text = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    said.iter().for_each(|said| assert!(text.contains(said), "`{said}` is not in:\n{text}"));
    assert!(output.stdout.is_empty(), "errors go to stderr");
}

#[test]
fn a_wrong_command_line_names_the_flag() {
    refused(["plan"], 2, &["--rails <SPEC>"]);
    refused(["plan", "--rails", "loopback:0"], 2, &["--rails", "from 1 to 64"]);
    refused(["recv", "--into", "x", "--insecure"], 2, &["--listen <ADDR>"]);
    refused(["recv", "--listen", "127.0.0.1:x", "--into", "x", "--insecure"], 2, &["--listen", "`x` is no port"]);
    refused(["send", "--to", "127.0.0.1"], 2, &["<FILE>"]);
    refused(["send", "x", "--to", "127.0.0.1", "--from", "a/b", "--insecure"], 2, &["--from", "neither an address"]);
    refused(["demo", "--size", "1parsec"], 2, &["--size", "no unit"]);
    refused(["demo", "--rails", "65"], 2, &["--rails", "65"]);
    refused(["demo", "--file", "x", "--size", "1MiB"], 2, &["--file", "--size"]);
    refused(["topo", "--topology", "a", "--topology", "b"], 1, &["--topology: a and b are two machines"]);
    refused(["topo", "--json", "--of", "xml"], 2, &["--json", "--of"]);
    refused(["topo", "--json", "capture", "x"], 2, &["--json", "capture"]);
    refused(["plan", "--rails", "auto", "--peer", "127.0.0.1", "--topology", "a"], 2, &["--peer", "--topology"]);
    refused(["topo", "--json", "--svg", "-"], 2, &["--json", "--svg"]);
    refused(["topo", "--rails", "auto"], 2, &["--svg"]);
}

#[test]
fn a_rate_of_lanes_that_have_none() {
    let commands: [&[&str]; 5] = [
        &["send", "/etc/hostname", "--to", "127.0.0.1,tcp://127.0.0.2"],
        &["stream", "--to", "127.0.0.1"],
        &["probe", "--to", "127.0.0.1", "--max-rate", "1gbit"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["recv", "--listen", "127.0.0.1:0", "--into", "/nonexistent/x"],
    ];
    for command in commands {
        for rate in ["10mbit", "127.0.0.1=10mbit"] {
            let args = command.iter().copied().chain(["--insecure", "--rate", rate]);
            refused(args, 2, &["no lane is of Celeritas, and TCP has no rate to set", "help: use `send --bwlimit`"]);
        }
    }
    let mixed = ["send", "/etc/hostname", "--to", "127.0.0.1,celeritas://127.0.0.2", "--insecure"];
    let of_tcp = mixed.into_iter().chain(["--rate", "127.0.0.2=1mbit,127.0.0.1=10mbit"]);
    refused(of_tcp, 2, &["--rate 127.0.0.1=10 Mbit/s: no lane is of Celeritas"]);
}

#[test]
fn machines_that_cannot_be_read_name_the_flag() {
    refused(
        ["topo", "--topology", "/no/such"],
        1,
        &["error: --topology /no/such: cannot read `/no/such`: No such file"],
    );
    refused(["plan", "--rails", "auto", "--topology", "/sys"], 1, &["error: --topology /sys", "is not the root"]);
    let folder = tempfile::tempdir().unwrap();
    let file = |bytes: &[u8]| {
        let path = folder.path().join("machine");
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    refused(["topo", "--topology", &file(b"\0")], 1, &["error: --topology ", "is no saved machine"]);
    refused(["topo", "--topology", &file(b"{\n}")], 1, &["is no model of a machine: missing field", "line 2"]);
    refused(
        ["topo", "--topology", &file(b"\x1f\x8b!")],
        1,
        &["cannot be replayed: it is no .tar.gz, or a damaged one"],
    );
    // TOML as far as it may be read, and nothing after that.
    let long = [&[b'\n'; 256 << 10][..], b"\0"].concat();
    refused(["topo", "--topology", &file(&long)], 1, &["error: --topology", "machine`", "longer than"]);
    refused(["topo", "--topology", "/dev/zero"], 1, &["error: --topology /dev/zero: `/dev/zero` is no saved machine"]);
    refused(["topo", "capture", "/no/such/file"], 1, &["error: FILE: cannot write `/no/such/file`"]);
    refused(["topo", "capture", "x", "--folder", "/no/such"], 1, &["error: --folder /no/such"]);
    refused(["topo", "--svg", "/no/such/folder.svg"], 1, &["error: --svg: cannot write /no/such/folder.svg"]);
    refused(["plan", "--rails", "nosuch0"], 1, &["error: --rails: ", "`nosuch0`", "there are: "]);
}

#[test]
fn a_missing_secret_says_how_to_make_one() {
    for command in [&["recv", "--listen", "127.0.0.1:0", "--into", "x"][..], &["send", "x", "--to", "127.0.0.1"]] {
        let said = ["--secret-file", "RAILS_SECRET", "--insecure", "help: ", "head -c 32 /dev/urandom | base64"];
        refused(command.iter().copied(), 2, &said);
    }
}

#[test]
fn there_is_one_answer_to_who_may_join() {
    let send = ["send", "x", "--to", "127.0.0.1:1"];
    refused(send.into_iter().chain(["--insecure", "--secret-file", "x"]), 2, &["--insecure", "--secret-file"]);
    // A flag goes before the variable, as all flags do: the file is missing, and nobody listens.
    let both = rails_bench(send.into_iter().chain(["--insecure"])).env("RAILS_SECRET", "short").output();
    check(&both.unwrap(), 1, &["warning: --insecure", "nothing was sent"]);
}

#[test]
fn a_secret_that_is_none_is_refused_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let short = secret(folder.path(), "tooshort");
    let send = ["send", "x", "--to", "127.0.0.1:1", "--secret-file"];
    let output = run(send.into_iter().chain([short.to_str().unwrap()]));
    check(&output, 2, &["--secret-file", "at least 16 bytes, this one has 8", "urandom"]);
    assert!(!stderr(&output).contains("tooshort"));
    let output = rails_bench(send[..4].iter().copied()).env("RAILS_SECRET", "brief").output().unwrap();
    check(&output, 2, &["RAILS_SECRET: ", "this one has 5"]);
    assert!(!stderr(&output).contains("brief"));
    refused(
        send.into_iter().chain(["/no/such"]),
        1,
        &["error: --secret-file /no/such: No such file", "help: ", "urandom"],
    );
    refused(send.into_iter().chain(["/dev/zero"]), 1, &["longer than"]);
    let output = run(send.into_iter().chain(["/dev/null"]));
    check(&output, 2, &["error: --secret-file /dev/null: ", "at least 16 bytes, this one has 0"]);
    assert!(!stderr(&output).contains("chmod"), "{}", stderr(&output));
}

#[test]
fn a_secret_that_others_can_read_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let open = secret(folder.path(), "0123456789abcdef");
    let send = ["send", "/no/such", "--to", "127.0.0.1:1", "--secret-file", open.to_str().unwrap()];
    assert!(!stderr(&run(send)).contains("warning"));
    fs::set_permissions(&open, fs::Permissions::from_mode(0o644)).unwrap();
    refused(send, 1, &["warning: ", "mode 644", "chmod 600"]);
}

#[test]
fn a_receiver_that_cannot_listen_names_the_flag() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().to_str().unwrap();
    let recv = |listen: &str| run(["recv", "--listen", listen, "--into", into, "--insecure"]);
    check(&recv(&address), 1, &[&format!("error: --listen {address}: "), "help: ", "in use"]);
    // An address for documentation (RFC 5737), which no interface has.
    check(&recv("203.0.113.77"), 1, &["error: --listen: ", "203.0.113.77"]);
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let file = file.to_str().unwrap();
    let recv = ["recv", "--listen", "127.0.0.1:0", "--insecure", "--into"];
    refused(recv.into_iter().chain([file]), 1, &[&format!("error: --into {file}: ")]);
}

#[test]
fn addresses_of_unknown_transports() {
    let help = "help: lanes go over TCP (tcp://HOST:PORT";
    for to in [&["--to", "udp://127.0.0.1:1"][..], &["--to", "udp://127.0.0.1:1,udp://127.0.0.1:2"]] {
        let args = ["stream", "--insecure", "--seconds", "1"].iter().chain(to).copied();
        refused(args, 1, &["--to udp://127.0.0.1:1", "no transport carries lanes to udp:// addresses here", help]);
    }
    refused(["serve", "--insecure", "--listen", "udp://127.0.0.1"], 1, &["--listen udp://127.0.0.1:7575", "udp://"]);
    refused(["stream", "--insecure", "--plain", "--to", "udp://127.0.0.1"], 1, &["plain flows go over TCP alone"]);
    refused(["serve", "--insecure", "--listen", "Tcp://127.0.0.1"], 2, &["`Tcp` is no transport"]);
}

#[test]
fn sender_without_a_peer_names_the_flag() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let send = |more: &[&'static str], to: &str| {
        run(["send", "Cargo.toml", "--insecure", "--to", to].into_iter().chain(more.iter().copied()))
    };
    check(&send(&[], &free), 1, &[&format!("error: --to {free}: "), "help: start `rails-bench recv`", "anyone who"]);
    refused(
        ["send", "/no/such", "--insecure", "--to", &free],
        1,
        &["error: nothing was sent: cannot read the source /no/such: "],
    );
    let twice = ["send", "Cargo.toml", "./Cargo.toml", "--insecure", "--to", &free];
    refused(twice, 1, &["Cargo.toml and ./Cargo.toml would both arrive as Cargo.toml"]);
    check(&send(&[], "255.255.255.255"), 1, &["error: --to", "255.255.255.255:7575", "no route", "ip route get"]);
    check(&send(&["--from", "nosuch0"], &free), 1, &["error: --from: ", "`nosuch0`"]);
    check(&send(&["--congestion", "nosuch"], &free), 1, &["error: --congestion nosuch: ", "help: this kernel has"]);
    check(&send(&[], "no-such-host.invalid"), 1, &["error: --to no-such-host.invalid:7575: ", "getent ahosts"]);
    for size in ["50", "40000", "1GiB"] {
        check(&send(&["--mss", size], &free), 2, &["--mss", "a segment has 88 to 32767 bytes"]);
    }
    check(&send(&["--mss", "1200 parsec"], &free), 2, &["--mss", "`parsec` is no unit of size"]);
}

#[test]
fn listener_names_a_remedy_of_its_failure_alone() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let serve = |address| ["serve", "--insecure", "--listen", address];
    refused(serve(&address), 1, &["--listen 127.0.0.1:", "already in use", "help: `ss -ltn`"]);
    refused(serve("203.0.113.1:0"), 1, &["--listen: no interface has the address 203.0.113.1; there are: "]);
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["listen"]);
    let filtered = sandbox.output(&rails_bench(serve("127.0.0.1:0")));
    check(&filtered, 1, &["listen failed on 127.0.0.1:0", "not permitted"]);
    assert!(!stderr(&filtered).contains("help: "), "{}", stderr(&filtered));
}

#[test]
fn demo_without_a_temporary_folder_names_tmpdir() {
    let output = rails_bench(["demo"]).env("TMPDIR", "/no/such").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("help: let TMPDIR name a folder"), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root: it makes network namespaces"]
fn netns_loopback_that_is_down_is_named() {
    for args in [&["demo", "--size", "1KiB"][..], &["tasks", "--tasks", "100", "--seconds", "0.01"]] {
        let program = rails_bench(args.iter().copied());
        let mut alone = Command::new("unshare");
        alone.arg("--net").arg(program.get_program()).args(program.get_args());
        let output = alone.output().expect("unshare can be started");
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("take `ip link set lo up`"), "{}", stderr(&output));
    }
}

#[test]
#[ignore = "needs root: it makes a network namespace"]
fn netns_range_of_ports_that_is_used_up_is_named() {
    let script = "ip link set lo up && sysctl -qw net.ipv4.ip_local_port_range='40000 40003' \
                  net.ipv4.ip_local_reserved_ports=40000-40003 && exec \"$@\"";
    for args in [&["demo", "--size", "1KiB"][..], &["serve", "--insecure", "--listen", "127.0.0.1:0"]] {
        let program = rails_bench(args.iter().copied());
        let mut alone = Command::new("unshare");
        alone.args(["--net", "sh", "-c", script, "sh"]).arg(program.get_program()).args(program.get_args());
        let output = alone.output().expect("unshare can be started");
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for part in ["127.0.0.1:0", "Address already in use", "help: ", "`sysctl net.ipv4.ip_local_port_range`"] {
            assert!(said.contains(part), "`{part}` is not in:\n{said}");
        }
    }
}

#[test]
fn directions_that_do_not_go_together() {
    refused(["stream", "--to", "127.0.0.1", "--reverse", "--plain"], 2, &["--reverse", "--plain"]);
    refused(["stream", "--to", "127.0.0.1", "--reverse", "--both"], 2, &["--reverse", "--both"]);
    refused(["stream", "--to", "127.0.0.1", "--interval", "0.01"], 2, &["--interval", "it is at least 0.1"]);
}

/// A service at which each connection is answered so; gives its address.
fn service(answer: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || listener.incoming().flatten().for_each(answer));
    address
}

#[test]
fn services_of_others_are_quoted() {
    let greeted = service(|mut caller| {
        caller.write_all(b"SSH-2.0-OpenSSH_9.2\x1b[2J\r\n").unwrap();
        // The caller hangs up first.
        std::mem::forget(caller);
    });
    let closed = service(drop);
    for (to, said, help) in [
        (
            &greeted,
            r#"does not speak the rails protocol: it said "SSH-2.0-OpenSSH_9.2\x1b[2J\r\n""#,
            "help: something else",
        ),
        (&closed, "the connection failed during the handshake", "help: the peer takes connections and closes them"),
    ] {
        for command in [&["stream", "--seconds", "1"][..], &["send", "Cargo.toml"], &["probe", "--max-rate", "1mbit"]] {
            let output = run(command.iter().copied().chain(["--insecure", "--to", to]));
            check(&output, 1, &[said, help]);
            // The warning of --insecure, the error, the lane's cause, and the help.
            assert_eq!(stderr(&output).lines().count(), 4, "{}", stderr(&output));
        }
    }
}

#[test]
fn lines_of_the_log_have_time_and_color() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, secret) = (folder.path().join("inbox"), secret(folder.path(), "a secret of the tests"));
    for (flags, is_colored) in [(vec!["--color", "always"], true), (vec!["--color=never"], false), (vec![], false)] {
        let receiver = Receiver::start(&inbox, ["--secret-file", text(&secret)].into_iter().chain(flags));
        let wrong = run(["send", "Cargo.toml", "--to", &receiver.addresses, "--insecure"]);
        assert_eq!(wrong.status.code(), Some(1));
        let line = std::iter::repeat_with(|| receiver.wait_for("")).find(|line| line.contains("a lane was refused"));
        let line = line.unwrap();
        assert_eq!(line.contains("\x1b["), is_colored, "{line}");
        // Such as 2026-01-02T03:04:05.678Z.
        let time = line.trim_start_matches("\x1b[2m").split_at(24).0;
        assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{line}");
    }
}
