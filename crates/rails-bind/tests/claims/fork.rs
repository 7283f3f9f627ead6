//! A process that is forked and executes no other program.

use crate::worker::{Worker, cpus, folder, say};
use nix::{
    sys::wait::{Id, WaitPidFlag, waitid, waitpid},
    unistd::{ForkResult, fork},
};
use rails_bind::claims::{Claim, ClaimError, Claims};

/// Plays in a worker, which holds CPU 0. The child goes on until the test closes its end of the
/// pipe.
pub(crate) fn fork_and_look(claims: &Claims, held: &mut Vec<Claim>, told: &mut dyn Iterator<Item = String>) {
    let parent = std::process::id();
    // SAFETY: the other thread of the process is the test harness's, which does nothing but wait for
    // this one. So no lock is held that the child could wait for, neither of the allocator nor of
    // the registry of claims.
    #[allow(unsafe_code, reason = "a fork without exec is what is tested, and nothing in the crate forks")]
    let forked = unsafe { fork() }.expect("there is room for a process");
    match forked {
        ForkResult::Parent { child } => {
            // The child says more, and this process is to be killed while the child lives.
            let _ = waitpid(child, None);
        }
        ForkResult::Child => {
            let inherited = held.pop().expect("the parent holds CPU 0");
            let lost = matches!(inherited.check(), Err(ClaimError::Lost { .. }));
            let of_parent = |result: Result<Claim, ClaimError>| match result {
                Err(ClaimError::Held { by, .. }) => by.pid == Some(parent) && by.holds.to_string() == "CPU 0",
                _ => false,
            };
            let refused = of_parent(claims.claim(cpus([0])));
            let own = claims.claim(cpus([1])).expect("it is free");
            // To drop the parent's claim lets go of nothing.
            drop(inherited);
            let still = of_parent(claims.claim(cpus([0]))) && own.check().is_ok();
            say(format_args!("ok {lost} {refused} {still} {}", std::process::id()));
            for line in told {
                match line.as_str() {
                    // The parent is dead by now.
                    "claim" => match claims.claim(cpus([0])) {
                        Ok(claim) => {
                            say(format_args!("ok {}", claim.check().is_ok()));
                            held.push(claim);
                        }
                        Err(error) => say(format_args!("error {error}")),
                    },
                    "release" => {
                        held.clear();
                        say(format_args!("ok {}", own.check().is_ok()));
                    }
                    other => panic!("no such command: `{other}`"),
                }
            }
            std::process::exit(0);
        }
    }
}

#[test]
fn forked_child_holds_nothing_of_its_parents() {
    let (_folder, claims) = folder();
    let mut worker = Worker::start(claims.folder());
    assert_eq!(worker.tell("claim 0"), "ok CPU 0");
    let answer = worker.tell("fork");
    let child = answer.strip_prefix("ok true true true ").unwrap_or_else(|| panic!("{answer}"));
    let child: u32 = child.parse().expect("a number");

    let list = claims.list().expect("it can be read");
    let told: Vec<_> = list.iter().map(|holder| (holder.pid, holder.holds.to_string())).collect();
    let mut expected = [(Some(worker.pid()), "CPU 0".to_owned()), (Some(child), "CPU 1".to_owned())];
    expected.sort();
    assert_eq!(told, expected);

    // The parent dies, and the child with its copies of the descriptors lives.
    let parent = nix::unistd::Pid::from_raw(i32::try_from(worker.pid()).expect("Linux ends at 2^22"));
    nix::sys::signal::kill(parent, nix::sys::signal::Signal::SIGKILL).expect("it is ours");
    // Waits until all of the worker's threads have ended: the state in /proc is that of the first.
    // `Worker` reaps it.
    waitid(Id::Pid(parent), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT).expect("it is ours");
    let ours = claims.claim(cpus([0])).expect("the parent is dead");
    let refused = worker.tell("claim");
    assert!(refused.starts_with(&format!("error CPU 0 is held by process {}", std::process::id())), "{refused}");
    ours.release().expect("the kernel lets go");

    // The child claims through the descriptor that it has inherited.
    assert_eq!(worker.tell("claim"), "ok true");
    assert!(claims.claim(cpus([0])).is_err());
    assert_eq!(worker.tell("release"), "ok true");
    drop(claims.claim(cpus([0])).expect("the child has let go"));
}
