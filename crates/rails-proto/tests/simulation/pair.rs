//! Two ends of a stream, the lanes between them, and a clock that jumps to the next event.

use crate::{
    application::{Application, Habits, Task},
    contrary::Contrary,
    network::{LaneSpec, PIECE, Parcel, Pipe, Stop},
};
use bytes::BytesMut;
use rails_proto::{
    connection::{Config, Connection, Event, EventKind, Failure, LaneEnd, LaneId, LaneTraits, Refused, Wakes},
    lane::{LaneError, LaneProtocol, Next, Outgoing, Received},
    parameters::TransportParameters,
    policy::{Policy, StripePolicy},
    record::Record,
    wire::{FRAME_LEN, Frame, ResetReason},
};
use rand::{RngExt, SeedableRng, rngs::ChaCha8Rng};
use std::{
    collections::BTreeMap,
    io::{self, IoSliceMut},
    time::{Duration, Instant},
};

/// All the parameters of a run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    /// Decides which task runs first if several are ready, and the lengths of writes.
    pub(crate) seed: u64,
    pub(crate) policy: Policy,
    /// A policy that decides instead of `policy`.
    pub(crate) contrary: Option<Contrary>,
    pub(crate) longest_chunk: usize,
    pub(crate) send_buffer: usize,
    pub(crate) max_unacknowledged: u64,
    pub(crate) window: u64,
    pub(crate) outage_limit: Duration,
    pub(crate) linger: Duration,
    /// Whether other threads submit some of the chunks of lanes.
    pub(crate) helped: bool,
    pub(crate) lanes: Vec<LaneSpec>,
    /// The times at which the process of an end is stopped: when, for how long, and which end. Its
    /// transport goes on.
    pub(crate) pauses: Vec<(Duration, Duration, usize)>,
    pub(crate) habits: [Habits; 2],
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// When each end read the end of the stream.
    pub(crate) read_end: [Option<Duration>; 2],
    pub(crate) failures: [Option<Failure>; 2],
    pub(crate) duplicated: [u64; 2],
    /// The gaps in which an end read nothing, by end: their beginnings and lengths.
    pub(crate) gaps: [Vec<(Duration, Duration)>; 2],
    /// The payload bytes that each lane took, by end.
    pub(crate) carried: Vec<[u64; 2]>,
    /// The events of the lanes, by end.
    pub(crate) events: [Vec<(Duration, EventKind)>; 2],
}

impl Scenario {
    /// A scenario of `total` bytes from the first end to the second, with the options' defaults.
    pub(crate) fn one_way(total: u64, lanes: Vec<LaneSpec>) -> Self {
        Self {
            seed: 0,
            policy: Policy::Adaptive,
            contrary: None,
            longest_chunk: 256 << 10,
            send_buffer: 4 << 20,
            max_unacknowledged: 16 << 20,
            window: 16 << 20,
            outage_limit: Duration::from_secs(10),
            linger: Duration::from_secs(3_000),
            helped: false,
            lanes,
            pauses: Vec::new(),
            habits: [Habits::bulk(total), Habits::bulk(0)],
        }
    }

    /// Whether the stream must come to its end.
    fn must_end(&self) -> bool {
        self.lanes.iter().any(|lane| lane.endures(&self.lanes, self.outage_limit))
    }

    fn build_policy(&self) -> Box<dyn StripePolicy> {
        self.contrary.as_ref().map_or_else(|| self.policy.build(), |contrary| Box::new(contrary.clone()))
    }

    /// Runs the scenario to its end, and returns the newest decisions of each end.
    pub(crate) fn run_recorded(&self, capacity: usize) -> [Record; 2] {
        let _named = Named(self);
        let mut world = World::new(self);
        world.ends.iter_mut().for_each(|end| end.connection.record_decisions(capacity));
        world.run(self.must_end(), self.contrary.is_some());
        world.ends.map(|mut end| end.connection.take_record().expect("the end records its decisions"))
    }

    /// Runs the scenario to its end, and checks the invariants on the way. Prints the scenario if
    /// one of them fails.
    pub(crate) fn run(&self) -> Outcome {
        let _named = Named(self);
        self.check()
    }

    /// As [`run`](Self::run), without printing the scenario.
    pub(crate) fn check(&self) -> Outcome {
        let mut world = World::new(self);
        world.run(self.must_end(), self.contrary.is_some());
        world.check_the_end(self);
        let since = |at: Instant| at - world.start;
        Outcome {
            read_end: [0, 1].map(|end: usize| world.ends[end].application.read_end.map(since)),
            failures: [0, 1].map(|end: usize| world.ends[end].connection.failure().cloned()),
            duplicated: [0, 1].map(|end: usize| world.ends[end].connection.received().1),
            gaps: [0, 1].map(|end: usize| {
                world.ends[end].application.gaps.iter().map(|(from, length)| (since(*from), *length)).collect()
            }),
            carried: world.lanes.iter().map(|lane| [0, 1].map(|end: usize| lane.sides[end].carried)).collect(),
            events: [0, 1]
                .map(|end: usize| world.ends[end].events.iter().map(|event| (since(event.at), event.kind)).collect()),
        }
    }
}

/// Prints the scenario if its run panics.
struct Named<'a>(&'a Scenario);

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the scenario that failed: {:#?}", self.0);
        }
    }
}

struct World {
    start: Instant,
    now: Instant,
    random: ChaCha8Rng,
    helped: bool,
    window: u64,
    send_buffer: usize,
    max_unacknowledged: u64,
    ends: [End; 2],
    /// Until when each end's process is stopped.
    paused_until: [Instant; 2],
    lanes: Vec<Lane>,
    /// The planned events, in order of time; the number orders events of one time as they were
    /// planned.
    script: BTreeMap<(Instant, u64), Happening>,
    planned: u64,
}

struct End {
    connection: Connection,
    application: Application,
    events: Vec<Event>,
    /// Whether the end has had a lane: before its first lane there is no stream.
    has_had_a_lane: bool,
}

/// A lane, by end: `sides[end]` sends into `pipes[end]` and receives from the other.
struct Lane {
    /// The lane's number. A connection that replaces another has the same one.
    number: u16,
    spec: LaneSpec,
    broken: bool,
    sides: [Side; 2],
    pipes: [Pipe; 2],
}

/// One end of a lane, with the state of its driver.
#[derive(Default)]
struct Side {
    /// The lane, while it is up.
    up: Option<(LaneId, LaneProtocol<Vec<u8>>)>,
    /// Whether the lane was woken, and its task has not run since.
    notified: bool,
    /// Whether the lane has nothing to send.
    idle: bool,
    /// Whether the lane sends as soon as its connection has room.
    awaits_room: bool,
    /// The timeout that the lane last gave: when its task runs without another event.
    timeout: Option<Instant>,
    /// The bytes that have arrived and that the lane has not read, and whether the peer's close
    /// follows them.
    arrived: BytesMut,
    /// The lane reads when as many have arrived.
    low_water: usize,
    is_closed: bool,
    carried: u64,
    /// The bytes that another thread is about to submit, and the lane that has lent them.
    lent: Option<(LaneId, Outgoing)>,
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    /// Another thread comes to the bytes that a lane has lent.
    Helped {
        lane: usize,
        end: usize,
    },
    Open {
        lane: usize,
        end: usize,
    },
    Rate {
        lane: usize,
        rate: u64,
    },
    Break {
        lane: usize,
    },
    Lost {
        lane: usize,
        end: usize,
    },
    Stop {
        lane: usize,
        stop: Stop,
        begins: bool,
    },
    Leave {
        lane: usize,
        end: usize,
    },
    /// The peer answered, and does not have the stream any more.
    Refused {
        lane: usize,
        end: usize,
    },
    /// An end learns that the link under a lane has gone down or come up.
    Link {
        lane: usize,
        end: usize,
        is_up: bool,
    },
    Pause {
        end: usize,
        time: Duration,
    },
    Resume {
        end: usize,
    },
}

/// A task that can run now.
#[derive(Clone, Copy)]
enum Ready {
    Lane(usize, usize),
    Writer(usize),
    Reader(usize),
}

impl World {
    fn new(scenario: &Scenario) -> Self {
        let start = Instant::now();
        let parameters = TransportParameters { longest_chunk: scenario.longest_chunk as u32, window: scenario.window };
        let Scenario { longest_chunk, send_buffer, max_unacknowledged, outage_limit, linger, .. } = *scenario;
        let config = Config { longest_chunk, send_buffer, max_unacknowledged, parameters, outage_limit, linger };
        let end = |end: usize| End {
            connection: Connection::new(config, scenario.build_policy(), parameters),
            application: Application::new(scenario.habits[end].clone(), end, scenario.seed),
            events: Vec::new(),
            has_had_a_lane: false,
        };
        let mut ends = [end(0), end(1)];
        for End { connection, application, .. } in ends.iter_mut().filter(|end| end.application.sends_messages()) {
            connection.carry_messages(start).expect("the application has written nothing");
            assert!(application.longest_write() <= connection.longest_message().0);
        }
        let mut world = Self {
            start,
            now: start,
            random: ChaCha8Rng::seed_from_u64(scenario.seed),
            helped: scenario.helped,
            window: scenario.window,
            send_buffer,
            max_unacknowledged,
            ends,
            paused_until: [start; 2],
            lanes: Vec::new(),
            script: BTreeMap::new(),
            planned: 0,
        };
        for (number, spec) in (0..).zip(&scenario.lanes) {
            world.add_lane(number, spec.clone());
        }
        for (at, time, end) in scenario.pauses.iter().copied() {
            world.plan(at, Happening::Pause { end, time });
        }
        world
    }

    /// Plans the events of a lane, from its opening on.
    fn add_lane(&mut self, number: u16, spec: LaneSpec) {
        let lane = self.lanes.len();
        // The second end responds: its side of a lane is up first.
        self.plan(spec.opens, Happening::Open { lane, end: 1 });
        spec.changes.iter().for_each(|(at, rate)| self.plan(*at, Happening::Rate { lane, rate: *rate }));
        for (at, time, stop) in spec.stops.iter().copied() {
            self.plan(at, Happening::Stop { lane, stop, begins: true });
            self.plan(at + time, Happening::Stop { lane, stop, begins: false });
        }
        if let Some((at, end)) = spec.leaves {
            self.plan(at, Happening::Leave { lane, end });
        }
        if let Some((at, _)) = spec.breaks {
            self.plan(at, Happening::Break { lane });
        }
        let pipes = [Pipe::new(&spec), Pipe::new(&spec)];
        self.lanes.push(Lane { number, spec, broken: false, sides: Default::default(), pipes });
    }

    fn plan(&mut self, at: Duration, happening: Happening) {
        self.script.insert((self.start + at, self.planned), happening);
        self.planned += 1;
    }

    fn plan_in(&mut self, after: Duration, happening: Happening) {
        self.plan(self.now - self.start + after, happening);
    }

    fn run(&mut self, must_end: bool, is_slow: bool) {
        let patience = match (must_end, is_slow) {
            (true, _) => PATIENCE,
            (false, true) => LAST_LOOK_IF_SLOW,
            (false, false) => LAST_LOOK,
        };
        let mut steps = 0;
        loop {
            while let Some(ready) = self.pick() {
                self.step(ready);
                steps += 1;
                assert!(steps < MAX_STEPS, "the run does not end, {:?} after the start", self.now - self.start);
            }
            let Some(next) = self.next_event() else { return };
            if next - self.start > patience {
                assert!(!must_end, "the run takes too long");
                return;
            }
            self.now = self.now.max(next);
            self.happen();
        }
    }

    /// Picks a ready task at random.
    fn pick(&mut self) -> Option<Ready> {
        let mut ready = Vec::new();
        for (index, lane) in self.lanes.iter().enumerate() {
            let is_ready = |end: &usize| !self.is_paused(*end) && lane.is_ready(*end);
            ready.extend((0..2).filter(is_ready).map(|end| Ready::Lane(index, end)));
        }
        for (index, end) in self.ends.iter().enumerate().filter(|(index, _)| !self.is_paused(*index)) {
            let is_ready = |task| match task {
                Task::Ready => true,
                Task::Until(at) => at <= self.now,
                Task::Waiting | Task::Done => false,
            };
            ready.extend(is_ready(end.application.writer).then_some(Ready::Writer(index)));
            ready.extend(is_ready(end.application.reader).then_some(Ready::Reader(index)));
        }
        if ready.is_empty() { None } else { Some(ready[self.random.random_range(0..ready.len())]) }
    }

    fn step(&mut self, ready: Ready) {
        let end = match ready {
            Ready::Lane(lane, end) => {
                self.drive(lane, end);
                end
            }
            Ready::Writer(end) => {
                let End { connection, application, .. } = &mut self.ends[end];
                application.write(self.now, connection);
                if self.random.random_bool(0.5) {
                    self.transmit_inline(end);
                }
                end
            }
            Ready::Reader(end) => {
                let End { connection, application, .. } = &mut self.ends[end];
                application.read(self.now, connection);
                end
            }
        };
        let End { connection, application, .. } = &mut self.ends[end];
        if application.leaves(connection) {
            connection.drop_application(self.now, 0);
        }
        self.settle(end);
    }

    /// Lets the first lane that the stream names send in the writer's own call, before the others
    /// are woken.
    fn transmit_inline(&mut self, end: usize) {
        let wakes = self.ends[end].connection.take_urgent_wakes();
        self.wake(end, wakes);
        let is_first = |lane: &Lane| lane.sides[end].up.is_some() && lane.sides[end].id() == wakes.lanes().next();
        if let Some(lane) = self.lanes.iter().position(is_first) {
            while self.lanes[lane].is_ready(end) {
                self.drive(lane, end);
                let wakes = self.ends[end].connection.take_urgent_wakes();
                self.wake(end, wakes);
            }
        }
    }

    /// Performs the wakes of a call, and checks the invariants after it.
    fn settle(&mut self, end: usize) {
        let wakes = self.ends[end].connection.take_wakes();
        self.wake(end, wakes);
        self.check_invariants(end);
    }

    fn wake(&mut self, end: usize, wakes: Wakes) {
        let End { connection, application, events, .. } = &mut self.ends[end];
        if wakes.supervisor {
            events.extend(std::iter::from_fn(|| connection.poll_event()));
        }
        for lane in wakes.lanes() {
            let sides = self.lanes.iter_mut().map(|lane| &mut lane.sides[end]);
            sides.filter(|side| side.id() == Some(lane)).for_each(|side| side.notified = true);
        }
        if wakes.reader && application.reader == Task::Waiting {
            application.reader = Task::Ready;
        }
        if wakes.writer && application.writer == Task::Waiting {
            application.writer = Task::Ready;
        }
    }

    fn check_invariants(&self, end: usize) {
        let End { connection, application, .. } = &self.ends[end];
        let (written, consumed) = connection.sent();
        // An end takes a whole message if there is any room, and a message takes up whole slots.
        let mut max_written = self.send_buffer as u64;
        if application.sends_messages() {
            max_written += application.longest_write() + 4;
        } else {
            assert_eq!(written, application.written);
            assert_eq!(connection.received().0, application.read);
        }
        assert!(written - consumed <= self.window + max_written, "the end sends more than it may");
        let kept = connection.stats(self.now).kept;
        assert!(kept <= self.max_unacknowledged + max_written, "the end keeps {kept} bytes");
        let is_lost = |end: usize| matches!(self.ends[end].connection.failure(), Some(Failure::LanesLost { .. }));
        match self.ends[end].connection.failure() {
            None | Some(Failure::LanesLost { .. }) => {}
            // If a lane comes back, the end that has waited too long tells the other.
            Some(Failure::Reset(ResetReason::Dropped)) if is_lost(1 - end) => {}
            Some(failure) => panic!("end {end} failed after {:?}: {failure}", self.now - self.start),
        }
        let other = &self.ends[1 - end];
        assert!(consumed <= other.connection.received().0);
        assert!(self.ends[end].application.read <= other.application.written);
    }

    /// Runs the driver's task of a lane: lets the lane send once, and notes when the task runs
    /// again.
    fn drive(&mut self, lane: usize, end: usize) {
        let limit = self.ends[1 - end].connection.received().0 + self.window;
        let is_helped = self.helped && self.random.random_bool(0.25);
        let Lane { sides, pipes, .. } = &mut self.lanes[lane];
        let (side, pipe, stream) = (&mut sides[end], &mut pipes[end], &mut self.ends[end].connection);
        let (id, protocol) = side.up.as_mut().expect("only a lane that is up is ready");
        if std::mem::take(&mut side.notified) {
            protocol.wake();
        }
        if protocol.end().is_none() {
            let is_new = protocol.is_submitted();
            let next = protocol.transmit(self.now, stream, pipe.has_room());
            side.awaits_room = next == Next::AwaitRoom;
            side.idle = next == Next::Idle;
            match next {
                Next::Submit { .. } if is_helped && protocol.unprepared_chunk() > 0 => {
                    side.lent = Some((*id, protocol.lend()));
                    side.idle = true;
                    // Most helpers come at once, and some lose their CPU.
                    let most = if self.random.random_bool(0.95) { 2_000 } else { 1_000_000 };
                    let after = Duration::from_micros(self.random.random_range(0..most));
                    self.plan_in(after, Happening::Helped { lane, end });
                }
                Next::Submit { .. } => {
                    let (control, payload) = protocol.outgoing();
                    assert!(!is_new || chunks_end(control).all(|end| end <= limit), "a chunk goes beyond the window");
                    let taken = pipe.submit(self.now, control, payload);
                    side.carried += protocol.submitted(taken).map_or(0, u64::from);
                }
                Next::AwaitRoom | Next::Idle => {}
                Next::Close => {
                    pipe.close(self.now);
                    protocol.close_sending(Ok(()));
                }
            }
        }
        self.rest(lane, end);
    }

    /// A lane sleeps until the time that it names, unless it has ended.
    fn rest(&mut self, lane: usize, end: usize) {
        let side = &mut self.lanes[lane].sides[end];
        let Some((_, protocol)) = &mut side.up else { return };
        side.timeout = protocol.poll_timeout(&mut self.ends[end].connection);
        let Some(how) = protocol.end().cloned() else { return };
        let is_honest = matches!(how, Ok(()) | Err(LaneError::Closed | LaneError::Replaced | LaneError::Lingering));
        assert!(is_honest, "an honest end breaks no rule: {how:?}");
        self.lane_down(lane, end, how.as_ref().map_or_else(LaneError::end, |()| LaneEnd::Closed));
        if how.is_err() {
            self.break_lane(lane);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let script = self.script.keys().map(|(at, _)| *at).take(1);
        let pipes = self.lanes.iter().flat_map(|lane| &lane.pipes).filter_map(Pipe::next_event);
        let running = || (0..2).filter(|end: &usize| !self.is_paused(*end));
        let sides = running().flat_map(|end| self.lanes.iter().map(move |lane| &lane.sides[end]));
        let lanes = sides.filter_map(|side| side.timeout);
        let tasks = running().flat_map(|end| [self.ends[end].application.reader, self.ends[end].application.writer]);
        let tasks = tasks.filter_map(|task| if let Task::Until(at) = task { Some(at) } else { None });
        let timeouts = running().filter_map(|end| self.ends[end].connection.poll_timeout());
        script.chain(pipes).chain(lanes).chain(tasks).chain(timeouts).min()
    }

    /// Runs the events that are due by now.
    fn happen(&mut self) {
        while let Some(first) = self.script.first_entry().filter(|first| first.key().0 <= self.now) {
            let happening = first.remove();
            // A process that is stopped learns of it later.
            if let Some(until) = happening.learns().map(|end| self.paused_until[end]).filter(|until| *until > self.now)
            {
                self.plan(until - self.start, happening);
                continue;
            }
            match happening {
                Happening::Open { lane, end } => self.open(lane, end),
                Happening::Rate { lane, rate } => {
                    self.lanes[lane].pipes.iter_mut().for_each(|pipe| pipe.set_rate(self.now, rate));
                }
                Happening::Break { lane } => self.break_lane(lane),
                Happening::Lost { lane, end } => {
                    self.lane_down(lane, end, LaneEnd::Lost);
                    if let (0, Some(after)) = (end, self.lanes[lane].spec.returns) {
                        self.dial_again(lane, after);
                    }
                }
                Happening::Stop { lane, stop, begins } => self.stop(lane, stop, begins),
                Happening::Leave { lane, end } => {
                    if let Some(id) = self.lanes[lane].sides[end].id() {
                        self.ends[end].connection.leave(self.now, id);
                        self.settle(end);
                    }
                }
                Happening::Helped { lane, end } => self.help(lane, end),
                Happening::Refused { lane, end } => {
                    self.ends[end].connection.dial_failed(self.now, self.lanes[lane].number, Some(Refused::Stream));
                    self.settle(end);
                }
                Happening::Link { lane, end, is_up } => {
                    if let Some(id) = self.lanes[lane].sides[end].id() {
                        let connection = &mut self.ends[end].connection;
                        if is_up {
                            connection.link_up(self.now, id)
                        } else {
                            connection.link_down(self.now, id)
                        }
                        self.settle(end);
                    }
                }
                Happening::Pause { end, time } => {
                    self.paused_until[end] = self.paused_until[end].max(self.now + time);
                    let over = self.paused_until[end] - self.start;
                    self.plan(over, Happening::Resume { end });
                }
                // The end's tasks come in any order: some timeouts may be handled first.
                Happening::Resume { end } if !self.is_paused(end) && self.random.random_bool(0.5) => {
                    self.receive_on_all(end);
                }
                Happening::Resume { .. } => {}
            }
        }
        let running: Vec<usize> = (0..2).filter(|end| !self.is_paused(*end)).collect();
        for end in running.iter().copied() {
            self.ends[end].connection.handle_timeout(self.now);
            self.settle(end);
        }
        let sides = |lane| running.iter().map(move |end| (lane, *end));
        for (lane, end) in (0..self.lanes.len()).flat_map(sides) {
            let Lane { sides, pipes, .. } = &mut self.lanes[lane];
            let Side { up: Some((_, protocol)), timeout, idle, .. } = &mut sides[end] else { continue };
            if timeout.is_some_and(|at| at <= self.now) {
                protocol.handle_timeout(self.now, &mut self.ends[end].connection, || pipes[end].sample(self.now));
                // An acknowledgement may be due.
                *idle = false;
                self.rest(lane, end);
                let next = self.lanes[lane].sides[end].timeout;
                assert!(next.is_none_or(|next| next > self.now), "a lane waits for a time that has passed");
                self.settle(end);
            }
        }
        for lane in 0..self.lanes.len() {
            for end in 0..2 {
                for parcel in self.lanes[lane].pipes[1 - end].arrivals(self.now) {
                    self.arrive(lane, end, parcel);
                }
            }
        }
        for end in running {
            self.receive_on_all(end);
        }
    }

    fn is_paused(&self, end: usize) -> bool {
        self.now < self.paused_until[end]
    }

    /// Has each lane read the bytes that arrived while its process was stopped.
    fn receive_on_all(&mut self, end: usize) {
        for lane in 0..self.lanes.len() {
            let Side { up, arrived, low_water, is_closed, .. } = &self.lanes[lane].sides[end];
            if up.is_some() && (*is_closed || arrived.len() >= *low_water) {
                self.receive(lane, end);
            }
        }
    }

    /// Another thread submits the bytes that a lane has lent.
    fn help(&mut self, lane: usize, end: usize) {
        let Lane { sides, pipes, .. } = &mut self.lanes[lane];
        let (side, pipe) = (&mut sides[end], &mut pipes[end]);
        // The lane may have ended meanwhile, and another one have come, which has lent others.
        let Some((lender, mut outgoing)) = side.lent.take() else { return };
        let Some((_, protocol)) = side.up.as_mut().filter(|(id, _)| *id == lender) else { return };
        if pipe.has_room() {
            let (control, payload) = outgoing.bytes();
            let taken = pipe.submit(self.now, control, payload);
            outgoing.submitted(taken);
        }
        side.carried += protocol.give_back(outgoing).map_or(0, u64::from);
        side.idle = false;
    }

    /// Opens a lane at this end: its handshake is over here.
    fn open(&mut self, lane: usize, end: usize) {
        let connection = &mut self.ends[end].connection;
        let over = connection.failure().is_some();
        if self.lanes[lane].broken || over {
            if over && end == 1 {
                self.plan_in(self.lanes[lane].spec.delay, Happening::Refused { lane, end: 0 });
            }
            return self.break_lane(lane);
        }
        let Lane { number, spec: LaneSpec { delay, seems, .. }, .. } = self.lanes[lane];
        let traits = LaneTraits { number, weight: 1, rtt: seems.or(Some(2 * delay)) };
        let id = connection.lane_up(self.now, traits).ok();
        self.lanes[lane].sides[end].up = id.map(|id| (id, LaneProtocol::new(id, None, None)));
        self.ends[end].has_had_a_lane = true;
        self.settle(end);
        if end == 1 {
            self.plan_in(self.lanes[lane].spec.delay, Happening::Open { lane, end: 0 });
        }
    }

    fn break_lane(&mut self, lane: usize) {
        if std::mem::replace(&mut self.lanes[lane].broken, true) {
            return;
        }
        self.lanes[lane].pipes.iter_mut().for_each(Pipe::break_down);
        let spec = &self.lanes[lane].spec;
        let detection = spec.breaks.map_or([spec.delay; 2], |(_, detection)| detection);
        for (end, after) in detection.into_iter().enumerate() {
            self.plan_in(after, Happening::Lost { lane, end });
        }
    }

    /// Dials a lane again, as the first end's dialler does: a new lane replaces the lost one.
    fn dial_again(&mut self, lane: usize, after: Duration) {
        let connection = &self.ends[0].connection;
        if connection.is_done() || connection.failure().is_some() {
            return;
        }
        let LaneSpec { rate, delay, buffer, ref returns_as, .. } = self.lanes[lane].spec;
        let opens = self.now - self.start + after;
        let next = returns_as.as_deref().cloned();
        let next = next.unwrap_or_else(|| LaneSpec { rate, ..LaneSpec::steady(0, delay, buffer) });
        self.add_lane(self.lanes[lane].number, LaneSpec { opens, ..next });
    }

    fn stop(&mut self, lane: usize, stop: Stop, begins: bool) {
        for (sender, pipe) in self.lanes[lane].pipes.iter_mut().enumerate() {
            // The bytes lost towards one end include the acknowledgements of that end's bytes.
            match stop {
                Stop::OneWay(end) if end == sender => pipe.stop(self.now, begins),
                Stop::OneWay(_) => pipe.stop_hearing(self.now, begins),
                Stop::BothWays | Stop::LinkDown(_) => pipe.stop(self.now, begins),
            }
        }
        if let Stop::LinkDown(end) = stop {
            self.plan_in(Duration::ZERO, Happening::Link { lane, end, is_up: !begins });
        }
    }

    fn lane_down(&mut self, lane: usize, end: usize, how: LaneEnd) {
        let Some((id, _)) = self.lanes[lane].sides[end].up.take() else { return };
        self.lanes[lane].sides[end].timeout = None;
        self.ends[end].connection.lane_down(self.now, id, how);
        self.settle(end);
    }

    fn arrive(&mut self, lane: usize, end: usize, parcel: Parcel) {
        let side = &mut self.lanes[lane].sides[end];
        if side.up.is_none() {
            return;
        }
        match parcel {
            Parcel::Bytes(bytes) => {
                side.arrived.extend_from_slice(&bytes);
                if side.arrived.len() >= side.low_water && !self.is_paused(end) {
                    self.receive(lane, end);
                }
            }
            Parcel::End => {
                side.is_closed = true;
                if !self.is_paused(end) {
                    self.receive(lane, end);
                }
            }
        }
    }

    /// Has the lane read the bytes that have arrived, in portions of any length.
    fn receive(&mut self, lane: usize, end: usize) {
        loop {
            let Side { up: Some((_, protocol)), arrived, is_closed, .. } = &mut self.lanes[lane].sides[end] else {
                return;
            };
            let stream = &mut self.ends[end].connection;
            let most = self.random.random_range(0..2 * PIECE);
            let received = protocol.receive(self.now, stream, |buffers| read(arrived, *is_closed, most, buffers));
            self.rest(lane, end);
            self.settle(end);
            match received {
                Received::Some { .. } => {}
                Received::Nothing => break,
                Received::End => return,
            }
        }
        let Side { up, low_water, .. } = &mut self.lanes[lane].sides[end];
        if let Some(new) = up.as_mut().and_then(|(_, protocol)| protocol.take_low_water()) {
            *low_water = new;
        }
    }

    fn check_the_end(&mut self, scenario: &Scenario) {
        let endures = scenario.must_end();
        for end in 0..2 {
            let End { connection, application, has_had_a_lane, .. } = &self.ends[end];
            let other = &self.ends[1 - end].application;
            let state = format!(
                "end {end}, {:?} after the start: {connection:?}\nthe other: {:?}",
                self.now - self.start,
                self.ends[1 - end].connection
            );
            if endures {
                assert!(connection.is_done(), "the stream stands still: {state}");
            }
            // An application that has dropped the stream does not read the bytes that arrive.
            if connection.is_sent() && !other.gone {
                assert_eq!(other.read, application.written, "acknowledged bytes have not arrived: {state}");
            }
            if connection.is_done() && (application.gone || other.gone) {
                assert_eq!(connection.failure(), None, "{state}");
                if !application.gone {
                    assert_eq!(application.read, other.written, "bytes written before a drop are lost: {state}");
                    assert!(application.read_end.is_some() && application.writer == Task::Done, "not told: {state}");
                }
            } else if connection.is_done() {
                assert_eq!(connection.failure(), None, "{state}");
                assert_eq!(application.written, scenario.habits[end].total, "{state}");
                assert_eq!(application.read, scenario.habits[1 - end].total, "{state}");
                assert!(application.read_end.is_some() && application.writer == Task::Done, "not told: {state}");
            } else if connection.failure().is_some() {
                assert_eq!((application.reader, application.writer), (Task::Done, Task::Done), "not told: {state}");
            }
            let left: Vec<&Lane> = self.lanes.iter().filter(|lane| lane.sides[end].up.is_some()).collect();
            if left.is_empty() && *has_had_a_lane {
                assert!(
                    connection.failure().is_some() || connection.is_done(),
                    "the stream waits for a lane without end: {state}"
                );
            }
            // The driver closes a stalled lane in time.
            assert!(left.iter().all(|lane| lane.spec.is_stalled_in_the_end()) || !endures, "a lane is left: {state}");
        }
        self.check_calls_after_the_end();
    }

    /// After the end, calls have no more effect.
    fn check_calls_after_the_end(&mut self) {
        for End { connection, application, .. } in &mut self.ends {
            let (done, failure) = (connection.is_done(), connection.failure().cloned());
            connection.handle_reset(self.now, ResetReason::Dropped);
            connection.finish(self.now);
            connection.drop_application(self.now, 0);
            assert_eq!(connection.writable_bytes(), 0);
            assert!(application.gone || connection.read(self.now).is_none(), "there are bytes to read behind the end");
            let _ = connection.take_wakes();
            if done || failure.is_some() {
                assert_eq!((connection.is_done(), connection.failure().cloned()), (done, failure));
            }
        }
    }
}

impl Happening {
    /// The end whose process learns of the event.
    fn learns(self) -> Option<usize> {
        match self {
            Self::Helped { end, .. }
            | Self::Open { end, .. }
            | Self::Lost { end, .. }
            | Self::Leave { end, .. }
            | Self::Refused { end, .. }
            | Self::Link { end, .. } => Some(end),
            Self::Rate { .. } | Self::Break { .. } | Self::Stop { .. } | Self::Pause { .. } | Self::Resume { .. } => {
                None
            }
        }
    }
}

impl Lane {
    fn is_ready(&self, end: usize) -> bool {
        let (side, pipe) = (&self.sides[end], &self.pipes[end]);
        let Some((_, protocol)) = &side.up else { return false };
        let has_room = pipe.has_room() || protocol.is_submitted() && !side.awaits_room;
        side.notified || !side.idle && has_room
    }
}

impl Side {
    fn id(&self) -> Option<LaneId> {
        self.up.as_ref().map(|(id, _)| *id)
    }
}

/// Reads as readv(2) does, from a socket with these bytes that is interrupted or returns at most
/// `most` of them.
fn read(arrived: &mut BytesMut, is_closed: bool, most: usize, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    if arrived.is_empty() {
        return if is_closed { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) };
    }
    if most == 0 {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let mut count = 0;
    for buffer in buffers {
        let length = buffer.len().min(arrived.len()).min(most - count);
        buffer[..length].copy_from_slice(&arrived.split_to(length));
        count += length;
    }
    Ok(count)
}

/// The end offsets of the chunks in these frames.
fn chunks_end(frames: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (frames, rest) = frames.as_chunks::<FRAME_LEN>();
    assert!(rest.is_empty() && !frames.is_empty(), "frames are whole");
    frames.iter().filter_map(|frame| match Frame::decode(frame).expect("an honest end sends frames") {
        Frame::Data(header) => Some(header.offset + u64::from(header.length)),
        _ => None,
    })
}

/// The most steps of a run. No run comes near it, unless lanes run in circles.
const MAX_STEPS: usize = 1_000_000;
/// The time in which an end checks its stalled lanes after its peer has given up.
const LAST_LOOK: Duration = Duration::from_secs(120);
/// As [`LAST_LOOK`], for an end that learns slowly, within its linger time.
const LAST_LOOK_IF_SLOW: Duration = Duration::from_secs(2_500);
/// The longest time of a run.
const PATIENCE: Duration = Duration::from_secs(3_600);
