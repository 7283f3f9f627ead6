//! Rails where the system refuses to place their threads, as the filters of containers do. Each
//! test runs itself once more in a process of its own, whose calls are refused.

use nix::errno::Errno;
use rails_bind::{BindError, Cause, Property, Unheld};
use rails_lab::Sandbox;
use rails_multirail::{
    FollowError, FollowOptions, MultiRailListener, MultiRailStream, RailId, RailPlan, RailRequest, Rails, Security,
    StreamOptions, plan_rails,
    runtime::{RuntimeError, TaskError},
};
use rails_task::{Step, TaskPriority, TaskQueues};
use rails_topo::Topology;
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::Builder,
};

fn planned(request: &str, is_required: bool) -> (Topology, RailPlan) {
    let topology = Topology::detect().expect("this machine can be read");
    let mut request: RailRequest = request.parse().unwrap();
    request.requires_placement = is_required;
    let plan = plan_rails(&topology, &request).expect("loopback rails can be planned");
    (topology, plan)
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Moves bytes over a stream of the rails to themselves.
fn carry_a_stream(rails: &Rails) {
    block_on(async {
        let options = StreamOptions::new(Security::insecure());
        let listener = MultiRailListener::bind(rails, ["127.0.0.1:0"], &options).await.unwrap();
        let mut near = MultiRailStream::connect(rails, listener.local_addrs(), &options).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        let sent = vec![7; 1 << 20];
        let (written, read) = tokio::join!(async { near.write_all(&sent).await }, async {
            let mut arrived = vec![0; sent.len()];
            far.read_exact(&mut arrived).await.map(|_| arrived)
        });
        written.unwrap();
        assert!(read.unwrap() == sent);
    });
}

fn refused(property: Property, call: &str, errno: Errno) -> Unheld {
    Unheld::new(property, Cause::Refused { call: call.to_owned(), errno: Some(errno as i32) })
}

/// As in a container of Docker without `CAP_SYS_NICE`, with one of the answers that filters give.
fn without_memory_policies(name: &str, errno: Errno) {
    Sandbox::new().deny(errno, &["get_mempolicy", "set_mempolicy", "mbind", "move_pages"]).rerun(name, || {
        let (_, plan) = planned("loopback:2", false);
        let has_nodes = plan.rails.iter().any(|rail| rail.node.is_some());
        // A machine without nodes has no policy to lack.
        let lacks: Vec<Unheld> =
            has_nodes.then(|| refused(Property::MemoryPolicy, "get_mempolicy", errno)).into_iter().collect();
        assert_eq!(Rails::try_placement(&plan).unwrap(), lacks);
        let rails = Rails::build(&plan).unwrap();
        assert_eq!(rails.unheld(), lacks);
        for rail in rails.iter() {
            let placement = rail.runtime().placement();
            assert!(placement.cpus.as_ref().is_ok_and(|cpus| cpus.is_applied()), "{placement:?}");
            assert!(placement.memory_node.is_err(), "it cannot have been read");
        }
        carry_a_stream(&rails);
    });
}

#[test]
fn memory_policies_that_are_not_permitted() {
    without_memory_policies("memory_policies_that_are_not_permitted", Errno::EPERM);
}

#[test]
fn memory_policies_that_the_kernel_lacks() {
    without_memory_policies("memory_policies_that_the_kernel_lacks", Errno::ENOSYS);
}

#[test]
fn node_of_memory_where_buffers_have_no_policy() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["mbind", "move_pages"]);
    sandbox.rerun("node_of_memory_where_buffers_have_no_policy", || {
        let rails = Rails::build(&planned("loopback:1", false).1).unwrap();
        assert_eq!(rails.unheld(), []);
        assert!(rails[RailId(0)].runtime().placement().memory_node.is_ok(), "get_mempolicy tells it");
        carry_a_stream(&rails);
    });
}

#[test]
fn rails_that_cannot_be_bound_run_and_move() {
    // The kernel answers EINVAL where none of the CPUs can be used.
    let sandbox = Sandbox::new().deny(Errno::EINVAL, &["sched_setaffinity"]);
    sandbox.rerun("rails_that_cannot_be_bound_run_and_move", || {
        let (topology, plan) = planned("loopback:1", false);
        let lacks = [refused(Property::Cpus, "sched_setaffinity", Errno::EINVAL)];
        let rails = Rails::build(&plan).unwrap();
        assert_eq!(rails.unheld(), lacks);
        let rail = &rails[RailId(0)];
        assert_eq!(rail.runtime().cpus_now().unwrap(), *topology.allowed_cpus(), "it was bound to nothing");
        carry_a_stream(&rails);

        let mut to = (*rail.planned()).clone();
        to.cpu = topology.allowed_cpus().iter().find(|cpu| *cpu != to.cpu).unwrap_or(to.cpu);
        let moved = block_on(rails.move_rail(to.clone())).unwrap();
        assert_eq!(moved.unheld(), lacks);
        assert_eq!(rail.planned().cpu, to.cpu);
        carry_a_stream(&rails);
    });
}

#[test]
fn tasks_of_rails_whose_cpus_are_unknown() {
    let sandbox = Sandbox::new().deny(Errno::ENOSYS, &["sched_getaffinity", "sched_setaffinity"]);
    sandbox.rerun("tasks_of_rails_whose_cpus_are_unknown", || {
        for request in ["loopback:2", "127.0.0.1@default"] {
            let (topology, plan) = planned(request, false);
            let queues = TaskQueues::new(&topology, 16);
            let rails = Rails::build_with(&plan, |_, runtime| runtime.tasks(&queues)).unwrap();
            assert_eq!(rails.unheld(), [refused(Property::Cpus, "sched_getaffinity", Errno::ENOSYS)]);
            let (ran, runs) = std::sync::mpsc::channel();
            let task = queues.task(topology.online_cpus(), TaskPriority::Normal, move || {
                ran.send(()).unwrap();
                Step::Done
            });
            task.unwrap().submit().unwrap();
            runs.recv_timeout(PATIENCE).expect("a rail runs it");
            carry_a_stream(&rails);
        }
    });
}

#[test]
fn required_placement_that_is_refused() {
    let sandbox = Sandbox::new().deny(Errno::EPERM, &["sched_setaffinity"]);
    sandbox.rerun("required_placement_that_is_refused", || {
        let (_, plan) = planned("loopback:2", true);
        for refused in [Rails::build(&plan).unwrap_err(), Rails::try_placement(&plan).unwrap_err()] {
            let RuntimeError::Bind { name, source: BindError::Denied { call, .. } } = &refused else {
                panic!("{refused:?}");
            };
            assert_eq!((name.as_str(), *call), ("rail-0", "sched_setaffinity"));
        }
        // Nothing is bound for it, so nothing is refused.
        let (_, unbound) = planned("127.0.0.1@default", true);
        assert_eq!(Rails::build(&unbound).unwrap().unheld(), []);
    });
}

#[test]
fn required_memory_policy_that_is_refused() {
    let sandbox = Sandbox::new().deny(Errno::EACCES, &["set_mempolicy"]);
    sandbox.rerun("required_memory_policy_that_is_refused", || {
        let (_, plan) = planned("loopback:1", true);
        let built = Rails::build(&plan);
        match plan.rails[0].node {
            Some(_) => assert!(matches!(built, Err(RuntimeError::Bind { .. })), "{built:?}"),
            None => assert_eq!(built.unwrap().unheld(), []),
        }
    });
}

/// As a user of its own, whose processes count: the thread of this test and that of its program are
/// two.
fn with_threads(user: u32, count: u64) -> Sandbox {
    Sandbox::new().user(UNUSED + user).max_processes(2 + count)
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_rail_without_a_thread_names_the_limit() {
    with_threads(0, 1).rerun("netns_rail_without_a_thread_names_the_limit", || {
        let (_, plan) = planned("loopback:2", false);
        let RuntimeError::Spawn { name, source } = Rails::build(&plan).unwrap_err() else { panic!("one is too many") };
        assert_eq!(name, "rail-1");
        assert!(source.to_string().contains("RLIMIT_NPROC allows the user 3"), "{source}");
    });
}

#[test]
#[ignore = "needs root: it becomes another user"]
fn netns_stream_where_no_further_thread_is_to_be_had() {
    with_threads(1, 1).rerun("netns_stream_where_no_further_thread_is_to_be_had", || {
        let (_, plan) = planned("loopback:1", false);
        let rails = Rails::build(&plan).unwrap();
        let request: RailRequest = "loopback:1".parse().unwrap();
        let followed = rails.follow(&request, FollowOptions::new()).unwrap_err();
        let FollowError::Thread(source) = &followed else { panic!("{followed:?}") };
        assert!(source.to_string().contains("RLIMIT_NPROC allows the user 3"), "{source}");
        let named =
            block_on(MultiRailStream::connect(&rails, "host.invalid:1", &StreamOptions::new(Security::insecure())));
        let named = format!("{:?}", named.unwrap_err());
        assert!(named.contains("RLIMIT_NPROC allows the user 3"), "{named}");
        let computed = rails[RailId(0)].runtime().compute(|| ());
        let Err(TaskError::NoThread(source)) = block_on(computed) else { panic!("there is none") };
        assert!(source.to_string().contains("RLIMIT_NPROC allows the user 3"), "{source}");
        carry_a_stream(&rails);
    });
}

/// The first of users whom no system has.
const UNUSED: u32 = 3_650_000_059;
const PATIENCE: Duration = Duration::from_secs(60);
