//! Programs of others, unchanged.

use crate::support::{NOWHERE, end, inside, serve, start};
use socket2::SockRef;
use std::{
    env,
    io::{Read, Write},
    net::Shutdown,
    process::{Command, Stdio},
};

/// Answers each connection as a web server that names its destination.
fn fetched(mut command: Command) -> (String, u64) {
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    let (child, notifier) = start(command);
    let counters = serve(notifier, |attempt| {
        let body = format!("diverted from {}\n", attempt.destination());
        let mut stream = attempt.divert().expect("the program waits");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte).expect("it is connected") == 0 {
                return;
            }
            request.extend(byte);
        }
        let length = body.len();
        write!(stream, "HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").expect("it is connected");
        let _ = stream.shutdown(Shutdown::Write);
        SockRef::from(&stream).set_linger(None).expect("an option");
    });
    let output = child.wait_with_output().expect("it is a child");
    assert!(output.status.success(), "{output:?}");
    (String::from_utf8(output.stdout).expect("text"), counters.diverted())
}

#[test]
#[ignore = "needs root: it becomes another user; and curl and python3"]
fn netns_unchanged_programs_are_diverted() {
    inside("tools::netns_unchanged_programs_are_diverted", || {
        let expected = format!("diverted from {NOWHERE}\n");
        let url = format!("http://{NOWHERE}/");
        let mut curl = tool("curl");
        curl.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*", &url]);
        assert_eq!(fetched(curl), (expected.clone(), 1));
        let mut python = tool("python3");
        let script =
            format!("import urllib.request as u; print(u.urlopen('{url}', timeout=60).read().decode(), end='')");
        python.args(["-c", &script]);
        assert_eq!(fetched(python), (expected.clone(), 1));
        // Event loops do not block.
        let mut python = tool("python3");
        python.args(["-c", ASYNC, "192.0.2.1", "4242"]);
        assert_eq!(fetched(python), (expected.repeat(50), 50));
    });
}

#[test]
#[ignore = "needs root: it becomes another user; and python3"]
fn netns_addresses_that_cannot_be_read_pass() {
    inside("tools::netns_addresses_that_cannot_be_read_pass", || {
        let mut python = tool("python3");
        python.args(["-c", BAD_ADDRESSES]);
        let (mut child, notifier) = start(python);
        let counters = serve(notifier, |attempt| attempt.go_plain());
        assert!(end(&mut child).success());
        assert_eq!(counters.passed(rails_divert::notify::Passed::BadAddress), 4, "{counters:?}");
    });
}

/// A program of this machine.
fn tool(name: &str) -> Command {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|folder| folder.join(name).is_file());
    assert!(found, "this test needs the program {name}: install it");
    Command::new(name)
}

const ASYNC: &str = "
import asyncio, sys
async def one():
    r, w = await asyncio.open_connection(sys.argv[1], int(sys.argv[2]))
    w.write(b'GET / HTTP/1.0\\r\\n\\r\\n')
    text = await r.read()
    w.close()
    return text.split(b'\\r\\n\\r\\n')[1].decode()
async def all():
    print(''.join(await asyncio.gather(*[one() for _ in range(50)])), end='')
asyncio.run(all())
";

const BAD_ADDRESSES: &str = "
import ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
def connect(address, length):
    s = socket.socket()
    assert libc.connect(s.fileno(), address, length) == -1
    return ctypes.get_errno()
good = ctypes.create_string_buffer(b'\\x02\\x00\\x10\\x92\\xc0\\x00\\x02\\x01', 256)
assert connect(ctypes.c_void_p(8), 16) == errno.EFAULT
assert connect(good, 15) == errno.EINVAL
assert connect(good, 129) == errno.EINVAL
assert connect(good, -1) == errno.EINVAL
";
