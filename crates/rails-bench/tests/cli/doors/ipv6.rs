//! Destinations of IPv6, through the doors of programs that know none.

use super::{Gates, Running, ended, redirect::Cgroup};
use crate::util::text;
use rails_lab::{LinkLab, Shape, Side};
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Command,
    thread,
};

/// The service's address, and the program's beside it.
const SERVICE: &str = "fd00:77::2";
const PROGRAM: &str = "fd00:77::1";

/// Says whom it is connected to, and the word that it hears.
const HEAR: &str = "
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 60)
print(s.getpeername()[0], s.recv(4).decode())
";

/// Two hosts with addresses of IPv6 as well.
fn lab() -> LinkLab {
    let lab = LinkLab::builder().links([Shape::Unshaped, Shape::Unshaped]).build().unwrap();
    for (side, address) in [(Side::A, PROGRAM), (Side::B, SERVICE)] {
        let lines = format!(
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0
            ip address add {address}/64 dev {} nodad",
            lab.interface(side, 0)
        );
        let output = lab.side(side).command("sh").args(["-ec", &lines]).output().unwrap();
        assert_eq!(ended(&output).0, Some(0), "{output:?}");
    }
    lab
}

#[test]
#[ignore = "needs root, `ip`, `tc` and cgroup2"]
fn netns_gated_programs_with_ipv6() {
    let lab = lab();
    let listen = format!("'{}:7600', '{}:7600'", lab.address(Side::B, 0), lab.address(Side::B, 1));
    let program = assert_cmd::cargo::cargo_bin("rails-bench");
    let gates = Gates::with(&listen, &format!("'{SERVICE}'"), &format!("'[{SERVICE}]:*'"), |side| {
        lab.side(side).command(&program)
    });
    let listener = {
        let _inside = lab.enter(Side::B).unwrap();
        TcpListener::bind((SERVICE, 0)).unwrap()
    };
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || stream.write_all(b"word").and_then(|()| stream.read_to_end(&mut Vec::new())));
        }
    });
    let hear = ["-c", HEAR, SERVICE, &port];
    let carried = || -> u64 {
        let status = gates.status();
        let opened = status["connections"].as_array().unwrap().iter().map(|counts| counts["opened"].as_u64().unwrap());
        opened.sum()
    };
    let heard = |command: &mut Command, word: &str| {
        let (code, out, said) = ended(&command.output().unwrap());
        assert_eq!((code, out.as_str()), (Some(0), word), "{said}");
        carried()
    };

    let mut striped = lab.side(Side::A).command(&program);
    striped.args(["run", "-q", "--stripe", "--rails", "loopback:1", "--gate", text(&gates.socket())]);
    striped.args(["--gate-within", "20s", "--", "python3"]).args(hear);
    assert_eq!(heard(&mut striped, "::1 word\n"), 1);

    // `ip netns exec` hides the cgroups.
    let _inside = lab.enter(Side::A).unwrap();
    let cgroup = Cgroup::new("ipv6");
    let mut python = cgroup.command("python3");
    python.args(hear);
    let word = format!("{SERVICE} word\n");
    assert_eq!(heard(&mut python, &word), 1, "it is plain before");
    let redirect = Running::start(gates.door(["redirect", "--cgroup", text(&cgroup.0)]));
    redirect.wait_for("redirecting the connections of ");
    assert_eq!(heard(&mut python, &word), 2);
}
