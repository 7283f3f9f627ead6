//! `rails-bench run`
//!
//! The program is an unmodified one: it is bound before it begins, and watched from outside.
//! `watch` decides, without I/O; `watcher` reads and carries out; `launch` starts the program.

mod launch;
mod place;
mod profile;
mod report;
mod signals;
mod stripe;
mod traffic;
mod watch;
mod watcher;

#[cfg(feature = "fuzzing")]
pub(crate) use self::profile::fuzz as fuzz_profile;
pub(super) use self::report::Report;
pub(crate) use self::stripe::keeper;
use self::{
    launch::{Placed, Wanted, launch},
    place::{Place, Surroundings},
    profile::Wishes,
    report::Ended,
    signals::Signals,
    stripe::{NotStarted, Striping},
    watch::Pace,
    watcher::{Watch, Watcher},
};
use super::door::DoorArgs;
use crate::{
    document::{Contents, Document, Schema},
    exit::{Exit, Help},
    journal::JournalArgs,
    machine::this_machine,
    output_file, placement, print,
};
use anyhow::{Context, Result, anyhow};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid},
    unistd::Pid,
};
use rails_bind::{
    claims::{Claim, Claims},
    thread::Tid,
    usage::ProcessUsage,
};
use rails_multirail::{RailPlan, RailRequest, planner::PlanError};
use rails_topo::Topology;
use std::{
    ffi::OsString,
    io,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

/// Run any program beside rails: on their CPUs, with memory of their nodes, and watched
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The program runs on the CPUs beside the NICs of the rails, and takes its memory from their nodes; both are set before it begins, and it needs
no change. While it runs, threads that leave these CPUs are put back (a thread that does so again and again is left alone), and the program
follows its traffic: it moves to the CPUs beside the NICs that carry it, by the kernel's counts of its TCP connections. At the end the
verdicts are printed to stderr. A system that refuses to bind is reported, and the program runs all the same.

The file of --profile has the long flags as keys, with _ for -; a flag wins over the file, also as --exclusive=false:
  rails = \"eth0,eth1\"
  fix = true

Examples:
  rails-bench run -- redis-server
  rails-bench run --rails eth0 --exclusive --cores 4 -- iperf3 -s
  rails-bench run --profile database.toml --json verdicts.json -- postgres -D /data

Exit status: that of the program, and a signal that ends the program ends this by the same; 127 if it is not found, 126 if it cannot be
started, 1 or 2 if it was not tried. Signals go to the program, and the job can be stopped and continued. Needs no privilege, but for --fix.")]
pub(crate) struct Args {
    /// Take what the flags do not say from this TOML file
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    wishes: Wishes,
    #[command(flatten)]
    gate: DoorArgs,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: Args, details: bool) -> Result<Exit> {
    let wishes = args.wishes.with_file(args.profile.as_deref())?;
    // The second one is for a system that has no filters.
    let (command, plain) = (command_of(&args.command)?, command_of(&args.command)?);
    let topology = this_machine()?;
    let planned = plan(&topology, &wishes)?;
    let claimed = Claims::machine().taken().unwrap_or_default();
    let own = planned.claim.as_ref().map(|claim| claim.resources().cpus().clone()).unwrap_or_default();
    let around = Surroundings::new(&topology, &claimed.cpus().difference(&own));
    let counts_cores = wishes.cores.is_some() || is(wishes.exclusive);
    let place = planned.plan.as_ref().and_then(|plan| around.of_rails(plan, counts_cores));
    let follows = !is(wishes.no_follow) && !is(wishes.exclusive);
    let policies = place.as_ref().map(|place| around.policies(place, follows)).unwrap_or_default();

    let mut signals = Signals::block()?;
    let fix = is(wishes.fix).then(|| JournalArgs::at(wishes.journal.clone()).open()).transpose()?;
    let wanted = Wanted { place: place.as_ref(), policies: &policies, is_required: is(wishes.require_placement) };
    let start = || if is(wishes.stripe) { stripe::start(command, plain) } else { stripe::start_plainly(command) };
    let (placed, started) = launch(&wanted, start)?;
    let (mut child, notifier) = match started {
        Ok(started) => started,
        Err(NotStarted::Plainly(error)) => return Ok(not_started(&args.command, &error)),
        Err(NotStarted::Refused(error)) => return Err(error),
    };
    let striping = notifier.and_then(|notifier| Striping::begin(notifier, &args.gate));
    tell(&placed, place.as_ref(), details);
    let nics = planned.plan.iter().flat_map(|plan| &plan.rails).filter_map(|rail| rail.interface.clone());
    let watch = Watch { around: &around, place, nics: nics.collect(), follows, fix };
    let began = Instant::now();
    let before = ProcessUsage::current().ok();
    let mut watcher = Watcher::new(watch, number(&child));
    let status = attend(&mut child, &mut signals, &mut watcher, began)?;
    let after = began.elapsed();
    let watched = watcher.end(after);
    let ended = Ended {
        command: args.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" "),
        how: in_words(status),
        after,
        cpu_time: ProcessUsage::of_ended_children().ok().map(|usage| usage.total()),
        watching: spent(before).unwrap_or_default(),
    };
    let report = Report::new(ended, placed, watched, striping.as_ref().map(Striping::connections));
    if let Some(file) = &wishes.json {
        let text = Document::of(&report).pretty()?;
        // The caller waits for the program's own exit, so this error does not replace it.
        if let Err(error) = output_file::write(file, text) {
            print::note(format_args!("error: --json: cannot write {}: {error}", file.display()));
        }
    }
    if !is(wishes.quiet) {
        print::note(report.to_string().trim_end());
    }
    Ok(exit(status))
}

impl Contents for Report {
    const SCHEMA: Schema = Schema::RUN;
}

fn command_of(words: &[OsString]) -> Result<Command> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    rails_bind::process::begin_with_present_signals(&mut command).context("sigprocmask")?;
    Ok(command)
}

/// The rails that a program runs beside.
struct Planned {
    /// `None` on a machine that has no NIC to be beside.
    plan: Option<RailPlan>,
    claim: Option<Claim>,
}

fn plan(topology: &Topology, wishes: &Wishes) -> Result<Planned> {
    let mut request = wishes.rails.clone().unwrap_or_else(RailRequest::auto);
    request.cores = wishes.cores.unwrap_or(1);
    request.exclusive = is(wishes.exclusive);
    request.requires_placement = is(wishes.require_placement);
    let needs_none = wishes.rails.is_none() && !request.exclusive && !request.requires_placement;
    match placement::claim(topology, &request, "--rails") {
        Ok((plan, _)) if needs_none && place::is_beside_nothing(topology, &plan) => {}
        Ok((plan, claim)) => return Ok(Planned { plan: Some(plan), claim: Some(claim) }),
        Err(error) if needs_none && matches!(error.downcast_ref(), Some(PlanError::NoNic { .. })) => {}
        Err(error) => return Err(error),
    }
    print::note("note: there is no NIC to be beside, so the program is bound to nothing");
    Ok(Planned { plan: None, claim: None })
}

/// Reports refused properties, and with `-v` the program's place.
fn tell(placed: &Placed, place: Option<&Place>, details: bool) {
    for unheld in &placed.unheld {
        tracing::warn!("{unheld}");
    }
    if details && place.is_some() {
        let cpus =
            placed.cpus.as_ref().map_or_else(|| "unbound".to_owned(), |cpus| format!("on {}", report::list(cpus)));
        let memory = placed.memory.as_ref().map_or_else(|| "as usual".to_owned(), ToString::to_string);
        print::note(format_args!("run: {cpus}, memory {memory}, as read back before it began"));
    }
}

/// Watches the program, and passes signals on, until it ends.
fn attend(child: &mut Child, signals: &mut Signals, watcher: &mut Watcher<'_>, began: Instant) -> Result<ExitStatus> {
    let pid = Pid::from_raw(number(child).as_raw());
    let mut pace = Pace::new();
    let mut due = began + pace.first();
    loop {
        let left = due.saturating_duration_since(Instant::now());
        // Up to a whole millisecond, so that the last one is not spent in vain.
        let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let mut descriptors = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, PollTimeout::from(millis)) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).context("poll"),
        }
        signals.pass_on(pid);
        // An ended program stays readable until it is waited for.
        let ended = waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT);
        if ended.context("waitid")? != WaitStatus::StillAlive {
            watcher.look(began.elapsed());
            return child.wait().context("the program's end");
        }
        // A program that has ended meanwhile cannot be asked for.
        if let Ok(stopped) = waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
            signals.stop_along(pid, stopped);
        }
        if Instant::now() >= due {
            let before = ProcessUsage::current().ok();
            let has_changed = watcher.look(began.elapsed());
            due = Instant::now() + pace.next(spent(before).unwrap_or_default(), has_changed);
        }
    }
}

/// The CPU time of this process since then.
fn spent(before: Option<ProcessUsage>) -> Option<Duration> {
    Some(ProcessUsage::current().ok()?.total().saturating_sub(before?.total()))
}

/// The exit of a program that could not be started, as env(1) has it.
fn not_started(command: &[OsString], error: &io::Error) -> Exit {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let what = anyhow!("cannot run `{}`: {error}", command[0].display());
    let help = match error.kind() {
        io::ErrorKind::NotFound => {
            "name a program that is in PATH, or its file; a script needs the interpreter of its first line"
        }
        io::ErrorKind::WouldBlock => "there are as many processes as may be: `ulimit -u`, and `pids.max` of the cgroup",
        _ => "it has to be a file that this user may execute",
    };
    let _ = crate::explain(&what.help(help));
    Exit::Command(if is_missing { 127 } else { 126 })
}

fn exit(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Command(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => Exit::CommandSignal(signal),
        // A program that was waited for has ended in one of both ways.
        (None, None) => Exit::Failed,
    }
}

fn in_words(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn is(wish: Option<bool>) -> bool {
    wish.unwrap_or(false)
}

/// The number of a child that has not been waited for.
fn number(child: &Child) -> Tid {
    i32::try_from(child.id()).ok().and_then(Tid::from_raw).expect("the kernel numbers processes from 1 up")
}
