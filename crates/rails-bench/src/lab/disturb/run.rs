//! Running scenarios: both ends as processes, the link disturbed under them, and all events
//! recorded.

use super::{Course, DisturbContest, DisturbSample, Disturbance, Happened, LinkLook, scenario::times};
use crate::{
    lab::{
        compare::{Contender, ContestError, Running, Testbed, own, testbed::halves},
        fault::{Fault, Happening},
    },
    measure::series::Series,
};
use rails_lab::Side;
use rails_topo::Topology;
use rand::{SeedableRng, seq::SliceRandom};
use serde::Deserialize;
use std::{
    thread::sleep,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The parts of the receiver's report that are read.
#[derive(Deserialize)]
struct Report {
    bytes: u64,
    wrong_at: Option<u64>,
    series: Series,
}

/// The parts of the sender's report that are read.
#[derive(Deserialize)]
struct Sent {
    bytes_written: u64,
}

impl DisturbContest {
    /// Makes the links anew for each run, so that runs do not affect each other. Calls `progress`
    /// before each run.
    ///
    /// # Errors
    /// [`ContestError`]. Links that were made are taken down. A contender that fails is no error,
    /// but a failed sample.
    ///
    /// # Privileges
    /// Root, for the namespaces.
    pub(crate) fn run(
        &self,
        topology: &Topology,
        mut progress: impl FnMut(usize, Contender),
    ) -> Result<Disturbance, ContestError> {
        let mut order = rand::rngs::ChaCha8Rng::seed_from_u64(self.terms.seed);
        let mut samples = Vec::new();
        for round in 1..=self.terms.rounds {
            let mut contenders = self.contenders.clone();
            contenders.shuffle(&mut order);
            for contender in contenders {
                progress(round, contender);
                samples.extend(self.measure(topology, round, contender)?);
            }
        }
        Ok(Disturbance::new(self, samples))
    }

    fn measure(
        &self,
        topology: &Topology,
        round: usize,
        contender: Contender,
    ) -> Result<Option<DisturbSample>, ContestError> {
        let cpus = halves(topology.allowed_cpus());
        let testbed = Testbed::build(&self.links, cpus, self.time, &self.terms)?;
        let Some(own) = own(contender, &testbed) else { return Ok(None) };
        let mut warnings = Vec::new();
        if contender == Contender::Mptcp {
            testbed.lab.enable_mptcp()?;
        }
        // The sender continues for a while after the last observation.
        let mut running = own.start(&testbed, self.time + SLACK, &["--samples", "20ms", "--check"])?;
        let at_start = sent(&testbed)?;
        running
            .sender
            .wait_until(|| Ok(sent(&testbed)?.iter().sum::<u64>() > at_start.iter().sum::<u64>() + FLOWING))?;
        let course = self.disturb(&testbed)?;
        if contender == Contender::Mptcp {
            let joins = testbed.lab.transport_counters(Side::A)?.mptcp_joins.unwrap_or(0);
            if joins + 1 < self.links.len() as u64 {
                warnings.push(format!("{} subflow(s) on {} link(s)", joins + 1, self.links.len()));
            }
        }
        let (reports, failed) = match finish(running) {
            Ok(reports) => (Some(reports), None),
            Err(error @ (ContestError::Failed { .. } | ContestError::Report(_))) => (None, Some(error.to_string())),
            Err(error) => return Err(error),
        };
        if !course.was_in_time() {
            warnings.push("the link was not changed in time: this machine was too busy".to_owned());
        }
        let (sent, report) = reports.unzip();
        Ok(Some(DisturbSample {
            round,
            contender,
            course,
            bytes_written: sent.map(|sent| sent.bytes_written),
            bytes: report.as_ref().map(|report| report.bytes),
            wrong_at: report.as_ref().and_then(|report| report.wrong_at),
            series: report.map(|report| report.series),
            failed,
            warnings,
        }))
    }

    /// Makes the events happen, and observes the links meanwhile.
    fn disturb(&self, testbed: &Testbed) -> Result<Course, ContestError> {
        let last = self.links.len() - 1;
        let mbit = self.links[last].mbit().unwrap_or(UNSHAPED_MBIT);
        let fault = self.scenario.fault(mbit);
        let mut due = times(self.time).into_iter().zip([true, false]).peekable();
        let (mut happened, mut looks, mut late) = (Vec::new(), Vec::new(), Duration::ZERO);
        let (zero, begun) = (Instant::now(), unix_now());
        while zero.elapsed() < self.time {
            if let Some((at, begins)) = due.next_if(|(at, _)| zero.elapsed() >= *at) {
                let what = Happening { link: last, fault, begins };
                happened.push(Happened { unix_seconds: unix_now(), what });
                what.happen(&testbed.lab, self.links[last])?;
                if matches!(fault, Fault::Down(_)) && !begins {
                    // The routes have lost the congestion control with the interface, and later
                    // connections need it.
                    testbed.lab.set_congestion_control(&testbed.congestion)?;
                }
                late = late.max(zero.elapsed() - at);
            }
            looks.push(LinkLook { unix_seconds: unix_now(), tx_bytes: sent(testbed)? });
            sleep(INTERVAL);
        }
        Ok(Course {
            begun_unix_seconds: begun,
            ended_unix_seconds: unix_now(),
            happenings: happened,
            late_seconds: due.peek().is_none().then_some(late.as_secs_f64()),
            links: looks,
        })
    }
}

fn finish(running: Running) -> Result<(Sent, Report), ContestError> {
    let Running { sender, receiver } = running;
    // A lost lane makes the programs fail, but not the measurement.
    let sent = serde_json::from_slice(&sender.finish_within(PATIENCE)?)?;
    Ok((sent, serde_json::from_slice(&receiver.finish_within(PATIENCE)?)?))
}

fn sent(testbed: &Testbed) -> Result<Vec<u64>, ContestError> {
    let tx = |link| testbed.lab.counters(Side::A, link).map(|counters| counters.tx_bytes);
    Ok((0..testbed.links.len()).map(tx).collect::<Result<_, _>>()?)
}

fn unix_now() -> f64 {
    // A clock before 1970 is wrong, and makes the figures visibly wrong.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

const INTERVAL: Duration = Duration::from_millis(20);
const SLACK: Duration = Duration::from_millis(300);
/// Bytes on the links with which a stream has begun to flow.
const FLOWING: u64 = 1 << 20;
/// The time that the ends have to finish: longer than a stream waits for a lane.
const PATIENCE: Duration = Duration::from_secs(45);
/// The assumed rate of an unshaped link, of which a step leaves a tenth.
const UNSHAPED_MBIT: u64 = 1000;
