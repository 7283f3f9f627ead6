//! The start of the program: by a thread that has bound itself, so that the program inherits the
//! place.

use super::place::Place;
use anyhow::{Context, Result, bail};
use rails_bind::{
    BindError, Outcome, Property, Unheld,
    memory::{self, MemoryPolicy},
    thread,
};
use rails_topo::CpuSet;

/// The place as it read back before the program was started.
#[derive(Debug, Default)]
pub(super) struct Placed {
    /// The CPUs; `None` if nothing was bound.
    pub(super) cpus: Option<CpuSet>,
    /// The memory policy; `None` if none was set.
    pub(super) memory: Option<MemoryPolicy>,
    /// The refused properties.
    pub(super) unheld: Vec<Unheld>,
}

/// The wanted place.
#[derive(Debug)]
pub(super) struct Wanted<'p> {
    /// The place; `None` binds nothing.
    pub(super) place: Option<&'p Place>,
    /// The memory policies, the best first.
    pub(super) policies: &'p [MemoryPolicy],
    /// Whether a refused property is an error.
    pub(super) is_required: bool,
}

/// Binds a new thread, and has it start the program by `spawn`. The result is that of the
/// placement, and the value that of `spawn`.
///
/// `spawn` may start further threads, which inherit the place as the program does.
pub(super) fn launch<T: Send>(wanted: &Wanted<'_>, spawn: impl FnOnce() -> T + Send) -> Result<(Placed, T)> {
    std::thread::scope(|scope| {
        let launcher = std::thread::Builder::new().name("launcher".to_owned()).spawn_scoped(scope, || {
            let placed = place(wanted)?;
            Ok((placed, spawn()))
        });
        let launcher = launcher.map_err(rails_bind::limits::name_thread_limits).context("no thread to start with")?;
        launcher.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Binds the calling thread for good.
fn place(wanted: &Wanted<'_>) -> Result<Placed> {
    let mut placed = Placed::default();
    if let Some(place) = wanted.place {
        match thread::bind_current(&place.cpus) {
            Ok(bound) => {
                let outcome = bound.keep();
                placed.unheld.extend(Unheld::by_outcome(Property::Cpus, &outcome));
                placed.cpus = Some(outcome.got().clone());
            }
            Err(error) => placed.unheld.push(refusal(Property::Cpus, error)?),
        }
        match set_policy(wanted.policies) {
            Ok(Some(outcome)) => {
                placed.unheld.extend(Unheld::by_outcome(Property::MemoryPolicy, &outcome));
                placed.memory = Some(outcome.got().clone());
            }
            Ok(None) => {}
            Err(error) => placed.unheld.push(refusal(Property::MemoryPolicy, error)?),
        }
    }
    if wanted.is_required && !placed.unheld.is_empty() {
        let refused: Vec<String> = placed.unheld.iter().map(crate::placement::with_remedies).collect();
        bail!("--require-placement: {}", refused.concat().trim_end());
    }
    Ok(placed)
}

/// Sets the first policy that the kernel knows.
fn set_policy(policies: &[MemoryPolicy]) -> Result<Option<Outcome<MemoryPolicy>>, BindError> {
    let mut first = None;
    for policy in policies {
        match memory::set_thread_policy(policy) {
            Ok(set) => return Ok(Some(set.keep())),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(None), Err)
}

fn refusal(property: Property, error: BindError) -> Result<Unheld> {
    Ok(Unheld::by_refusal(property, error)?)
}
