//! Tasks on a rail, and their ends.

use crate::loopback;
use rails::{
    bind::{
        memory::{self, MemoryPolicy},
        thread::{self, Tid},
    },
    multirail::{RailId, runtime::TaskError},
    topo::CpuSet,
};
use std::{cell::RefCell, rc::Rc, time::Duration};
use tokio::{task, time::timeout};

#[tokio::test]
async fn futures_without_send_on_a_rail() {
    let (_, rails) = loopback(1);
    let joined = rails[RailId(0)].runtime().spawn(|| async {
        let words = Rc::new(RefCell::new(vec!["here"]));
        let other = words.clone();
        task::spawn_local(async move {
            task::yield_now().await;
            other.borrow_mut().push("and there");
        })
        .await
        .unwrap();
        words.borrow().join(" ")
    });
    assert_eq!(joined.await.unwrap(), "here and there");
}

#[tokio::test]
async fn work_that_blocks_is_not_confined_to_the_rails_cpu() {
    let (_, rails) = loopback(1);
    let rail = &rails[RailId(0)];
    let main = Tid::from_raw(std::process::id().cast_signed()).unwrap();
    let everywhere = thread::affinity_of(main).unwrap();
    let seen = rail.runtime().spawn(|| async {
        task::spawn_blocking(|| {
            (thread::current_tid(), thread::current_affinity().unwrap(), memory::thread_policy().ok())
        })
        .await
        .unwrap()
    });
    let (tid, cpus, policy) = seen.await.unwrap();
    assert_ne!(tid, rail.runtime().placement().tid);
    assert_eq!(cpus, everywhere);
    // A kernel without memory policies has none here either.
    assert_eq!(policy, memory::thread_policy().ok().map(|_| MemoryPolicy::Default));
    // The rail's thread itself is still bound.
    assert_eq!(rail.runtime().cpus_now().unwrap(), CpuSet::single(rail.planned().cpu));
}

#[tokio::test]
async fn a_task_that_panics_does_not_take_its_rail_along() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    let witness = runtime.spawn(|| async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        "alive"
    });
    let panicked: Result<(), TaskError> = runtime.spawn(|| async { panic!("on purpose") }).await;
    let Err(TaskError::Panicked(panic)) = panicked else { panic!("{panicked:?}") };
    assert_eq!(panic.to_string(), "on purpose");
    assert_eq!(panic.into_payload().downcast_ref(), Some(&"on purpose"));
    let panicked =
        runtime.spawn(|| if true { panic!("before there is {}", "a future") } else { std::future::ready(()) }).await;
    assert_eq!(panicked.unwrap_err().to_string(), "the task panicked: before there is a future");
    let panicked = runtime.spawn(|| async { std::panic::panic_any(7) }).await;
    assert_eq!(panicked.map(|(): ()| ()).unwrap_err().to_string(), "the task panicked: its payload is no text");
    assert_eq!(witness.await.unwrap(), "alive");
    assert_eq!(runtime.spawn(|| async { 7 }).await.unwrap(), 7);
    let by_handle = runtime.handle().spawn(async { thread::current_tid() }).await.unwrap();
    assert_eq!(by_handle, runtime.placement().tid);
}

#[tokio::test]
async fn a_task_goes_on_when_nobody_waits_for_it() {
    let (_, rails) = loopback(1);
    let (done, told) = tokio::sync::oneshot::channel();
    drop(rails[RailId(0)].runtime().spawn(move || async move {
        task::yield_now().await;
        done.send("done").unwrap();
    }));
    assert_eq!(timeout(PATIENCE, told).await.unwrap(), Ok("done"));
}

#[tokio::test]
async fn dropped_rails_end_their_tasks() {
    let (_, rails) = loopback(2);
    let (held, dropped) = tokio::sync::oneshot::channel::<()>();
    let waiting = rails[RailId(1)].runtime().spawn(move || async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    let another = rails.clone();
    drop(rails);
    assert_eq!(another[RailId(1)].runtime().spawn(|| async { 1 }).await.unwrap(), 1, "a clone keeps them");
    drop(another);
    assert!(matches!(timeout(PATIENCE, waiting).await.unwrap(), Err(TaskError::Stopped)));
    assert!(timeout(PATIENCE, dropped).await.unwrap().is_err());
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
