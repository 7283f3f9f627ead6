//! `lram trace`: the reads of a program as a file, and a replay of them.

use crate::{
    text::printable,
    traced::{ReplayArgs, changes, free_for_recording, milliseconds, path_text, set_block_shapes, size},
};
use anyhow::{Context, Result};
use rails_cli::{
    exit::{Exit, Help},
    print, size as size_flag,
};
use rails_lambdaram::{
    replay::{Outcome, Setting, mean, p99, replay, sum},
    trace::{ReadOutcome, TRACE_VARIABLE, Trace},
};
use rails_topo::DataSize;
use serde_json::json;
use std::{
    ffi::OsString,
    fs::{self, OpenOptions},
    os::unix::process::CommandExt,
    path::{self, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// Record the reads of a program, and replay them with other settings
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TraceCommand {
    Record(RecordArgs),
    Replay(ReplayCommand),
}

/// Run a program that reads arrays, and record its reads
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The program needs no change: Rust programs and Python programs find the file by the environment variable LRAM_TRACE. The command \
becomes the program, so its exit code and its signals are the program's own. Each site that reads has a file of its own: \
the first one FILE, others, also those of other processes, FILE.2, FILE.3 and so on. Without a read there is no file.

Example: lram trace record -o shear.trace -- python3 shear.py")]
struct RecordArgs {
    /// The file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace files that are there
    #[arg(long)]
    force: bool,
    /// The program and its arguments, after `--`
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replay a trace in virtual time, as it was or with other settings
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The replay drives the cache that runs in a site over a model of the path: a round trip, a rate, and one block after the other. It \
knows nothing of encoded blocks, copies, and other readers; so compare replays with each other rather than with the recording.

Example: lram trace replay shear.trace --block-shape u=1x91x135 --memory 64MiB")]
struct ReplayCommand {
    #[command(flatten)]
    replay: ReplayArgs,
    /// The shape of an array's blocks, such as 1x91x135 or u=1x91x135; may be repeated
    #[arg(long, value_name = "[ARRAY=]SHAPE")]
    block_shape: Vec<String>,
    /// The memory for blocks [default: as recorded]
    #[arg(long, value_name = "SIZE", value_parser = size_flag::parse)]
    memory: Option<DataSize>,
    /// Which block goes first: lru, mru, hinted (what was announced stays), or schedule (all reads
    /// are known)
    #[arg(long, value_name = "POLICY")]
    policy: Option<rails_cache::Policy>,
    /// Fetch nothing ahead of reads
    #[arg(long)]
    no_prefetch: bool,
    /// Give no region blocks of its own
    #[arg(long)]
    no_views: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    match args.command {
        TraceCommand::Record(args) => record(&args),
        TraceCommand::Replay(args) => show_replay(&args),
    }
}

fn record(args: &RecordArgs) -> Result<Exit> {
    let file = path::absolute(&args.output).with_context(|| args.output.display().to_string())?;
    free_for_recording(&file, args.force)?;
    // A file that cannot be made is told before the program runs for hours.
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&file)
        .and_then(|_| fs::remove_file(&file))
        .with_context(|| format!("cannot write {}", file.display()))?;
    let (program, arguments) = args.command.split_first().expect("the command line requires one");
    let error = Command::new(program).args(arguments).env(TRACE_VARIABLE, &file).exec();
    let error = anyhow::Error::new(error).context(format!("cannot run {}", program.to_string_lossy()));
    Err(error.help("the program and its arguments follow `--`"))
}

fn show_replay(args: &ReplayCommand) -> Result<Exit> {
    let trace = args.replay.load()?;
    let recorded = Setting::recorded(&trace);
    let mut setting = recorded.clone();
    set_block_shapes(&trace, &mut setting, &args.block_shape)?;
    setting.memory = args.memory.unwrap_or(setting.memory);
    setting.policy = args.policy.unwrap_or(setting.policy);
    setting.prefetch &= !args.no_prefetch;
    setting.views &= !args.no_views;
    let outcome = replay(&trace, &setting, Instant::now())?;
    let then = Recorded::of(&trace);
    if args.json {
        print::result(format_args!("{:#}\n", json(&trace, &setting, &outcome, &then)))?;
    } else {
        print::text(text(&trace, &setting, &recorded, &outcome, &then))?;
    }
    Ok(Exit::Done)
}

/// The figures of the recorded run.
struct Recorded {
    waits: Vec<Duration>,
    elapsed: Duration,
}

impl Recorded {
    fn of(trace: &Trace) -> Self {
        let done = || trace.reads.iter().filter(|read| read.outcome == ReadOutcome::Done);
        let begin = done().map(|read| read.at).min().unwrap_or_default();
        let end = done().map(|read| read.at + read.waited).max().unwrap_or_default();
        Self { waits: done().map(|read| read.waited).collect(), elapsed: end - begin }
    }
}

fn text(trace: &Trace, setting: &Setting, recorded: &Setting, outcome: &Outcome, then: &Recorded) -> String {
    let mut table = print::table(1, vec!["", "recorded", "replayed"]);
    let mut row = |name: &str, then: String, now: String| {
        table.add_row(vec![name.to_owned(), then, now]);
    };
    let count = |count: fn(&rails_lambdaram::trace::TraceEnd) -> u64| {
        trace.end.as_ref().map_or_else(|| "?".to_owned(), |end| count(end).to_string())
    };
    let waited = |waits: &[Duration]| milliseconds(sum(waits));
    row("reads", then.waits.len().to_string(), outcome.waits.len().to_string());
    row("took", milliseconds(then.elapsed), milliseconds(outcome.elapsed));
    row("waited", waited(&then.waits), waited(&outcome.waits));
    row("a read, mean", milliseconds(mean(&then.waits)), milliseconds(mean(&outcome.waits)));
    row("a read, 99 of 100", milliseconds(p99(&then.waits)), milliseconds(p99(&outcome.waits)));
    let stats = &outcome.stats;
    row("blocks in memory, read before", count(|end| end.hits), stats.hits.to_string());
    row("blocks in memory, fetched ahead", count(|end| end.ahead_hits), stats.ahead_hits.to_string());
    row("blocks on their way", count(|end| end.late_ahead), (stats.late_ahead + stats.joined).to_string());
    row("blocks that had to be fetched", count(|end| end.misses), stats.misses.to_string());
    let unused = count(|end| (end.ahead_fetched + end.pushed).saturating_sub(end.used));
    row("blocks fetched in vain", unused, outcome.unused().to_string());
    row("over the path", "?".to_owned(), size(outcome.path_bytes));
    let setting_text = changes(trace, setting, recorded);
    format!(
        "trace     {}, {} of elements\npath      {}\nsettings  {setting_text}\n{table}\n",
        printable(&trace.header.address),
        size(outcome.wanted_bytes),
        path_text(trace),
    )
}

fn json(trace: &Trace, setting: &Setting, outcome: &Outcome, then: &Recorded) -> serde_json::Value {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let waits =
        |waits: &[Duration]| json!({ "sum_ns": ns(sum(waits)), "mean_ns": ns(mean(waits)), "p99_ns": ns(p99(waits)) });
    let shapes = trace.arrays.iter().enumerate().map(|(number, array)| {
        let shape = setting.block_shape(trace, number as u32);
        json!({ "dataset": array.dataset, "array": array.name, "block_shape": shape.extents() })
    });
    let stats = &outcome.stats;
    json!({
        "setting": {
            "memory_bytes": setting.memory.as_bytes(),
            "policy": setting.policy.to_string(),
            "prefetch": setting.prefetch,
            "views": setting.views,
            "round_trip_ns": ns(setting.path.round_trip),
            "storage_latency_ns": ns(setting.path.storage_latency),
            "bytes_per_second": setting.path.bytes_per_second,
            "arrays": shapes.collect::<Vec<_>>(),
        },
        "reads": outcome.waits.len(),
        "recorded": {
            "elapsed_ns": ns(then.elapsed),
            "waits": waits(&then.waits),
            "hits": trace.end.map(|end| end.hits),
            "ahead_hits": trace.end.map(|end| end.ahead_hits),
            "late_ahead": trace.end.map(|end| end.late_ahead),
            "misses": trace.end.map(|end| end.misses),
            "ahead_fetched": trace.end.map(|end| end.ahead_fetched),
        },
        "replayed": {
            "elapsed_ns": ns(outcome.elapsed),
            "waits": waits(&outcome.waits),
            "hits": stats.hits,
            "ahead_hits": stats.ahead_hits,
            "late_ahead": stats.late_ahead,
            "joined": stats.joined,
            "misses": stats.misses,
            "ahead_fetched": stats.ahead_fetched,
            "ahead_unused": outcome.unused(),
            "wanted_bytes": outcome.wanted_bytes,
            "path_bytes": outcome.path_bytes,
            "path_blocks": outcome.path_blocks,
            "views": outcome.views,
        },
    })
}
