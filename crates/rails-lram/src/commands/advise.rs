//! `lram advise`: the settings that would have served a recorded program best.

use crate::{
    text::printable,
    traced::{ReplayArgs, changes, milliseconds, path_text, size},
};
use anyhow::{Context, Result};
use rails_cli::{
    exit::{Exit, Help},
    print, size as size_flag,
};
use rails_lambdaram::{
    replay::{
        Outcome, ReplayError, Setting,
        advise::{Advice, Adviser, Trial},
        replay,
    },
    trace::Trace,
};
use rails_topo::DataSize;
use serde_json::json;
use std::{
    fmt::Write,
    num::NonZero,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread::{self, available_parallelism},
    time::{Duration, Instant},
};

/// Try other blocks, policies and memory sizes on a recorded program, and say which serve it best
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each setting is a replay, as `lram trace replay` makes it. Blocks of another shape are for the dataset file at the node that \
serves, and so for all who read there. `schedule` is no setting: it is the bound that a cache reaches which knows all reads \
before they come.

Example: lram advise shear.trace --memory 64MiB --memory 1GiB")]
pub(crate) struct Args {
    #[command(flatten)]
    replay: ReplayArgs,
    /// A memory size to try; may be repeated [default: the half and the double of the recorded one]
    #[arg(long, value_name = "SIZE", value_parser = size_flag::parse)]
    memory: Vec<DataSize>,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Result<Exit> {
    let mut trace = args.replay.load()?;
    if trace.reads.len() > MAX_TRIED_READS {
        print::note(format_args!("the first {MAX_TRIED_READS} of {} reads are tried", trace.reads.len()));
        trace.reads.truncate(MAX_TRIED_READS);
    }
    let mut adviser = Adviser::new(&trace, &args.memory);
    let mut refused = None;
    loop {
        let round = adviser.next_round();
        if round.is_empty() {
            break;
        }
        for (setting, outcome) in replay_all(&trace, round) {
            match outcome {
                Ok(outcome) => adviser.learn(setting, &outcome),
                Err(error) => drop(refused.get_or_insert((setting, error))),
            }
        }
    }
    let Some(advice) = adviser.advice() else {
        let (_, error) = refused.context("no setting was tried")?;
        return Err(anyhow::Error::new(error).context("the recorded settings cannot be replayed"));
    };
    let asked_memory = args.memory.iter().find(|memory| {
        **memory != advice.recorded.setting.memory
            && !advice.memories.iter().any(|trial| trial.setting.memory == **memory)
    });
    if let (Some(memory), Some((_, error))) = (asked_memory, refused) {
        return Err(anyhow::Error::new(error).context(format!("--memory {memory}")).help("name another size"));
    }
    if args.json {
        print::result(format_args!("{:#}\n", json(&trace, &advice)))?;
    } else {
        print::text(text(&trace, &advice))?;
    }
    Ok(Exit::Done)
}

/// Replays settings on all processors. The results are in the order of the settings.
fn replay_all(trace: &Trace, settings: Vec<Setting>) -> Vec<(Setting, Result<Outcome, ReplayError>)> {
    let (next, origin) = (AtomicUsize::new(0), Instant::now());
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(setting) = settings.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = replay(trace, setting, origin);
            done.lock().unwrap_or_else(PoisonError::into_inner).push((setting.clone(), outcome));
        }
    };
    thread::scope(|scope| {
        let more = available_parallelism().map_or(0, NonZero::get).min(settings.len()).saturating_sub(1);
        for number in 0..more {
            // The others do the work of a thread that the system refuses.
            let _ = thread::Builder::new().name(format!("replay-{number}")).spawn_scoped(scope, work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(setting, _)| settings.iter().position(|other| other == setting));
    done
}

fn text(trace: &Trace, advice: &Advice) -> String {
    let Advice { recorded, best, others, memories, bound, .. } = advice;
    let mut table = print::table(1, vec!["settings", "waited", "a read", "99 of 100", "over the path", "gain"]);
    let mut row = |trial: &Trial| {
        let gain = trial.gain_over(recorded) * 100.0;
        table.add_row(vec![
            changes(trace, &trial.setting, &recorded.setting),
            milliseconds(trial.waited),
            milliseconds(trial.mean),
            milliseconds(trial.p99),
            size(trial.path_bytes),
            if trial == recorded { String::new() } else { format!("{gain:.0} %") },
        ]);
    };
    row(recorded);
    let has_best = is_better(best, recorded);
    [best].into_iter().filter(|_| has_best).chain(others.iter().take(MAX_OTHERS)).for_each(&mut row);
    memories.iter().chain(bound).for_each(&mut row);
    let mut text = format!(
        "trace     {}, {} reads, {} of memory\npath      {}\n{table}\n",
        printable(&trace.header.address),
        trace.reads.len(),
        recorded.setting.memory,
        path_text(trace),
    );
    let _ = writeln!(text, "{} settings were tried.", advice.tried);
    if has_best {
        let gain = best.gain_over(recorded) * 100.0;
        let (bytes, before) = (size(best.path_bytes), size(recorded.path_bytes));
        let _ =
            writeln!(text, "\nWith the same memory the reads wait {gain:.0} % less, for {bytes} instead of {before}:");
        for line in remedies(trace, &best.setting, &recorded.setting) {
            let _ = writeln!(text, "{line}");
        }
    } else {
        let _ = writeln!(text, "\nWith the same memory nothing is better by 5 % than what was recorded.");
    }
    for trial in memories {
        let gain = trial.gain_over(best) * 100.0;
        let memory = trial.setting.memory;
        if memory > recorded.setting.memory && gain >= MIN_GAIN * 100.0 {
            let _ =
                writeln!(text, "With {memory} they wait another {gain:.0} % less: SiteOptions::memory, or --memory.");
        } else if memory < recorded.setting.memory && gain > -MIN_GAIN * 100.0 {
            let _ = writeln!(text, "A memory of {memory} serves as well: SiteOptions::memory, or --memory.");
        }
    }
    text
}

fn is_better(trial: &Trial, recorded: &Trial) -> bool {
    trial.gain_over(recorded) >= MIN_GAIN
}

/// How to make a setting that of a program.
fn remedies(trace: &Trace, setting: &Setting, recorded: &Setting) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, shape) in &setting.block_shapes {
        let array = &trace.arrays[*number as usize];
        let (dataset, name) = (printable(&array.dataset), printable(&array.name));
        lines.push(format!("  in the dataset file of `{dataset}`, for the array `{name}`:"));
        lines.push(format!("    block_shape = {:?}", shape.extents()));
    }
    if !setting.block_shapes.is_empty() {
        lines.push("  (`lram import` writes a dataset file for files that have none)".to_owned());
    }
    if setting.policy != recorded.policy {
        lines.push(format!("  in the program: SiteOptions::budget(\"*,policy={}\".parse()?)", setting.policy));
    }
    for (now, then, name) in
        [(setting.prefetch, recorded.prefetch, "prefetch"), (setting.views, recorded.views, "views")]
    {
        if now != then {
            lines.push(format!("  in the program: SiteOptions::{name}({now}), or in Python, {name}={}", python(now)));
        }
    }
    lines
}

fn python(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}

fn json(trace: &Trace, advice: &Advice) -> serde_json::Value {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let trial = |trial: &Trial| {
        let blocks = trial.setting.block_shapes.iter().map(|(number, shape)| {
            let array = &trace.arrays[*number as usize];
            json!({ "dataset": array.dataset, "array": array.name, "block_shape": shape.extents() })
        });
        json!({
            "memory_bytes": trial.setting.memory.as_bytes(),
            "policy": trial.setting.policy.to_string(),
            "prefetch": trial.setting.prefetch,
            "views": trial.setting.views,
            "changed_blocks": blocks.collect::<Vec<_>>(),
            "waited_ns": ns(trial.waited),
            "mean_ns": ns(trial.mean),
            "p99_ns": ns(trial.p99),
            "path_bytes": trial.path_bytes,
            "gain": trial.gain_over(&advice.recorded),
        })
    };
    json!({
        "tried": advice.tried,
        "is_better": is_better(&advice.best, &advice.recorded),
        "recorded": trial(&advice.recorded),
        "best": trial(&advice.best),
        "others": advice.others.iter().take(MAX_OTHERS).map(trial).collect::<Vec<_>>(),
        "memories": advice.memories.iter().map(trial).collect::<Vec<_>>(),
        "bound": advice.bound.as_ref().map(trial),
    })
}

/// The part of the waits that is worth a change.
const MIN_GAIN: f64 = 0.05;
const MAX_OTHERS: usize = 4;
/// A hundred replays of them take half a minute.
const MAX_TRIED_READS: usize = 65_536;
