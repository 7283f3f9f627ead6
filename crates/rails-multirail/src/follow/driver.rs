//! The thread that follows the machine: carries out the steps of the [`Follower`], and decides
//! nothing.

use super::{
    Describe, FollowError, FollowOptions,
    follower::{Follower, Step},
};
use crate::{Rail, RailEventKind, RailId, Rails, error::with_causes, planner::RailRequest, rails::WeakRails};
use rails_bind::{
    claims::{Claims, Resources},
    limits::{name_thread_limits, try_runtime_descriptors},
    settings::{Change, Host, SettingError, SettingState},
};
use rails_topo::{
    Topology,
    monitor::{Changes, Monitor, MonitorError},
};
use std::{
    future::pending,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};
use tokio::{
    runtime,
    sync::oneshot::{self, error::TryRecvError},
    time::{Instant as TokioInstant, sleep_until},
};

/// Starts the thread. Dropping the sender ends it.
pub(super) fn start(
    rails: &Rails,
    request: &RailRequest,
    options: FollowOptions,
) -> Result<oneshot::Sender<()>, FollowError> {
    let (stop, mut stopped) = oneshot::channel();
    let (report, started) = mpsc::sync_channel(1);
    let (rails, request) = (rails.downgrade(), request.clone());
    let thread = thread::Builder::new().name("rails-follow".to_owned()).spawn(move || {
        // The runtime is built on the thread: a caller in a task could not drop it if no thread took it.
        let mut builder = runtime::Builder::new_current_thread();
        let build = |()| builder.enable_all().thread_name("rails-follow-io").build();
        let runtime = match try_runtime_descriptors().and_then(build) {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = report.send(Err(FollowError::Thread(error)));
                return;
            }
        };
        runtime.block_on(async {
            match Monitor::start(options.monitor.clone()).await {
                Ok(monitor) => {
                    let _ = report.send(Ok(()));
                    drop(report);
                    for error in monitor.refused() {
                        tracing::warn!(error = with_causes(error), "rails follow some changes of the machine late");
                    }
                    follow(&monitor, &rails, request, options, &mut stopped).await;
                }
                Err(error) => {
                    let _ = report.send(Err(error.into()));
                }
            }
        });
    });
    thread.map_err(|error| FollowError::Thread(name_thread_limits(error)))?;
    started.recv().unwrap_or(Err(MonitorError::Stopped.into()))?;
    Ok(stop)
}

/// Follows the machine until `stopped` resolves, the rails are dropped, or it cannot be watched any
/// longer.
async fn follow(
    monitor: &Monitor,
    rails: &WeakRails,
    request: RailRequest,
    options: FollowOptions,
    stopped: &mut oneshot::Receiver<()>,
) {
    let _watch = PanicWatch(rails);
    let mut changes = monitor.subscribe();
    let describe = options.describe.clone();
    let described = |topology: Topology| match &describe {
        Some(Describe(describe)) => describe(topology),
        None => topology,
    };
    let mut machine = described(changes.start().topology.clone());
    let Some(set) = rails.upgrade() else { return };
    let present = set.iter().map(|rail| (*rail.planned()).clone()).collect();
    let mut follower = Follower::new(request, present, &machine, options);
    // The machine may have changed since the rails were planned.
    look(&mut follower, &set, &machine);
    drop(set);
    loop {
        while let Some(step) = follower.poll(Instant::now()) {
            // A step that has begun is carried out.
            let Err(TryRecvError::Empty) = stopped.try_recv() else { return };
            let Some(set) = rails.upgrade() else { return };
            carry_out(&set, monitor, &mut follower, step).await;
        }
        let due = follower.poll_timeout().map(TokioInstant::from_std);
        let changed = tokio::select! {
            biased;
            _ = &mut *stopped => return,
            changed = next_change(&mut changes) => changed,
            () = async { match due { Some(due) => sleep_until(due).await, None => pending().await } } => Ok(false),
        };
        let Some(set) = rails.upgrade() else { return };
        match changed {
            // Changes that came together are one.
            Ok(true) => machine = described(monitor.snapshot().topology.clone()),
            Ok(false) => {}
            Err(error) => return set.following().publish(None, RailEventKind::Ended { error }),
        }
        // Claims change without an event, so a move that is due is planned once more.
        look(&mut follower, &set, &machine);
    }
}

/// Passes the present state of the rails and of the machine to the follower.
fn look(follower: &mut Follower, rails: &Rails, machine: &Topology) {
    follower.update_rails(rails.iter().map(|rail| (*rail.planned()).clone()));
    follower.update_machine(Instant::now(), machine, claimed_by_others(rails), &unbound(rails));
}

/// Waits for a change. An error is the end of the watch.
async fn next_change(changes: &mut Changes) -> Result<bool, String> {
    match changes.next().await {
        Some(Ok(_)) => Ok(true),
        Some(Err(error)) => Err(with_causes(&error)),
        None => Err("the monitor has ended".to_owned()),
    }
}

async fn carry_out(rails: &Rails, monitor: &Monitor, follower: &mut Follower, step: Step) {
    let following = rails.following();
    match step {
        Step::Unmet { rail, reason } => following.publish(Some(rail), RailEventKind::Unmet { reason }),
        Step::Move { to, reasons } => {
            let from = rails[to.id].planned();
            let moved = rails.move_rail((*to).clone()).await;
            follower.moved(Instant::now(), &to, &reasons, moved.is_ok());
            let (rail, to) = (to.id, Arc::new(*to));
            let kind = match moved {
                Ok(placement) => RailEventKind::Moved { from, to, reasons, placement },
                Err(error) => RailEventKind::NotMoved { to, reasons, error: Arc::new(error) },
            };
            following.publish(Some(rail), kind);
        }
        Step::PutBack { interrupt, cpus, found } => {
            monitor.expect_interrupt(interrupt, cpus.clone());
            let put_back = Host::this().set_again(&Change::interrupt(interrupt, cpus.clone()));
            let put_back = put_back.and_then(is_put_back);
            follower.put_back(interrupt, put_back.is_ok());
            let kind = match put_back {
                Ok(true) => RailEventKind::InterruptPutBack { interrupt, found, cpus },
                // The interrupt is there already, and the model of the machine is older.
                Ok(false) => return,
                Err(error) => RailEventKind::InterruptNotPutBack { interrupt, found, error: with_causes(&error) },
            };
            following.publish(None, kind);
        }
    }
}

/// Whether this call has put the interrupt back; `false` if it was there already.
fn is_put_back(state: Option<SettingState>) -> Result<bool, SettingError> {
    match state {
        Some(SettingState::Refused(error)) => Err(error),
        // An interrupt moves when it next fires.
        Some(_) => Ok(true),
        None => Ok(false),
    }
}

/// The rails whose threads may run elsewhere than on their CPUs.
fn unbound(rails: &Rails) -> Vec<RailId> {
    rails.iter().filter(|rail| !rail.is_bound_as_planned()).map(Rail::id).collect()
}

/// The CPUs, interrupts and queues that rails may not have.
fn claimed_by_others(rails: &Rails) -> Resources {
    match Claims::machine().taken() {
        Ok(taken) => {
            let planned: Vec<_> = rails.iter().map(Rail::planned).collect();
            let own: Resources = planned.iter().flat_map(|planned| planned.exclusive_resources()).collect();
            taken.iter().filter(|resource| !own.contains(resource)).collect()
        }
        Err(error) => {
            let error = with_causes(&error);
            if let Some(left_out) = rails.following().warnings.due(Instant::now(), &error) {
                tracing::warn!(error, left_out, "rails are moved without regard to claims, which cannot be read");
            }
            Resources::default()
        }
    }
}

/// Reports the end of the following if its thread panics.
struct PanicWatch<'a>(&'a WeakRails);

impl Drop for PanicWatch<'_> {
    fn drop(&mut self) {
        if thread::panicking()
            && let Some(rails) = self.0.upgrade()
        {
            let error = "the thread that follows the machine has panicked".to_owned();
            rails.following().publish(None, RailEventKind::Ended { error });
        }
    }
}
