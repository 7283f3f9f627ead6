//! Runs the program, and makes files for it.

use assert_cmd::cargo::cargo_bin;
use rails_formats::{
    data_type::DataType,
    manifest::{AttributeValue, Attributes},
    netcdf3::Writer,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A folder with the dataset `wind`: an array `u` of time, level and longitude, whose elements are
/// `time * 10000 + level * 1000 + longitude`, with its coordinates.
pub(crate) struct Data {
    folder: TempDir,
}

pub(crate) const SHAPE: [u64; 3] = [40, 3, 500];

pub(crate) fn element(time: u64, level: u64, longitude: u64) -> f32 {
    (time * 10_000 + level * 1000 + longitude) as f32
}

impl Data {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        fs::write(folder.path().join("wind.nc"), wind()).expect("it can be written");
        Self { folder }
    }

    /// A folder with the dataset `noise`: 16 MiB of bytes that no encoding makes fewer.
    pub(crate) fn with_noise() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let mut writer = Writer::new(Attributes::new());
        let axes = ["row", "column"].map(|name| writer.dimension(name, 4096).unwrap());
        writer.variable("noise", DataType::Uint8, &axes, Attributes::new()).unwrap();
        let file = [writer.header().unwrap(), Self::noise()].concat();
        fs::write(folder.path().join("noise.nc"), file).expect("it can be written");
        Self { folder }
    }

    /// The elements of the dataset `noise`.
    pub(crate) fn noise() -> Vec<u8> {
        // Xorshift, of 64 bits (Marsaglia 2003).
        let mut state = 7_u64;
        let mut bytes = Vec::with_capacity(16 << 20);
        while bytes.len() < 16 << 20 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend(state.to_le_bytes());
        }
        bytes
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("it is text").to_owned()
    }

    /// The names of the files, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = self.folder.path().read_dir().expect("it is there");
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().expect("it is text")).collect();
        names.sort();
        names
    }
}

/// A file of NetCDF-3.
fn wind() -> Vec<u8> {
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let mut writer = Writer::new(Attributes::from([("title".to_owned(), text("a \"wind\""))]));
    let names = ["time", "level", "longitude"];
    let numbers: Vec<usize> =
        names.iter().zip(SHAPE).map(|(name, length)| writer.dimension(name, length).unwrap()).collect();
    let units = Attributes::from([("units".to_owned(), text("hours since 1979-01-01"))]);
    let time = writer.variable("time", DataType::Float64, &numbers[..1], units).unwrap();
    let level = writer.variable("level", DataType::Int16, &numbers[1..2], Attributes::new()).unwrap();
    let units = Attributes::from([("units".to_owned(), text("m/s"))]);
    let wind = writer.variable("u", DataType::Float32, &numbers, units).unwrap();
    let mut bytes = writer.header().unwrap();
    bytes.extend((0..SHAPE[0]).flat_map(|time| (time as f64 * 6.0).to_be_bytes()));
    bytes.resize(bytes.len() + writer.padding(time), 0);
    bytes.extend([850_i16, 500, 200].iter().flat_map(|level| level.to_be_bytes()));
    bytes.resize(bytes.len() + writer.padding(level), 0);
    for time in 0..SHAPE[0] {
        for level in 0..SHAPE[1] {
            bytes.extend((0..SHAPE[2]).flat_map(|longitude| element(time, level, longitude).to_be_bytes()));
        }
    }
    bytes.resize(bytes.len() + writer.padding(wind), 0);
    bytes
}

/// A command with a clean environment as far as the program looks at it.
pub(crate) fn lram<'a>(args: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(cargo_bin("lram"));
    command.args(args).env_remove("RAILS_SECRET").stdin(Stdio::null());
    command
}

/// Runs the program to its end.
pub(crate) fn run<'a>(args: impl IntoIterator<Item = &'a str>) -> Output {
    lram(args).output().expect("it can be started")
}

/// Runs the program to its end, and returns its stdout.
pub(crate) fn done<'a>(args: impl IntoIterator<Item = &'a str>) -> String {
    let output = run(args);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).expect("it is text")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it is text")
}

/// A node that serves, which ends with the test.
pub(crate) struct Node {
    child: Child,
    /// Its address, without a dataset.
    pub(crate) address: String,
    lines: BufReader<std::process::ChildStderr>,
}

impl Node {
    /// Serves data on a port that the kernel chooses, and waits until links are taken.
    pub(crate) fn start(data: &str, more: &[&str]) -> Self {
        Self::start_at(data, "127.0.0.1:0", more)
    }

    /// Serves data at an address of this machine, and waits until links are taken.
    pub(crate) fn start_at(data: &str, listen: &str, more: &[&str]) -> Self {
        Self::start_by(|command| command, data, listen, more)
    }

    /// Serves data at an address by a changed command, and waits until links are taken.
    pub(crate) fn start_by(change: impl FnOnce(Command) -> Command, data: &str, listen: &str, more: &[&str]) -> Self {
        let ready = tempfile::NamedTempFile::new().expect("a file can be made");
        let path = ready.path().to_str().expect("it is text");
        let mut command = lram(["serve", data, "--listen", listen, "--ready-file", path]);
        command.args(["--memory", "16MiB"]).args(more);
        let mut child =
            change(command).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it can be started");
        let lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let until = Instant::now() + Duration::from_secs(60);
        let address = loop {
            let written = fs::read_to_string(path).unwrap_or_default();
            if let Some(address) = written.lines().next().filter(|_| written.ends_with('\n')) {
                break address.to_owned();
            }
            assert!(child.try_wait().expect("it can be asked").is_none(), "it has ended");
            assert!(Instant::now() < until, "it does not serve");
            sleep(Duration::from_millis(10));
        };
        Self { child, address, lines }
    }

    /// The address of a dataset.
    pub(crate) fn dataset(&self, name: &str) -> String {
        format!("{}/{name}", self.address)
    }

    /// The process.
    pub(crate) fn pid(&self) -> u32 {
        // The child is `env` before it becomes the program, with the same number.
        self.child.id()
    }

    /// The number of descriptors that the process has open.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// The figures that the node tells of itself.
    pub(crate) fn status(&self) -> serde_json::Value {
        let told: serde_json::Value = serde_json::from_str(&done(["status", &self.address, "--json"])).unwrap();
        told[0]["status"].clone()
    }

    /// Ends it by a signal; its exit code, its stdout and the rest of its stderr.
    pub(crate) fn end(mut self, signal: nix::sys::signal::Signal) -> (Option<i32>, String, String) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid() as i32), signal).expect("it runs");
        let status = self.child.wait().expect("it can be waited for");
        let stdout = std::io::read_to_string(self.child.stdout.take().expect("it is piped")).expect("it is text");
        let stderr = self.lines.by_ref().lines().map(|line| line.expect("it is text") + "\n").collect();
        (status.code(), stdout, stderr)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // One that was waited for is not there to be ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
