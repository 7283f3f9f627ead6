//! Tasks on a rail, and their ends.

use crate::loopback;
use rails::{
    bind::{
        memory::{self, MemoryPolicy},
        thread::{self, Tid},
    },
    multirail::{
        RailId, Rails,
        runtime::{DROP_LIMIT, RailRuntime, RailRuntimeBuilder, RailTask, ShutdownError, TaskError},
    },
    topo::CpuSet,
};
use std::{
    cell::RefCell,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{io::AsyncWriteExt, runtime::Handle, sync::oneshot::error::TryRecvError, task, time::timeout};

#[tokio::test]
async fn futures_without_send_on_a_rail() {
    let (_, rails) = loopback(1);
    let joined = rails[RailId(0)].runtime().spawn_local(|| async {
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

/// A task of the rail runs while work computes on the rail's only CPU, and until the task says so.
#[tokio::test]
async fn a_rail_goes_on_beside_work_that_computes() {
    let (_, rails) = loopback(1);
    let rail = rails[RailId(0)].runtime();
    let (computing, computes) = mpsc::channel();
    let over = Arc::new(AtomicBool::new(false));
    let heard = over.clone();
    let work = rail.compute(move || {
        computing.send((thread::current_tid(), memory::thread_policy().ok())).unwrap();
        while !heard.load(Relaxed) {
            std::hint::spin_loop();
        }
        thread::current_affinity().unwrap()
    });
    let (tid, policy) = task::spawn_blocking(move || computes.recv().unwrap()).await.unwrap();
    let placement = rail.placement();
    assert_ne!(tid, placement.tid);
    if let Some(Ok(memory)) = &placement.memory {
        assert_eq!(policy.as_ref(), Some(memory.got()));
    }
    for _ in 0..10 {
        rail.spawn(async { tokio::time::sleep(Duration::from_millis(1)).await }).await.unwrap();
    }
    assert!(!work.is_finished());
    over.store(true, Relaxed);
    assert_eq!(&work.await.unwrap(), placement.cpus.as_ref().unwrap().got());
    // The rail waits for the work at its end, so the work cannot wait for that.
    let (_, stopped) = loopback(1);
    let own = stopped.clone();
    let ended = stopped[RailId(0)].runtime().compute(move || own[RailId(0)].runtime().blocking_shutdown(Duration::MAX));
    assert!(matches!(ended.await.unwrap(), Err(ShutdownError::OnTheRail { .. })));
    stopped.shutdown(Duration::MAX).await.unwrap();
    // The pool's thread is free again, also after a panic.
    let panicked = rail.compute(|| panic!("as the test wants it")).await.unwrap_err();
    assert!(matches!(panicked, TaskError::Panicked(_)), "{panicked}");
    let affinity = || task::spawn_blocking(|| thread::current_affinity().unwrap());
    let main = Tid::from_raw(std::process::id().cast_signed()).unwrap();
    let seen = rail.spawn(async move { affinity().await.unwrap() });
    assert_eq!(seen.await.unwrap(), thread::affinity_of(main).unwrap());
}

#[tokio::test]
async fn work_that_blocks_is_not_confined_to_the_rails_cpu() {
    let (_, rails) = loopback(1);
    let rail = &rails[RailId(0)];
    let main = Tid::from_raw(std::process::id().cast_signed()).unwrap();
    let everywhere = thread::affinity_of(main).unwrap();
    let seen = rail.runtime().spawn(async {
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
    let witness = runtime.spawn(async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        "alive"
    });
    let panicked: Result<(), TaskError> = runtime.spawn(async { panic!("on purpose") }).await;
    let Err(TaskError::Panicked(panic)) = panicked else { panic!("{panicked:?}") };
    assert_eq!(panic.to_string(), "on purpose");
    assert_eq!(panic.into_payload().downcast_ref(), Some(&"on purpose"));
    let panicked = runtime
        .spawn_local(|| if true { panic!("before there is {}", "a future") } else { std::future::ready(()) })
        .await;
    assert_eq!(panicked.unwrap_err().to_string(), "the task panicked: before there is a future");
    let panicked = runtime.spawn(async { std::panic::panic_any(7) }).await;
    assert_eq!(panicked.map(|(): ()| ()).unwrap_err().to_string(), "the task panicked: its payload is no text");
    assert_eq!(witness.await.unwrap(), "alive");
    assert_eq!(runtime.spawn(async { 7 }).await.unwrap(), 7);
    let by_handle = runtime.handle().spawn(async { thread::current_tid() }).await.unwrap();
    assert_eq!(by_handle, runtime.placement().tid);
}

#[tokio::test]
async fn a_task_goes_on_when_nobody_waits_for_it() {
    let (_, rails) = loopback(1);
    let (done, told) = tokio::sync::oneshot::channel();
    drop(rails[RailId(0)].runtime().spawn(async move {
        task::yield_now().await;
        done.send("done").unwrap();
    }));
    assert_eq!(timeout(PATIENCE, told).await.unwrap(), Ok("done"));
}

#[tokio::test]
async fn dropped_rails_end_their_tasks() {
    let (_, rails) = loopback(2);
    let (held, dropped) = tokio::sync::oneshot::channel::<()>();
    let waiting = rails[RailId(1)].runtime().spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    });
    let another = rails.clone();
    drop(rails);
    assert_eq!(another[RailId(1)].runtime().spawn(async { 1 }).await.unwrap(), 1, "a clone keeps them");
    drop(another);
    assert!(matches!(timeout(PATIENCE, waiting).await.unwrap(), Err(TaskError::Cancelled)));
    assert!(timeout(PATIENCE, dropped).await.unwrap().is_err());
}

#[test]
fn the_last_clone_of_a_runtime_ends_it() {
    let runtime = RailRuntimeBuilder::new("shared", everywhere()).build().unwrap();
    let clone = runtime.clone();
    drop(runtime);
    assert_eq!(clone.block_on(async || 1).unwrap(), 1);
    let (held, dropped) = mpsc::channel::<()>();
    drop(clone.spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
    }));
    drop(clone);
    assert_eq!(dropped.try_recv(), Err(mpsc::TryRecvError::Disconnected));
}

/// The thread of the work, for which the rail waits, must not wait for the rail.
#[test]
fn an_unclaimed_result_may_hold_its_runtime() {
    /// Tells whether the runtime was dropped in a context of tokio, where its drop does not wait.
    struct Last(Option<RailRuntime>, mpsc::Sender<bool>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.1.send(Handle::try_current().is_ok()).unwrap();
            drop(self.0.take());
            self.1.send(true).unwrap();
        }
    }
    let runtime = RailRuntimeBuilder::new("unclaimed", everywhere()).build().unwrap();
    let ((proceed, wait), (told, heard)) = (mpsc::channel::<()>(), mpsc::channel());
    let last = Last(Some(runtime.clone()), told);
    drop(runtime.compute(move || {
        wait.recv().unwrap();
        last
    }));
    let tid = runtime.placement().tid;
    drop(runtime);
    proceed.send(()).unwrap();
    let heard = [(); 2].map(|()| heard.recv_timeout(PATIENCE).unwrap());
    assert_eq!(heard, [true; 2], "the rail waits for a thread that waits for it");
    while thread::affinity_of(tid).is_ok() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn a_clone_does_not_keep_the_runtime_of_rails() {
    let (_, rails) = loopback(1);
    let clone = rails[RailId(0)].runtime().clone();
    rails.shutdown(PATIENCE).await.unwrap();
    drop(rails);
    assert!(matches!(timeout(PATIENCE, clone.spawn(async {})).await.unwrap(), Err(TaskError::Cancelled)));
}

#[tokio::test]
async fn a_local_task_is_spawned_from_the_rail_itself_too() {
    let (_, rails) = loopback(1);
    let (inner, on_it) = (rails.clone(), rails[RailId(0)].runtime());
    assert!(!on_it.is_current());
    let outer = on_it.spawn_local(move || async move {
        assert!(inner[RailId(0)].runtime().is_current());
        let here = Rc::new(5);
        inner[RailId(0)].runtime().spawn_local(|| async { *Rc::new(7) }).await.unwrap() + *here
    });
    assert_eq!(outer.await.unwrap(), 12);
    // A thread of the blocking pool is in the rail's runtime, and is not the rail's thread.
    let inner = rails.clone();
    let from_pool = on_it.spawn(async move {
        let start = move || inner[RailId(0)].runtime().spawn_local(|| async { *Rc::new(4) });
        task::spawn_blocking(start).await.unwrap().await.unwrap()
    });
    assert_eq!(from_pool.await.unwrap(), 4);
}

/// The rail's thread, with another runtime's handle entered.
#[tokio::test]
async fn a_local_task_goes_to_its_rail_not_the_entered_one() {
    let (_, rails) = loopback(2);
    let inner = rails.clone();
    let task = rails[RailId(0)].runtime().spawn_local(move || async move {
        let own = inner[RailId(0)].runtime();
        let entered = inner[RailId(1)].runtime().handle().enter();
        let task = own.spawn_local(|| async { (Rc::new(1), thread::current_tid()).1 });
        drop(entered);
        (task.await.unwrap(), own.placement().tid)
    });
    let (ran_on, own) = timeout(PATIENCE, task).await.unwrap().unwrap();
    assert_eq!(ran_on, own);
}

#[tokio::test]
async fn an_aborted_task_drops_its_future() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    for local in [false, true] {
        let (held, dropped) = tokio::sync::oneshot::channel::<()>();
        let (running, runs) = tokio::sync::oneshot::channel();
        let wait = async move {
            let _held = held;
            running.send(()).unwrap();
            std::future::pending::<()>().await;
        };
        let task = if local { runtime.spawn_local(|| wait) } else { runtime.spawn(wait) };
        timeout(PATIENCE, runs).await.unwrap().unwrap();
        assert!(!task.is_finished());
        task.abort();
        assert!(matches!(timeout(PATIENCE, task).await.unwrap(), Err(TaskError::Cancelled)));
        assert!(timeout(PATIENCE, dropped).await.unwrap().is_err(), "local: {local}");
    }
}

/// Other tasks come before the end of the future.
#[tokio::test]
async fn an_aborted_local_task_ends_after_its_future() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    let busy = || {
        runtime.spawn(std::future::poll_fn(|context| {
            std::thread::sleep(Duration::from_millis(1));
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
    };
    let busy = [busy(), busy(), busy()];
    let (held, mut dropped) = tokio::sync::oneshot::channel::<()>();
    let (running, runs) = tokio::sync::oneshot::channel();
    let task = runtime.spawn_local(|| async move {
        let _held = held;
        running.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    timeout(PATIENCE, runs).await.unwrap().unwrap();
    task.abort();
    assert!(matches!(timeout(PATIENCE, task).await.unwrap(), Err(TaskError::Cancelled)));
    assert_eq!(dropped.try_recv(), Err(TryRecvError::Closed));
    busy.iter().for_each(RailTask::abort);
}

#[test]
fn a_thread_without_a_runtime_blocks_on_a_rail() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    let ran_on = runtime.block_on(|| async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        (Rc::new(1), thread::current_tid()).1
    });
    assert_eq!(ran_on.unwrap(), runtime.placement().tid);
    let error = runtime.block_on(|| async { panic!("on purpose") }).map(|(): ()| ()).unwrap_err();
    assert_eq!(error.to_string(), "the task panicked: on purpose");
}

/// On its own rail the task would wait for itself; on another runtime it would hold up that
/// runtime's tasks.
#[tokio::test]
async fn blocking_in_a_task_panics_and_starts_nothing() {
    let (_, rails) = loopback(2);
    for id in [RailId(0), RailId(1)] {
        let (inner, (started, starts)) = (rails.clone(), mpsc::channel::<()>());
        let task = rails[RailId(0)].runtime().spawn(async move {
            let _ = inner[id].runtime().block_on(move || async move { started.send(()).unwrap() });
        });
        let error = timeout(PATIENCE, task).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("Cannot start a runtime from within a runtime"), "{error}");
        assert!(starts.recv_timeout(PATIENCE).is_err(), "the task was started");
    }
}

#[tokio::test]
async fn one_task_on_each_rail() {
    let (_, rails) = loopback(3);
    let tasks = rails.on_each(|rail| {
        let (id, there) = (rail.id(), rail.runtime().is_current());
        async move { (Rc::new(id).0, there) }
    });
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(timeout(PATIENCE, task).await.unwrap().unwrap());
    }
    assert_eq!(seen, [(0, true), (1, true), (2, true)]);
    // Tasks that never end do not keep the rails.
    let waiting = rails.on_each(|_| std::future::pending::<()>());
    drop(rails);
    for task in waiting {
        assert!(matches!(timeout(PATIENCE, task).await.unwrap(), Err(TaskError::Cancelled)));
    }
}

#[test]
fn shutdown_waits_no_longer_than_its_limit() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    let waiting = runtime.spawn(std::future::pending::<()>());
    assert_eq!(rails.blocking_shutdown(PATIENCE), Ok(()));
    assert!(waiting.is_finished(), "its end was waited for");
    assert_eq!(runtime.blocking_shutdown(Duration::ZERO), Ok(()), "it has stopped already");
    assert!(matches!(runtime.block_on(|| async {}), Err(TaskError::Cancelled)));
    // Another rail is stopped by a clone.
    let (_, rails) = loopback(2);
    assert_eq!(rails.clone().blocking_shutdown(Duration::MAX), Ok(()));
    assert!(rails.iter().all(|rail| matches!(rail.runtime().block_on(|| async {}), Err(TaskError::Cancelled))));
}

#[test]
fn tasks_that_hold_their_rail_do_not_hold_the_caller() {
    let (_, rails) = loopback(1);
    let runtime = rails[RailId(0)].runtime();
    let limit = Duration::from_millis(20);

    let (go_on, until) = mpsc::channel::<()>();
    let (running, runs) = mpsc::channel();
    drop(runtime.spawn(async move {
        running.send(()).unwrap();
        let _ = until.recv();
    }));
    runs.recv_timeout(PATIENCE).unwrap();
    let rail = String::from("rail-0");
    assert_eq!(runtime.blocking_shutdown(limit), Err(ShutdownError::Occupied { rail, limit }));
    drop(go_on);
    assert_eq!(runtime.blocking_shutdown(PATIENCE), Ok(()));

    let (_, rails) = loopback(2);
    let (go_on, until) = mpsc::channel::<()>();
    let (running, runs) = mpsc::channel();
    drop(rails[RailId(1)].runtime().spawn(async move {
        drop(task::spawn_blocking(move || {
            running.send(()).unwrap();
            let _ = until.recv();
        }));
    }));
    runs.recv_timeout(PATIENCE).unwrap();
    let rail = String::from("rail-1");
    assert_eq!(rails.blocking_shutdown(limit), Err(ShutdownError::Blocking { rail, limit }));
    let start = Instant::now();
    drop(rails);
    assert!(start.elapsed() < PATIENCE / 4, "it was waited for once");
    drop(go_on);
}

/// A task that occupies a rail until it is let go, which the caller's thread does.
fn occupied(rails: &Rails) -> mpsc::Sender<()> {
    let (go_on, until) = mpsc::channel();
    let (running, runs) = mpsc::channel();
    drop(rails[RailId(0)].runtime().spawn(async move {
        running.send(()).unwrap();
        let _ = until.recv();
    }));
    runs.recv_timeout(PATIENCE).unwrap();
    go_on
}

/// The rail's thread goes on while a task occupies it.
#[tokio::test]
async fn a_rail_that_stops_takes_no_task() {
    let (_, rails) = loopback(1);
    let (busy, runtime) = (occupied(&rails), rails[RailId(0)].runtime());
    assert!(matches!(rails.shutdown(Duration::ZERO).await, Err(ShutdownError::Occupied { .. })));
    let has_run = Arc::new(AtomicBool::new(false));
    let run = |has_run: &Arc<AtomicBool>| {
        let has_run = has_run.clone();
        move || has_run.store(true, Relaxed)
    };
    let (one, two) = (run(&has_run), run(&has_run));
    for task in [
        runtime.spawn(async move { one() }),
        runtime.spawn_local(|| async move { two() }),
        runtime.compute(run(&has_run)),
    ] {
        assert!(task.is_finished());
        assert!(matches!(timeout(PATIENCE, task).await.unwrap(), Err(TaskError::Cancelled)));
    }
    drop(busy);
    assert_eq!(rails.shutdown(PATIENCE).await, Ok(()));
    assert!(!has_run.load(Relaxed));
}

#[tokio::test]
async fn shutdown_in_async_code_lets_other_tasks_run() {
    let (_, rails) = loopback(2);
    let busy = occupied(&rails);
    let (stopped, ()) = tokio::join!(rails.shutdown(PATIENCE), async { drop(busy) });
    assert_eq!(stopped, Ok(()));
}

/// The caller's thread lets the rail go on, and could not while it waited for the rail.
#[tokio::test]
async fn a_drop_in_async_code_does_not_wait() {
    let (_, rails) = loopback(2);
    let (busy, start) = (occupied(&rails), Instant::now());
    let waiting = rails[RailId(0)].runtime().spawn(std::future::pending::<()>());
    drop(rails);
    assert!(start.elapsed() < DROP_LIMIT, "the drop waited");
    drop(busy);
    assert!(matches!(timeout(PATIENCE, waiting).await.unwrap(), Err(TaskError::Cancelled)));
}

#[tokio::test]
async fn a_rail_does_not_wait_for_its_own_end() {
    let (_, rails) = loopback(2);
    let inner = rails.clone();
    let task = rails[RailId(0)].runtime().spawn_local(move || async move {
        let refused = inner[RailId(0)].runtime().shutdown(PATIENCE).await;
        // The other rail can be waited for, before the task awaits again.
        (refused, inner[RailId(1)].runtime().blocking_shutdown(PATIENCE))
    });
    let rail = String::from("rail-0");
    assert_eq!(timeout(PATIENCE, task).await.unwrap().unwrap(), (Err(ShutdownError::OnTheRail { rail }), Ok(())));
    assert_eq!(rails.shutdown(PATIENCE).await, Ok(()));
}

/// A task of the rail asked for its end in vain, and goes on.
#[test]
fn a_rail_that_its_task_stopped_is_waited_for() {
    let runtime = Arc::new(RailRuntimeBuilder::new("stops", everywhere()).build().unwrap());
    let (stopping, goes_on) = (Arc::downgrade(&runtime), Arc::new(AtomicBool::new(true)));
    let (told, refused) = mpsc::channel();
    let going = goes_on.clone();
    drop(runtime.spawn(async move {
        let refused = stopping.upgrade().unwrap().blocking_shutdown(PATIENCE);
        told.send(refused).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        going.store(false, Relaxed);
    }));
    assert!(matches!(refused.recv_timeout(PATIENCE).unwrap(), Err(ShutdownError::OnTheRail { .. })));
    drop(runtime);
    assert!(!goes_on.load(Relaxed));
}

/// The last clone goes with a task, on a rail of its own.
#[tokio::test]
async fn rails_dropped_by_their_own_task() {
    let (_, rails) = loopback(2);
    let other = rails[RailId(1)].runtime().spawn(std::future::pending::<()>());
    let (first, gone) = (rails[RailId(0)].runtime().handle().clone(), Instant::now());
    let task = first.spawn(async move { drop(rails) });
    timeout(PATIENCE, task).await.unwrap().unwrap();
    assert!(matches!(timeout(PATIENCE, other).await.unwrap(), Err(TaskError::Cancelled)));
    assert!(gone.elapsed() < PATIENCE);
}

#[test]
fn tasks_spawned_while_a_rail_stops_end() {
    for round in 0..200 {
        let runtime = RailRuntimeBuilder::new("stops", everywhere()).build().unwrap();
        std::thread::scope(|scope| {
            let spawning = scope.spawn(|| {
                let tasks = (0..50).map(|_| runtime.spawn_local(|| async { *Rc::new(1) }));
                tasks.collect::<Vec<_>>()
            });
            for _ in 0..round {
                std::hint::spin_loop();
            }
            assert_eq!(runtime.blocking_shutdown(PATIENCE), Ok(()));
            let waiting = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            for task in spawning.join().unwrap() {
                let end = waiting.block_on(async { timeout(PATIENCE, task).await.expect("the task ends") });
                assert!(matches!(end, Ok(1) | Err(TaskError::Cancelled)), "{end:?}");
            }
        });
    }
}

/// In between, a rail that spins does what another one does: tasks, timers, sockets, and its end.
#[test]
fn a_rail_that_spins_runs_tasks_and_then_sleeps() {
    let spin = Duration::from_millis(10);
    let runtime = RailRuntimeBuilder::new("spins", everywhere()).spin(spin).build().unwrap();
    for _ in 0..3 {
        let bytes = runtime.block_on(|| async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let mut near = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (mut far, _) = listener.accept().await.unwrap();
            let echo =
                task::spawn_local(async move { tokio::io::copy(&mut near.split().0, &mut tokio::io::sink()).await });
            far.write_all(b"seven b").await.unwrap();
            drop(far);
            echo.await.unwrap().unwrap()
        });
        assert_eq!(bytes.unwrap(), 7);
        std::thread::sleep(2 * spin);
    }
    // The rail sleeps once its time is over: then rest takes no CPU time.
    let start = Instant::now();
    let cpu_time = || runtime.usage().unwrap().cpu_time.expect("the kernel counts it");
    loop {
        let before = cpu_time();
        std::thread::sleep(2 * spin);
        if cpu_time() == before {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it does not sleep");
    }
    assert_eq!(runtime.blocking_shutdown(PATIENCE), Ok(()));
}

/// An idle rail sleeps without a timer.
#[tokio::test]
async fn idle_rails_do_not_wake() {
    let (_, rails) = loopback(2);
    for rail in rails.iter() {
        rail.runtime().spawn(async {}).await.unwrap();
    }
    let wakes = || rails.iter().map(|rail| rail.stats().usage.unwrap().voluntary_switches).collect::<Vec<_>>();
    // The threads go to sleep after their last task.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = wakes();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(wakes(), before);
}

fn everywhere() -> CpuSet {
    thread::current_affinity().unwrap()
}

#[tokio::test]
async fn task_aborted_by_another_than_its_waiter() {
    let runtime = RailRuntimeBuilder::new("aborted", everywhere()).build().unwrap();
    let task: RailTask<()> = runtime.spawn(std::future::pending());
    let abort = task.abort_handle();
    let waiter = tokio::spawn(task);
    abort.clone().abort();
    let error = timeout(PATIENCE, waiter).await.unwrap().unwrap().unwrap_err();
    assert!(error.is_cancelled() && !error.is_panic(), "{error}");
    let panics: RailTask<()> = runtime.spawn(async { panic!("on purpose") });
    let error = panics.await.unwrap_err();
    assert!(error.is_panic() && !error.is_cancelled(), "{error}");
}

/// A bound against hanging.
const PATIENCE: Duration = Duration::from_secs(20);
