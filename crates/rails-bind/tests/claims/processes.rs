//! Two processes and more.

use crate::worker::{Worker, cpus, folder};
use rails_bind::claims::{ClaimError, Resource};

#[test]
fn one_of_two_gets_the_last_cpu() {
    let (_folder, claims) = folder();
    let mut workers = [Worker::start(claims.folder()), Worker::start(claims.folder())];
    let mut won = [0, 0];
    for _ in 0..500 {
        workers.iter_mut().for_each(|worker| worker.say("claim 7"));
        let answers = [0, 1].map(|worker: usize| workers[worker].answer());
        for (worker, answer) in answers.iter().enumerate() {
            won[worker] += usize::from(answer == "ok CPU 7");
            let lost = format!("error CPU 7 is held by process {} (", workers[1 - worker].pid());
            assert!(answer == "ok CPU 7" || answer.starts_with(&lost), "{answers:?}");
        }
        assert_eq!(answers.iter().filter(|answer| answer.starts_with("ok")).count(), 1, "{answers:?}");
        workers.iter_mut().for_each(|worker| assert_eq!(worker.tell("release"), "ok"));
    }
    println!("each of the two won: {won:?}");
}

/// The sets overlap in a circle, so each process is in the way of another: one is refused nothing.
#[test]
fn of_overlapping_claims_one_succeeds() {
    let (_folder, claims) = folder();
    let mut workers = [(); 3].map(|()| Worker::start(claims.folder()));
    for _ in 0..200 {
        for (worker, wanted) in workers.iter_mut().zip(["claim 0 2", "claim 2 4", "claim 4 0"]) {
            worker.say(wanted);
        }
        let answers = [0, 1, 2].map(|worker: usize| workers[worker].answer());
        // The claims may also have come one after the other; no two of them go together.
        assert_eq!(answers.iter().filter(|answer| answer.starts_with("ok")).count(), 1, "{answers:?}");
        workers.iter_mut().for_each(|worker| assert_eq!(worker.tell("release"), "ok"));
    }
    assert!(claims.list().expect("it can be read").is_empty(), "who was refused has left something behind");
}

#[test]
fn conflict_names_the_holder_and_all_that_it_holds() {
    let (_folder, claims) = folder();
    let mut worker = Worker::start(claims.folder());
    assert_eq!(worker.tell("claim 1 2 3"), "ok CPUs 1-3");
    assert_eq!(worker.tell("claim 8"), "ok CPU 8");
    let error = claims.claim(cpus([0, 2, 9])).expect_err("one of them is held");
    let message = error.to_string();
    let ClaimError::Held { resource, by } = error else { panic!("{message}") };
    assert_eq!((resource, by.pid), (cpus([2]).remove(0), Some(worker.pid())));
    assert_eq!((by.holds.to_string(), by.user), ("CPUs 1-3,8".to_owned(), Some(nix::unistd::geteuid().as_raw())));
    assert!(by.command.as_ref().is_some_and(|command| command.contains("--exact worker::worker")), "{by}");
    assert!(message.starts_with(&format!("CPU 2 is held by process {} (`", worker.pid())), "{message}");
    assert!(message.ends_with("), which holds CPUs 1-3,8"), "{message}");
    drop(claims.claim(cpus([0])).expect("it was let go again"));
}

#[test]
fn all_or_nothing_over_several_files() {
    let (_folder, claims) = folder();
    let mut worker = Worker::start(claims.folder());
    let queue = |index| Resource::Queue { interface: "eth0".parse().expect("a name"), index };
    let ours = claims.claim([queue(1)]).expect("it is free");
    assert_eq!(worker.tell("claim 3"), "ok CPU 3");
    for in_the_way in [queue(1), cpus([3]).remove(0)] {
        let wanted = [cpus([5]).remove(0), Resource::Interrupt(24), queue(0), in_the_way.clone()];
        let error = claims.claim(wanted).expect_err("one of them is held");
        assert!(matches!(&error, ClaimError::Held { resource, .. } if *resource == in_the_way), "{error}");
        let list = claims.list().expect("it can be read");
        let held: Vec<String> = list.iter().map(|holder| holder.holds.to_string()).collect();
        assert_eq!(held.len(), 2, "{list:?}");
        assert!(held.contains(&"CPU 3".to_owned()) && held.contains(&"rx queue 1 of eth0".to_owned()), "{held:?}");
    }
    ours.check().expect("it holds");
}

#[test]
fn claims_after_a_killed_process() {
    let (_folder, claims) = folder();
    for _ in 0..5 {
        let mut worker = Worker::start(claims.folder());
        assert_eq!(worker.tell("claim 0 1"), "ok CPUs 0-1");
        assert!(claims.claim(cpus([1])).is_err());
        worker.kill();
        assert!(claims.list().expect("it can be read").is_empty());
        drop(claims.claim(cpus([0, 1])).expect("the kernel has let go"));
    }
}

#[test]
fn each_process_sees_the_claims_of_all() {
    let (_folder, claims) = folder();
    let mut workers = [Worker::start(claims.folder()), Worker::start(claims.folder())];
    let _ours = claims.claim(cpus([2])).expect("it is free");
    assert_eq!((workers[0].tell("claim 0"), workers[1].tell("claim 1")), ("ok CPU 0".into(), "ok CPU 1".into()));
    let told = workers[0].tell("list");
    let list = claims.list().expect("it can be read");
    assert_eq!(list.len(), 3);
    assert!(list.is_sorted_by_key(|holder| holder.pid));
    assert!(told.contains("this process, which holds CPU 0"), "{told}");
    assert!(told.contains(&format!("process {} (", std::process::id())), "{told}");
    for holder in &list {
        assert_eq!(holder.is_this_process(), holder.holds.to_string() == "CPU 2");
    }
}
