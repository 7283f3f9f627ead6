//! Traces on the command line: files, the flags of replays, and settings as text.

use crate::text::printable;
use anyhow::{Context, Result, bail};
use rails_array::Shape;
use rails_cache::pattern::Path as RoutePath;
use rails_cli::{
    exit::{Help, Helped},
    print,
};
use rails_lambdaram::{
    replay::{Setting, fitted_path},
    trace::{ReadOutcome, Trace},
};
use rails_topo::{Bandwidth, DataSize};
use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// The flags of commands that replay a trace.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The trace, as `lram trace record` writes it
    pub(crate) file: PathBuf,
    /// The round trip of the path, such as 19ms [default: as it was measured]
    #[arg(long, value_name = "TIME", value_parser = round_trip)]
    rtt: Option<Duration>,
    /// The rate of the path, such as 500mbit [default: such that the replay of the recorded
    /// settings waits as long as the recording]
    #[arg(long, value_name = "RATE", value_parser = rails_cli::rate::parse)]
    rate: Option<Bandwidth>,
}

impl ReplayArgs {
    /// Reads the file, sets the path in it, and says what is missing in it.
    pub(crate) fn load(&self) -> Result<Trace> {
        let mut trace = load(&self.file)?;
        if let Some(round_trip) = self.rtt {
            trace.path.round_trip = round_trip;
        }
        trace.path = match self.rate {
            Some(rate) => RoutePath { bytes_per_second: (rate.as_bits_per_second() / 8).max(1), ..trace.path },
            None => fitted_path(&trace, Instant::now())?,
        };
        Ok(trace)
    }
}

fn load(path: &Path) -> Result<Trace> {
    let name = || path.display().to_string();
    let file = File::open(path).with_context(name)?;
    let trace = Trace::read(BufReader::new(file)).with_context(name)?;
    let left_out = trace.reads.iter().filter(|read| read.outcome != ReadOutcome::Done).count();
    let warn = |line: std::fmt::Arguments<'_>| print::note(format_args!("warning: {}: {line}", path.display()));
    if trace.is_cut {
        warn(format_args!("the last line is cut, and left out"));
    }
    match trace.end {
        None => warn(format_args!("the recorded program ended at once, so its last reads may be missing")),
        Some(end) if end.dropped > 0 => warn(format_args!("{} reads or announcements were not recorded", end.dropped)),
        Some(_) => {}
    }
    if left_out > 0 {
        warn(format_args!("{left_out} reads failed or were given up, and are left out"));
    }
    if trace.header.presend {
        warn(format_args!("the node that served sent blocks unasked, which is replayed as prefetching"));
    }
    if trace.reads.len() == left_out {
        let error = anyhow::anyhow!("{}: it has no read that was served", path.display());
        return Err(error.help("arrays that come with the description, such as coordinates, are read without blocks"));
    }
    Ok(trace)
}

/// Sets the shapes of blocks that are written as `1x91x135` or `ARRAY=1x91x135`.
pub(crate) fn set_block_shapes(trace: &Trace, setting: &mut Setting, texts: &[String]) -> Result<()> {
    for text in texts {
        let (name, shape) = text.rsplit_once('=').map_or((None, &text[..]), |(name, shape)| (Some(name), shape));
        let wrong = |fault: &str| {
            let names: Vec<String> = trace.arrays.iter().map(|array| printable(&array.name)).collect();
            let help = format!("it is SHAPE or ARRAY=SHAPE, such as 1x91x135; the arrays are {}", names.join(", "));
            Helped::usage(format_args!("--block-shape {}: {fault}", printable(text)), help)
        };
        let extents = shape.split(['x', ',']).map(|extent| extent.trim().parse::<u64>());
        let extents = extents.collect::<Result<Vec<u64>, _>>().map_err(|_| wrong("an extent is no number"))?;
        let shape = Shape::new(extents).map_err(|error| wrong(&error.to_string()))?;
        let is_meant = |number: &usize| name.is_none_or(|name| trace.arrays[*number].name == name);
        let numbers: Vec<usize> = (0..trace.arrays.len()).filter(is_meant).collect();
        let is_one = numbers.iter().all(|number| trace.arrays[*number].name == trace.arrays[numbers[0]].name);
        if numbers.is_empty() || !is_one {
            return Err(wrong("it does not say which array"));
        }
        setting.block_shapes.extend(numbers.into_iter().map(|number| (number as u32, shape.clone())));
    }
    Ok(())
}

/// The settings that differ from those of another one, as words.
pub(crate) fn changes(trace: &Trace, setting: &Setting, from: &Setting) -> String {
    let mut words = Vec::new();
    for (array, shape) in &setting.block_shapes {
        let name = &trace.arrays[*array as usize].name;
        let is_only = trace.arrays.len() == 1;
        words.push(if is_only { format!("blocks {shape}") } else { format!("{} {shape}", printable(name)) });
    }
    if setting.memory != from.memory {
        words.push(setting.memory.to_string());
    }
    if setting.policy != from.policy {
        words.push(setting.policy.to_string());
    }
    for (now, then, name) in [(setting.prefetch, from.prefetch, "prefetch"), (setting.views, from.views, "views")] {
        if now != then {
            words.push(if now { name.to_owned() } else { format!("no {name}") });
        }
    }
    if words.is_empty() { "as recorded".to_owned() } else { words.join(", ") }
}

/// A time in milliseconds.
pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A time as the path of a summary has it.
pub(crate) fn path_text(trace: &Trace) -> String {
    let path = &trace.path;
    let rate = Bandwidth::bits_per_second(path.bytes_per_second.saturating_mul(8));
    let latency = if path.storage_latency.is_zero() {
        String::new()
    } else {
        format!(", {} until the storage answers", milliseconds(path.storage_latency))
    };
    format!("a round trip of {}{latency}, {rate}", milliseconds(path.round_trip))
}

fn round_trip(text: &str) -> Result<Duration, String> {
    let time = rails_cli::duration::parse(text)?;
    if time <= MAX_ROUND_TRIP { Ok(time) } else { Err(format!("`{text}` is more than an hour")) }
}

/// Refuses a file that is there, with those numbered after it.
pub(crate) fn free_for_recording(path: &Path, force: bool) -> Result<()> {
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    let names = [path.to_owned()].into_iter().chain((2..).map(numbered));
    let former: Vec<PathBuf> =
        names.enumerate().take_while(|(at, name)| *at == 0 || name.exists()).map(|(_, name)| name).collect();
    for name in former.iter().filter(|name| name.exists()) {
        if !force {
            let error = anyhow::anyhow!("{}: the file is there already", name.display());
            return Err(error.help("--force replaces it"));
        }
        if !name.is_file() {
            bail!("{}: it is no file", name.display());
        }
        std::fs::remove_file(name).with_context(|| format!("cannot remove {}", name.display()))?;
    }
    Ok(())
}

/// As of the format.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(3600);

/// The size of bytes, for a table.
pub(crate) fn size(bytes: u64) -> String {
    DataSize::bytes(bytes).to_string()
}
