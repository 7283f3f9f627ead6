//! Claims of one process.

use super::*;
use nix::fcntl::{FcntlArg, fcntl};
use proptest::prelude::*;
use rails_topo::CpuId;
use std::{collections::BTreeSet, fs};

fn cpu(number: u32) -> Resource {
    Resource::Cpu(CpuId(number))
}

fn queue(index: u32) -> Resource {
    Resource::Queue { interface: "lo".parse().expect("a name"), index }
}

/// Interrupts, CPUs and queues, with the most and the least that can be told apart.
fn resource() -> impl Strategy<Value = Resource> {
    prop_oneof![(0..6u32).prop_map(cpu), (0..3u32).prop_map(Resource::Interrupt), (0..3u32).prop_map(queue)]
}

#[derive(Debug, Clone)]
enum Step {
    Claim(BTreeSet<Resource>),
    /// Release the claim of this index, counted around.
    Release(usize),
    /// Take these resources out of the claim of this index, as a claim of their own.
    Split(usize, BTreeSet<Resource>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let resources = || prop::collection::btree_set(resource(), 0..5);
    let claim = resources().prop_map(Step::Claim);
    let split = (any::<usize>(), resources()).prop_map(|(index, part)| Step::Split(index, part));
    prop::collection::vec(prop_oneof![3 => claim, 2 => any::<usize>().prop_map(Step::Release), 1 => split], 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The model is a list of sets; the kernel's account of this process's locks has to be their union after each step.
    #[test]
    fn any_sequence_holds_what_a_model_holds(steps in steps()) {
        let folder = tempfile::tempdir().expect("a folder");
        let claims = Claims::at(folder.path().join("rails"));
        let mut held: Vec<Claim> = Vec::new();
        for step in steps {
            let taken: BTreeSet<Resource> = held.iter().flat_map(|claim| claim.resources().iter()).collect();
            match step {
                Step::Claim(wanted) => match claims.claim(wanted.iter().cloned()) {
                    Ok(claim) => {
                        prop_assert!(taken.is_disjoint(&wanted));
                        prop_assert_eq!(claim.resources(), &wanted.into_iter().collect::<Resources>());
                        held.push(claim);
                    }
                    Err(ClaimError::Held { resource, by }) => {
                        prop_assert!(taken.contains(&resource) && wanted.contains(&resource));
                        prop_assert!(by.is_this_process());
                        prop_assert_eq!(by.holds, taken.into_iter().collect::<Resources>());
                    }
                    Err(error) => prop_assert!(false, "{error}"),
                },
                Step::Release(_) | Step::Split(..) if held.is_empty() => {}
                Step::Split(index, part) => {
                    let index = index % held.len();
                    let before: BTreeSet<Resource> = held[index].resources().iter().collect();
                    let off = held[index].split_off(&part.iter().cloned().collect());
                    let (rest, split): (BTreeSet<_>, BTreeSet<_>) = before.into_iter().partition(|one| !part.contains(one));
                    prop_assert_eq!(off.resources(), &split.into_iter().collect::<Resources>());
                    prop_assert_eq!(held[index].resources(), &rest.into_iter().collect::<Resources>());
                    held.push(off);
                }
                Step::Release(index) => held.swap_remove(index % held.len()).release().expect("the kernel lets go"),
            }
            let model: Resources = held.iter().flat_map(|claim| claim.resources().iter()).collect();
            let listed = claims.list().expect("it can be read");
            prop_assert!(listed.len() <= 1 && listed.iter().all(Holder::is_this_process));
            prop_assert_eq!(&listed.into_iter().next().map(|holder| holder.holds).unwrap_or_default(), &model);
            for resource in [cpu(0), Resource::Interrupt(0), queue(0)] {
                let holder = claims.holder_of(&resource).expect("it can be read");
                prop_assert_eq!(holder.map(|holder| holder.holds), model.contains(&resource).then(|| model.clone()));
            }
            let possible = kernel_files::possible_cpus().expect("the kernel says");
            let is_here = |one: &Resource| !matches!(one, Resource::Cpu(cpu) if !possible.contains(*cpu));
            let model_here: Resources = model.iter().filter(is_here).collect();
            prop_assert_eq!(&claims.taken().expect("it can be read"), &model_here);
            held.iter().for_each(|claim| claim.check().expect("it holds"));
        }
    }
}

#[test]
fn numbers_at_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    drop(claims.claim([cpu(8191), Resource::Interrupt(65_535), queue(4095)]).expect("they are free"));
    for beyond in [cpu(8192), cpu(u32::MAX), Resource::Interrupt(65_536), queue(4096)] {
        let error = claims.claim([cpu(0), beyond.clone()]).expect_err("it is beyond the limit");
        assert!(matches!(&error, ClaimError::OutOfRange { resource, .. } if *resource == beyond), "{error}");
    }
    assert!(claims.list().expect("it can be read").is_empty());
}

#[test]
fn nothing_is_always_granted_and_makes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path().join("rails"));
    let claim = claims.claim([]).expect("nothing is free");
    assert!(claim.resources().is_empty() && claims.list().expect("there is none").is_empty());
    claim.check().expect("nothing is held");
    assert!(!claims.folder().exists());
}

#[test]
fn claims_of_a_removed_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path().join("rails"));
    let first = claims.claim([cpu(0), cpu(1)]).expect("they are free");
    fs::remove_file(claims.folder().join("cpus")).expect("it is there");
    assert!(matches!(first.check(), Err(ClaimError::Lost { resource }) if resource == cpu(0)));
    let second = claims.claim([cpu(1)]).expect("the new file is empty");
    second.check().expect("it holds");
    // The first lets go of nothing of the second's.
    drop(first);
    second.check().expect("it holds");
    assert!(claims.claim([cpu(1)]).is_err());
    fs::remove_dir_all(claims.folder()).expect("it is there");
    assert!(second.check().is_err());
    claims.claim([cpu(1)]).expect("the new folder is empty").check().expect("it holds");
}

/// The trap that the registry exists for, fallen into by other means: `check` tells.
#[test]
fn lock_dropped_by_closing_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    let claim = claims.claim([cpu(3)]).expect("it is free");
    // Neither listing nor further claims close a descriptor of the file.
    claims.list().expect("it can be read");
    drop(claims.claim([cpu(4)]).expect("it is free"));
    claim.check().expect("it holds");
    drop(fs::File::open(folder.path().join("cpus")).expect("it is there"));
    assert!(matches!(claim.check(), Err(ClaimError::Lost { resource }) if resource == cpu(3)));
}

/// Locks a byte for an open file.
fn lock_for(file: &fs::File, number: i64) {
    let lock = nix::libc::flock {
        l_type: nix::libc::F_WRLCK as _,
        l_whence: nix::libc::SEEK_SET as _,
        l_start: number as _,
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&lock)).expect("it is free");
}

/// Locks for every other byte, through an open file of their own, which the kernel takes for
/// another holder.
#[test]
fn file_with_more_locks_than_are_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    drop(claims.claim([Resource::Interrupt(0)]).expect("it is free"));
    let hostile = fs::File::options().write(true).open(folder.path().join("interrupts")).expect("it is there");
    (0..4096).for_each(|number| lock_for(&hostile, number * 2));
    let listed = claims.list().expect("they are just few enough");
    assert_eq!((listed.len(), listed[0].pid), (1, None));
    assert_eq!(listed[0].holds.interrupts().len(), 4096);
    let holder = claims.holder_of(&Resource::Interrupt(8)).expect("it can be read").expect("it is held");
    assert_eq!(holder.to_string(), "an unknown process, by locks that are no claims, which holds interrupt 8");
    lock_for(&hostile, 2 * 4096);
    let error = claims.list().expect_err("they are too many");
    assert!(matches!(error, ClaimError::TooManyLocks { max: 4096, .. }), "{error}");
    assert!(claims.taken().expect("that is another file").cpus().is_empty());
}

#[test]
fn cpus_are_read_beside_locks_on_all_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    let _claim = claims.claim((0..4096).map(|number| cpu(2 * number))).expect("they are free");
    let another = fs::File::options().write(true).open(folder.path().join("cpus")).expect("it is there");
    lock_for(&another, 8191);
    assert!(matches!(claims.list(), Err(ClaimError::TooManyLocks { .. })), "that asks for the whole file");
    assert!(claims.taken().expect("that asks for the machine's CPUs").cpus().contains(CpuId(0)));
}

/// A user may lock any file: a file for an interface that the machine does not have is not even
/// asked for.
#[test]
fn files_of_other_interfaces_are_not_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    let _claim = claims.claim([queue(1), cpu(0), cpu(8191)]).expect("they are free");
    let other = Resource::Queue { interface: "no-such-if".parse().expect("a name"), index: 0 };
    let _other = claims.claim([other]).expect("it is free");
    assert_eq!(claims.taken().expect("they can be read").to_string(), "CPU 0, rx queue 1 of lo");
    for number in 0..2000 {
        fs::write(folder.path().join(format!("queues.x{number}")), "").expect("it can be written");
    }
    let kinds = claims.folder.kinds().expect("they can be listed");
    assert_eq!(kinds.len(), 1024);
    assert!(kinds.contains(&Kind::Cpus));
}

#[test]
fn claims_go_from_thread_to_thread() {
    fn can_be_sent<T: Send + Sync + 'static>() {}
    can_be_sent::<Claim>();
    can_be_sent::<Claims>();
    can_be_sent::<ClaimError>();
    let folder = tempfile::tempdir().expect("a folder");
    let claims = Claims::at(folder.path());
    let claim = claims.claim([cpu(1)]).expect("it is free");
    let there = claims.clone();
    std::thread::spawn(move || {
        let error = there.claim([cpu(1)]).expect_err("it is held");
        assert_eq!(error.to_string(), "CPU 1 is held by this process, which holds CPU 1");
        claim.check().expect("it holds");
    })
    .join()
    .expect("it does not panic");
    drop(claims.claim([cpu(1)]).expect("the other thread has dropped it"));
}
