//! Two ends of a session, the lanes between them, and a clock that jumps to the next event.

use crate::{
    application::{Application, Habits, Task},
    contrary::Contrary,
    network::{LaneSpec, PIECE, Parcel, Pipe, Stop},
};
use bytes::BytesMut;
use rails_proto::{
    lane::{LaneError, LaneProtocol, Next, Outgoing, Received},
    parameters::TransportParameters,
    policy::{Policy, StripePolicy},
    record::Record,
    session::{Config, Event, EventKind, Failure, LaneEnd, LaneId, LaneTraits, Refused, Session, Wakes},
    stream_number::{self, StreamNumber},
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
    pub(crate) fn must_end(&self) -> bool {
        self.lanes.iter().any(|lane| lane.endures(&self.lanes, self.outage_limit))
    }

    fn build_policy(&self) -> Box<dyn StripePolicy> {
        self.contrary.as_ref().map_or_else(|| self.policy.build(), |contrary| Box::new(contrary.clone()))
    }

    /// Runs the scenario to its end, and returns the newest decisions of each end.
    pub(crate) fn run_recorded(&self, capacity: usize) -> [Record; 2] {
        let _named = Named(self);
        let mut world = World::of(self);
        world.ends.iter_mut().for_each(|end| end.session.record_decisions(capacity));
        world.run(self.must_end(), self.contrary.is_some());
        world.ends.map(|mut end| end.session.take_record().expect("the end records its decisions"))
    }

    /// Runs the scenario to its end, and checks the invariants on the way. Prints the scenario if
    /// one of them fails.
    pub(crate) fn run(&self) -> Outcome {
        let _named = Named(self);
        self.check()
    }

    /// As [`run`](Self::run), without printing the scenario.
    pub(crate) fn check(&self) -> Outcome {
        let mut world = World::of(self);
        world.run(self.must_end(), self.contrary.is_some());
        world.check_the_end(self);
        let since = |at: Instant| at - world.start;
        Outcome {
            read_end: [0, 1].map(|end: usize| world.ends[end].application.read_end.map(since)),
            failures: [0, 1].map(|end: usize| world.ends[end].session.failure().cloned()),
            duplicated: [0, 1].map(|end: usize| world.ends[end].session.received().1),
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

/// An application at one end: its two tasks, and its checks.
pub(crate) trait Party: Sized {
    fn writer(&self) -> Task;

    fn reader(&self) -> Task;

    /// Runs the writing task.
    fn write(&mut self, now: Instant, session: &mut Session);

    /// Runs the reading task.
    fn read(&mut self, now: Instant, session: &mut Session);

    /// Performs the wakes of tasks.
    fn wake(&mut self, session: &mut Session, wakes: Wakes);

    /// Checks an end and its peer after a step.
    fn check(world: &World<Self>, end: usize);
}

pub(crate) struct World<P> {
    start: Instant,
    pub(crate) now: Instant,
    random: ChaCha8Rng,
    helped: bool,
    window: u64,
    send_buffer: usize,
    max_unacknowledged: u64,
    pub(crate) ends: [End<P>; 2],
    /// Until when each end's process is stopped.
    paused_until: [Instant; 2],
    lanes: Vec<Lane>,
    /// The planned events, in order of time; the number orders events of one time as they were
    /// planned.
    script: BTreeMap<(Instant, u64), Happening>,
    planned: u64,
}

pub(crate) struct End<P> {
    pub(crate) session: Session,
    pub(crate) application: P,
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

impl<P: Party> World<P> {
    /// The world of a scenario, with ends that tell each other these parameters.
    pub(crate) fn new(scenario: &Scenario, parameters: TransportParameters, party: impl Fn(usize) -> P) -> Self {
        let start = Instant::now();
        let Scenario { longest_chunk, send_buffer, max_unacknowledged, outage_limit, linger, .. } = *scenario;
        let side = |end| if end == 0 { stream_number::Side::Initiator } else { stream_number::Side::Responder };
        let config = |end| Config {
            longest_chunk,
            send_buffer,
            max_unacknowledged,
            parameters,
            side: side(end),
            outage_limit,
            linger,
        };
        let end = |end: usize| End {
            session: Session::new(config(end), scenario.build_policy(), parameters),
            application: party(end),
            events: Vec::new(),
            has_had_a_lane: false,
        };
        let ends = [end(0), end(1)];
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

    pub(crate) fn run(&mut self, must_end: bool, is_slow: bool) {
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
                let [near, far] = &self.ends;
                assert!(!must_end, "the run takes too long:\n{:?}\n{:?}", near.session, far.session);
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
            ready.extend(is_ready(end.application.writer()).then_some(Ready::Writer(index)));
            ready.extend(is_ready(end.application.reader()).then_some(Ready::Reader(index)));
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
                let End { session, application, .. } = &mut self.ends[end];
                application.write(self.now, session);
                if self.random.random_bool(0.5) {
                    self.transmit_inline(end);
                }
                end
            }
            Ready::Reader(end) => {
                let End { session, application, .. } = &mut self.ends[end];
                application.read(self.now, session);
                end
            }
        };
        self.settle(end);
    }

    /// Lets the first lane that the stream names send in the writer's own call, before the others
    /// are woken.
    fn transmit_inline(&mut self, end: usize) {
        let wakes = self.ends[end].session.take_urgent_wakes();
        self.wake(end, wakes);
        let is_first = |lane: &Lane| lane.sides[end].up.is_some() && lane.sides[end].id() == wakes.lanes().next();
        if let Some(lane) = self.lanes.iter().position(is_first) {
            while self.lanes[lane].is_ready(end) {
                self.drive(lane, end);
                let wakes = self.ends[end].session.take_urgent_wakes();
                self.wake(end, wakes);
            }
        }
    }

    /// Performs the wakes of a call, and checks the invariants after it.
    fn settle(&mut self, end: usize) {
        let wakes = self.ends[end].session.take_wakes();
        self.wake(end, wakes);
        P::check(self, end);
    }

    fn wake(&mut self, end: usize, wakes: Wakes) {
        let End { session, application, events, .. } = &mut self.ends[end];
        if wakes.supervisor {
            events.extend(std::iter::from_fn(|| session.poll_event()));
        }
        for lane in wakes.lanes() {
            let sides = self.lanes.iter_mut().map(|lane| &mut lane.sides[end]);
            sides.filter(|side| side.id() == Some(lane)).for_each(|side| side.notified = true);
        }
        application.wake(session, wakes);
    }

    /// Runs the driver's task of a lane: lets the lane send once, and notes when the task runs
    /// again.
    fn drive(&mut self, lane: usize, end: usize) {
        let one_stream = !self.ends[end].session.has_many();
        let limit = self.ends[1 - end].session.received().0 + self.window;
        let is_helped = self.helped && self.random.random_bool(0.25);
        let Lane { sides, pipes, .. } = &mut self.lanes[lane];
        let (side, pipe, stream) = (&mut sides[end], &mut pipes[end], &mut self.ends[end].session);
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
                    let is_within = |frames| chunks_end(frames).all(|end| end <= limit);
                    assert!(!is_new || !one_stream || is_within(control), "a chunk goes beyond the window");
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
        side.timeout = protocol.poll_timeout(&mut self.ends[end].session);
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
        let tasks =
            running().flat_map(|end| [self.ends[end].application.reader(), self.ends[end].application.writer()]);
        let tasks = tasks.filter_map(|task| if let Task::Until(at) = task { Some(at) } else { None });
        let timeouts = running().filter_map(|end| self.ends[end].session.poll_timeout());
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
                        self.ends[end].session.leave(self.now, id);
                        self.settle(end);
                    }
                }
                Happening::Helped { lane, end } => self.help(lane, end),
                Happening::Refused { lane, end } => {
                    self.ends[end].session.dial_failed(self.now, self.lanes[lane].number, Some(Refused::Stream));
                    self.settle(end);
                }
                Happening::Link { lane, end, is_up } => {
                    if let Some(id) = self.lanes[lane].sides[end].id() {
                        let session = &mut self.ends[end].session;
                        if is_up {
                            session.link_up(self.now, id)
                        } else {
                            session.link_down(self.now, id)
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
            self.ends[end].session.handle_timeout(self.now);
            self.settle(end);
        }
        let sides = |lane| running.iter().map(move |end| (lane, *end));
        for (lane, end) in (0..self.lanes.len()).flat_map(sides) {
            let Lane { sides, pipes, .. } = &mut self.lanes[lane];
            let Side { up: Some((_, protocol)), timeout, idle, .. } = &mut sides[end] else { continue };
            if timeout.is_some_and(|at| at <= self.now) {
                protocol.handle_timeout(self.now, &mut self.ends[end].session, || pipes[end].sample(self.now));
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
        let session = &mut self.ends[end].session;
        let over = session.failure().is_some();
        if self.lanes[lane].broken || over {
            if over && end == 1 {
                self.plan_in(self.lanes[lane].spec.delay, Happening::Refused { lane, end: 0 });
            }
            return self.break_lane(lane);
        }
        let Lane { number, spec: LaneSpec { delay, seems, .. }, .. } = self.lanes[lane];
        let traits = LaneTraits { number, weight: 1, rtt: seems.or(Some(2 * delay)) };
        let id = session.lane_up(self.now, traits).ok();
        self.lanes[lane].sides[end].up = id.map(|id| (id, LaneProtocol::new(id, None, None)));
        self.ends[end].has_had_a_lane = true;
        self.settle(end);
        self.receive(lane, end);
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
        let session = &self.ends[0].session;
        if session.is_done() || session.failure().is_some() {
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
        self.ends[end].session.lane_down(self.now, id, how);
        self.settle(end);
    }

    fn arrive(&mut self, lane: usize, end: usize, parcel: Parcel) {
        let side = &mut self.lanes[lane].sides[end];
        // Before the lane is up here, the socket keeps what arrives.
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
            let stream = &mut self.ends[end].session;
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
}

impl World<Application> {
    fn of(scenario: &Scenario) -> Self {
        let parameters = TransportParameters::one_stream(scenario.longest_chunk as u32, scenario.window);
        let party = |end: usize| Application::new(scenario.habits[end].clone(), end, scenario.seed);
        let mut world = Self::new(scenario, parameters, party);
        for End { session, application, .. } in world.ends.iter_mut().filter(|end| end.application.sends_messages()) {
            session.carry_messages(world.start, StreamNumber::FIRST).expect("the application has written nothing");
            assert!(application.longest_write() <= session.longest_message().0);
        }
        world
    }

    fn check_the_end(&mut self, scenario: &Scenario) {
        let endures = scenario.must_end();
        for end in 0..2 {
            let End { session, application, has_had_a_lane, .. } = &self.ends[end];
            let other = &self.ends[1 - end].application;
            let state = format!(
                "end {end}, {:?} after the start: {session:?}\nthe other: {:?}",
                self.now - self.start,
                self.ends[1 - end].session
            );
            if endures {
                assert!(session.is_done(), "the stream stands still: {state}");
            }
            // An application that has dropped the stream does not read the bytes that arrive.
            if session.is_sent() && !other.gone {
                assert_eq!(other.read, application.written, "acknowledged bytes have not arrived: {state}");
            }
            if session.is_done() && (application.gone || other.gone) {
                assert_eq!(session.failure(), None, "{state}");
                if !application.gone {
                    assert_eq!(application.read, other.written, "bytes written before a drop are lost: {state}");
                    assert!(application.read_end.is_some() && application.writer == Task::Done, "not told: {state}");
                }
            } else if session.is_done() {
                assert_eq!(session.failure(), None, "{state}");
                assert_eq!(application.written, scenario.habits[end].total, "{state}");
                assert_eq!(application.read, scenario.habits[1 - end].total, "{state}");
                assert!(application.read_end.is_some() && application.writer == Task::Done, "not told: {state}");
            } else if session.failure().is_some() {
                assert_eq!((application.reader, application.writer), (Task::Done, Task::Done), "not told: {state}");
            }
            let left: Vec<&Lane> = self.lanes.iter().filter(|lane| lane.sides[end].up.is_some()).collect();
            if left.is_empty() && *has_had_a_lane {
                assert!(
                    session.failure().is_some() || session.is_done(),
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
        for End { session, application, .. } in &mut self.ends {
            let (done, failure) = (session.is_done(), session.failure().cloned());
            session.handle_reset(self.now, ResetReason::Dropped);
            session.finish(self.now, StreamNumber::FIRST);
            session.drop_application(self.now, 0);
            assert_eq!(session.writable_bytes(StreamNumber::FIRST), 0);
            assert!(
                application.gone || session.read(self.now, StreamNumber::FIRST).is_none(),
                "there are bytes to read behind the end"
            );
            let _ = session.take_wakes();
            if done || failure.is_some() {
                assert_eq!((session.is_done(), session.failure().cloned()), (done, failure));
            }
        }
    }
}

impl Party for Application {
    fn writer(&self) -> Task {
        self.writer
    }

    fn reader(&self) -> Task {
        self.reader
    }

    fn write(&mut self, now: Instant, session: &mut Session) {
        self.write_next(now, session);
        self.leave_if_due(now, session);
    }

    fn read(&mut self, now: Instant, session: &mut Session) {
        self.read_next(now, session);
        self.leave_if_due(now, session);
    }

    fn wake(&mut self, _: &mut Session, wakes: Wakes) {
        if wakes.reader && self.reader == Task::Waiting {
            self.reader = Task::Ready;
        }
        if wakes.writer && self.writer == Task::Waiting {
            self.writer = Task::Ready;
        }
    }

    fn check(world: &World<Self>, end: usize) {
        let End { session, application, .. } = &world.ends[end];
        let (written, consumed) = session.sent();
        // An end takes a whole message if there is any room, and a message takes up whole slots.
        let mut max_written = world.send_buffer as u64;
        if application.sends_messages() {
            max_written += application.longest_write() + 4;
        } else {
            assert_eq!(written, application.written);
            assert_eq!(session.received().0, application.read);
        }
        assert!(written - consumed <= world.window + max_written, "the end sends more than it may");
        let kept = session.stats(world.now).kept;
        assert!(kept <= world.max_unacknowledged + max_written, "the end keeps {kept} bytes");
        let is_lost = |end: usize| matches!(world.ends[end].session.failure(), Some(Failure::LanesLost { .. }));
        match world.ends[end].session.failure() {
            None | Some(Failure::LanesLost { .. }) => {}
            // If a lane comes back, the end that has waited too long tells the other.
            Some(Failure::Reset(ResetReason::Dropped)) if is_lost(1 - end) => {}
            Some(failure) => panic!("end {end} failed after {:?}: {failure}", world.now - world.start),
        }
        let other = &world.ends[1 - end];
        assert!(consumed <= other.session.received().0);
        assert!(world.ends[end].application.read <= other.application.written);
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
