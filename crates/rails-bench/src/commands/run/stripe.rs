//! `--stripe`: the program's connections go through the gate of this host.

use crate::{
    commands::door::{DoorArgs, raise_descriptors, source},
    exit::Help,
    print, thread,
};
use anyhow::{Context, Error, Result};
use rails_divert::notify::{self, Attempt, Attempts, Notifier, NotifyError};
use rails_gate::{Door, DoorKind, Plain, Way};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    env, fmt, io,
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError},
    thread::JoinHandle,
    time::Duration,
};
use tokio::{
    sync::oneshot,
    task::{JoinSet, LocalSet},
    time::sleep,
};

/// A program that was started, and the notifier of its connections.
pub(super) type Started = (Child, Option<Notifier>);

/// Why a program was not started.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// As without a filter.
    Plainly(io::Error),
    /// The program may not have a filter.
    Refused(Error),
}

/// Starts the program under a filter. Where the system has no such filters, the program is started
/// without one, and all its connections are plain.
pub(super) fn start(command: Command, plain: Command) -> Result<Started, NotStarted> {
    let keeper = match own_keeper() {
        Ok(keeper) => keeper,
        Err(error) => {
            print::note(format_args!("warning: --stripe: all connections are plain: {error}"));
            return start_plainly(plain);
        }
    };
    match notify::spawn(command, keeper) {
        Ok((child, notifier)) => Ok((child, Some(notifier))),
        Err(NotifyError::Start { source, .. }) => Err(NotStarted::Plainly(source)),
        Err(error @ (NotifyError::GainsPrivileges { .. } | NotifyError::HasNotifier)) => {
            Err(NotStarted::Refused(Error::new(error).context("--stripe")))
        }
        Err(error) => {
            print::note(format_args!("warning: --stripe: all connections are plain: {:#}", Error::new(error)));
            start_plainly(plain)
        }
    }
}

/// Starts the program without a filter.
pub(super) fn start_plainly(mut command: Command) -> Result<Started, NotStarted> {
    command.spawn().map(|child| (child, None)).map_err(NotStarted::Plainly)
}

/// This program as the keeper of connections, should this process be killed.
fn own_keeper() -> io::Result<Command> {
    let mut keeper = Command::new(env::current_exe()?);
    keeper.arg("keeper");
    Ok(keeper)
}

/// Looks after the connections of a program until it is dropped; from then on they are plain.
pub(super) struct Striping {
    thread: Option<JoinHandle<()>>,
    stop: Option<oneshot::Sender<()>>,
    counts: Arc<Counts>,
}

/// The connections of a program.
#[derive(Debug, Default)]
struct Counts {
    through: Mutex<BTreeMap<String, u64>>,
    plain: Mutex<BTreeMap<Plain, u64>>,
}

/// The numbers of a program's connections that were decided upon, for people and as JSON.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Connections {
    /// Through each peer.
    through: BTreeMap<String, u64>,
    /// Plain ones, by the reason.
    plain: Vec<PlainConnections>,
}

/// Plain connections of one reason.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PlainConnections {
    /// The reason, in words.
    reason: String,
    /// The number of connections.
    count: u64,
}

impl Striping {
    /// Looks after the connections by a thread of its own. Where there can be none, all connections
    /// are plain.
    pub(super) fn begin(notifier: Notifier, gate: &DoorArgs) -> Option<Self> {
        // The program runs already, with the limit of before. Each connection that is decided upon takes
        // a few descriptors.
        raise_descriptors();
        Self::try_begin(notifier, gate)
            .inspect_err(|error| print::note(format_args!("warning: --stripe: all connections are plain: {error:#}")))
            .ok()
    }

    fn try_begin(notifier: Notifier, gate: &DoorArgs) -> Result<Self> {
        let door = gate.door(DoorKind::Stripe);
        let counts = Arc::new(Counts::default());
        let (stop, stopped) = oneshot::channel();
        let shared = counts.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no tokio runtime")?;
        let thread = thread::start("stripe", move || {
            let local = LocalSet::new();
            local.block_on(&runtime, attend(notifier, door, &shared, stopped));
        })?;
        Ok(Self { thread: Some(thread), stop: Some(stop), counts })
    }

    /// The connections until now.
    pub(super) fn connections(&self) -> Connections {
        let plain = lock(&self.counts.plain);
        let plain = plain.iter().map(|(why, count)| PlainConnections { reason: why.to_string(), count: *count });
        Connections { through: lock(&self.counts.through).clone(), plain: plain.collect() }
    }
}

/// A line for each number.
impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (peer, count) in &self.through {
            writeln!(f, "  connections through {peer}: {count}")?;
        }
        self.plain.iter().try_for_each(|plain| writeln!(f, "  plain connections: {} ({})", plain.count, plain.reason))
    }
}

impl Drop for Striping {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Decides on attempts until the end, or until nobody has the filter any more.
async fn attend(notifier: Notifier, door: Door, counts: &Arc<Counts>, stopped: oneshot::Receiver<()>) {
    let attempts = match Attempts::new(notifier) {
        Ok(attempts) => attempts,
        Err(error) => return print::note(format_args!("warning: --stripe: all connections are plain: {error}")),
    };
    // Attempts that still wait at the end are dropped, and go plain.
    let mut asked = JoinSet::new();
    let all = async {
        loop {
            match attempts.next().await {
                Ok(Some(attempt)) => {
                    let (door, counts) = (door.clone(), counts.clone());
                    asked.spawn_local(async move { decide(attempt, &door, &counts).await });
                    while asked.try_join_next().is_some() {}
                }
                Ok(None) => return,
                // Memory or descriptors are out.
                Err(error) => {
                    print::note_seldom(&format!("run: a connection is plain: {error}"));
                    sleep(PAUSE).await;
                }
            }
        }
    };
    tokio::select! {
        () = all => {}
        _ = stopped => {}
    }
}

async fn decide(attempt: Attempt, door: &Door, counts: &Counts) {
    let destination = attempt.destination();
    match door.ask(destination, source(destination, 0)).await {
        Way::Through(passage) => {
            let peer = passage.peer().to_owned();
            match attempt.divert() {
                Ok(stream) => match passage.hand_over(&stream).await {
                    Ok(()) => *lock(&counts.through).entry(peer).or_default() += 1,
                    Err(error) => print::note_seldom(&format!(
                        "run: a connection to {destination} was lost with the gate: {error}"
                    )),
                },
                // The program no longer waits.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => print::note_seldom(&format!("run: a connection to {destination} goes plain: {error}")),
            }
        }
        Way::Plain(why) => {
            attempt.go_plain();
            *lock(&counts.plain).entry(why).or_default() += 1;
            if why != Plain::NotRouted {
                print::note_seldom(&format!("run: a connection to {destination} goes plain, because {why}"));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pause after a connection that could not be looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Keeps the connections of a program alive whose `run` was killed.
pub(crate) fn keeper() -> Result<()> {
    notify::keeper::run().context("keeper").map_err(|error| error.help("`rails-bench run --stripe` starts it"))
}
