//! The rounds of a case: each run has links, servers and a reader of its own.

use super::{
    case::{Case, Contender, Served},
    data::Data,
    outcome::{Outcome, Sample},
    plan::{Figures, Plan, Way},
    process::Process,
    rivals::{Rival, Rivals, Venv},
    shared::{self, Sharing},
    weather::STEPS,
};
use anyhow::{Context, Result, bail, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use rails_cli::print;
use rails_lab::{EmulatedLink, LinkLab, Side};
use rails_topo::Bandwidth;
use rand::{SeedableRng, rngs::ChaCha8Rng, seq::SliceRandom};
use std::{
    fs::{self, File},
    net::TcpStream,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The terms of all cases.
#[derive(Debug)]
pub(crate) struct Contest {
    /// The rate of the line.
    pub(crate) rate: Bandwidth,
    /// The round-trip time.
    pub(crate) rtt: Duration,
    /// The probability of loss, each way.
    pub(crate) loss: f64,
    /// The seed of losses and order.
    pub(crate) seed: u64,
    /// The rounds.
    pub(crate) rounds: usize,
    /// The rivals that take part.
    pub(crate) rivals: Rivals,
    /// The TCP connections of LambdaRAM over each line.
    pub(crate) lanes: u16,
    /// Whether LambdaRAM's package for Python is there.
    pub(crate) has_wheel: bool,
    /// The congestion control of TCP.
    pub(crate) congestion: String,
    /// This program.
    pub(crate) program: PathBuf,
    /// The data.
    pub(crate) data: Data,
    /// The rivals' environment, if there are any.
    pub(crate) venv: Option<Venv>,
}

impl Contest {
    /// Runs every round of a case.
    pub(crate) fn run(&self, case: Case, samples: &mut Vec<Sample>) -> Result<Vec<Outcome>> {
        let all = case.contenders();
        let mut contenders: Vec<&Contender> = all.iter().filter(|contender| self.takes_part(contender)).collect();
        let mut order = ChaCha8Rng::seed_from_u64(self.seed);
        for round in 1..=self.rounds {
            contenders.shuffle(&mut order);
            for contender in &contenders {
                let sample = self.measure(case, contender, round)?;
                print::note(format_args!(
                    "{case:?} {round}/{}: {}: {:.3} s{}",
                    self.rounds,
                    contender.name,
                    sample.figures.seconds,
                    if contender.scale() > 1.0 { " for a part of the steps" } else { "" }
                ));
                samples.push(sample);
            }
        }
        let outcome = |one: &Contender| Outcome::of(one.name, one.steps.len(), one.scale(), samples);
        Ok(all.iter().filter_map(outcome).collect())
    }

    fn takes_part(&self, contender: &Contender) -> bool {
        let Some(rival) = contender.rival else { return true };
        if rival.rivals() > self.rivals {
            return false;
        }
        let wheel = (rival == Rival::Xarray && !self.has_wheel).then_some("it takes --wheel");
        if let Some(reason) = wheel.or(rival.absence()) {
            print::note(format_args!("NOT MEASURED: {}: {reason}", contender.name));
            return false;
        }
        true
    }

    /// A run that counts. One in which the line lost frames for a reason other than its settings is
    /// void, and repeated.
    fn measure(&self, case: Case, contender: &Contender, round: usize) -> Result<Sample> {
        for _ in 0..MAX_VOID_RUNS {
            let sample = self.try_measure(contender, round).with_context(|| format!("{case:?}, {}", contender.name))?;
            let drops: u64 = sample.links.iter().map(|link| link.unplanned_drops()).sum();
            if drops == 0 {
                return Ok(sample);
            }
            print::note(format_args!("VOID: {case:?}: {}: the line lost {drops} frames unplanned", contender.name));
        }
        bail!("{case:?}, {}: {MAX_VOID_RUNS} runs in a row were void: the machine is too busy", contender.name)
    }

    fn try_measure(&self, contender: &Contender, round: usize) -> Result<Sample> {
        let seed = self.seed.wrapping_add(round as u64);
        let rate = self.rate.as_bits_per_second() / contender.share_of_rate;
        let line = EmulatedLink::bits_per_second(rate).rtt(self.rtt).loss(self.loss + contender.loss).seed(seed);
        let builder = (0..contender.servers).fold(LinkLab::builder(), |builder, _| builder.emulated(line));
        let lab = builder.known_neighbours().build()?;
        lab.set_congestion_control(&self.congestion)?;
        forget(self.data.root())?;
        let servers = (0..contender.servers as usize).map(|link| self.serve(&lab, contender, link, rate));
        let mut servers = servers.collect::<Result<Vec<_>>>()?;
        if let Some(sharing) = contender.shared {
            servers.push(shared::serve(&lab, &self.program, &self.origin(&lab, contender), sharing)?);
            let scan = (sharing != Sharing::Alone).then(|| Process::start(self.scan(&lab, contender)?));
            servers.extend(scan.transpose()?);
        }
        let load = load()?;
        let received = |lab: &LinkLab| -> Result<u64> {
            (0..lab.link_count()).map(|link| Ok(lab.counters(Side::A, link)?.rx_bytes)).sum()
        };
        let before = received(&lab)?;
        let mut reader = Process::start(self.reader(&lab, contender)?)?;
        let output = reader.finish(PATIENCE)?;
        let received = received(&lab)? - before;
        let links = (0..lab.link_count()).map(|link| lab.emulated_counters(link)).collect::<Result<_, _>>()?;
        let again = |side| anyhow::Ok(lab.transport_counters(side)?.retransmitted_segments);
        let retransmitted = again(Side::A)? + again(Side::B)?;
        drop(servers);
        let line = output.lines().last().context("the reader printed nothing")?;
        let figures: Figures = serde_json::from_str(line).with_context(|| format!("the reader printed {line}"))?;
        let expected = match contender.way {
            Way::Open => Data::coordinates().to_string(),
            _ => self.data.weather.digest(&contender.window, &contender.steps, &contender.levels).number().to_string(),
        };
        ensure!(figures.digest == expected, "{} read other elements than were written", contender.name);
        Ok(Sample { round, name: contender.name, figures, received, links, retransmitted, load, seed })
    }

    fn serve(&self, lab: &LinkLab, contender: &Contender, link: usize, rate: u64) -> Result<Process> {
        let address = lab.address(Side::B, link);
        if let Some(rival) = contender.rival.filter(|rival| *rival != Rival::Xarray) {
            let venv = self.venv.as_ref().context("a rival has an environment")?;
            let mut command = lab.side(Side::B).command(venv.rclone());
            let folder =
                if rival == Rival::RcloneMount { self.data.root().join("wind") } else { self.data.root().into() };
            command.args(["serve", "http", "--config", "/dev/null", "--read-only", "--no-modtime", "-q"]);
            command.args(["--addr", &format!("{address}:{HTTP_PORT}")]).arg(folder);
            let mut server = Process::start(command)?;
            let side = lab.side(Side::B).clone();
            server.wait_until(|| {
                let inside = side.enter();
                inside.is_ok() && TcpStream::connect((address, HTTP_PORT)).is_ok()
            })?;
            return Ok(server);
        }
        let data = match contender.data {
            Served::Wind => self.data.wind(),
            Served::Variables => self.data.variables(),
            Served::Store(store) => self.data.store(store),
        };
        let mut command = lab.side(Side::B).command(&self.program);
        let ports = PORT..PORT + if contender.celeritas { 1 } else { self.lanes };
        let scheme = if contender.celeritas { "celeritas://" } else { "" };
        let listen: Vec<String> = ports.map(|port| format!("{scheme}{address}:{port}")).collect();
        command.arg("serve").arg(data).args(["--insecure", "--listen", &listen.join(",")]);
        if contender.celeritas {
            // A frame of 1,514 bytes has a packet of 1,500; the rest is for the ends' own frames.
            command.args(["--rate", &format!("{}bit", rate / 100 * 99)]);
        }
        let mut server = Process::start(command)?;
        server.wait_for("serving ")?;
        Ok(server)
    }

    /// The address of LambdaRAM's servers.
    fn origin(&self, lab: &LinkLab, contender: &Contender) -> String {
        let (scheme, lanes) = if contender.celeritas { ("lram+celeritas", 1) } else { ("lram", self.lanes) };
        format!("{scheme}://{}", hosts(lab, PORT..PORT + lanes))
    }

    /// A reader of other data than the contender's, out of the same node.
    fn scan(&self, lab: &LinkLab, contender: &Contender) -> Result<Command> {
        let steps = (0..STEPS).cycle().take(shared::SCANNED_STEPS).collect();
        let plan = Plan {
            address: shared::ADDRESS.into(),
            dataset: "wind".into(),
            array: "wind".into(),
            steps,
            levels: shared::SCANNED_LEVELS.into(),
            window: contender.window.clone(),
            pause: 0.0,
            way: Way::Sequential,
            shared: Some(shared::scanner()),
        };
        let mut command = lab.side(Side::A).command(&self.program);
        command.arg("lab-reader").arg(serde_json::to_string(&plan)?);
        Ok(command)
    }

    fn reader(&self, lab: &LinkLab, contender: &Contender) -> Result<Command> {
        let (dataset, array) = match (contender.rival, contender.data) {
            (Some(Rival::RcloneMount), _) => ("wind", ""),
            (None | Some(Rival::Xarray), Served::Wind) => ("wind", "wind"),
            (None, Served::Variables) => ("variables", ""),
            (None, Served::Store(store)) => (store.name().trim_end_matches(".zarr"), store.name()),
            (Some(_), Served::Variables) => ("variables.zarr", ""),
            (Some(_), Served::Store(store)) => (store.name(), ""),
            (Some(_), Served::Wind) => bail!("{} reads no MAP-Binary", contender.name),
        };
        let plan = Plan {
            address: match contender.rival {
                None if contender.shared.is_some() => shared::ADDRESS.into(),
                None | Some(Rival::Xarray) => self.origin(lab, contender),
                Some(_) => format!("http://{}", hosts(lab, HTTP_PORT..HTTP_PORT + 1)),
            },
            dataset: dataset.into(),
            array: array.into(),
            steps: contender.steps.clone(),
            levels: contender.levels.clone(),
            window: contender.window.clone(),
            pause: contender.pause.as_secs_f64(),
            way: contender.way,
            shared: contender.shared.map(|_| shared::worker()),
        };
        let plan = serde_json::to_string(&plan)?;
        let side = lab.side(Side::A);
        let Some(rival) = contender.rival else {
            let mut command = side.command(&self.program);
            command.arg("lab-reader").arg(plan);
            return Ok(command);
        };
        let venv = self.venv.as_ref().context("a rival has an environment")?;
        let mut command = side.command(venv.python());
        command.arg(venv.script(rival)).arg(plan);
        if rival == Rival::RcloneMount {
            command.arg(venv.rclone()).arg(self.data.wind_offset()?.to_string());
        }
        Ok(command)
    }
}

/// The hosts of an address: each link is one, and its ports are lanes.
fn hosts(lab: &LinkLab, ports: Range<u16>) -> String {
    let lane = |link, port| format!("{}:{port}", lab.address(Side::B, link));
    let host = |link| ports.clone().map(|port| lane(link, port)).collect::<Vec<_>>().join("+");
    (0..lab.link_count()).map(host).collect::<Vec<_>>().join(",")
}

/// Takes the files of a folder out of the page cache. Those of other programs stay, so that no
/// reader waits for its own program.
fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
        } else {
            let file = File::open(&path).with_context(|| format!("open {}", path.display()))?;
            posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
        }
    }
    Ok(())
}

fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("read the load")?;
    text.split(' ').next().and_then(|load| load.parse().ok()).context("/proc/loadavg has no number")
}

/// A run takes seconds; a reader that hangs is found after this time.
const PATIENCE: Duration = Duration::from_secs(180);
const MAX_VOID_RUNS: usize = 4;
const PORT: u16 = 5726;
const HTTP_PORT: u16 = 8080;
