//! Rounds of programs through every door and of rails' own ceilings, side by side in one room.

use crate::{
    door::Door,
    gap::{self, GapMeter},
    passage::Passage,
    program::{Ceiling, Program, Service, Size, Use},
    report::{Facts, Report, Taken},
    room::Room,
    terms::{Pull, Terms},
};
use anyhow::{Context, Result};
use rails_lab::Side;
use std::{
    array,
    collections::BTreeSet,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Something that is measured: a program through a door, or a ceiling. Its service is up.
struct Contender<'a> {
    program: &'a dyn Program,
    /// `None` for a ceiling.
    door: Option<Door>,
    passage: &'a Passage,
    service: Service,
}

/// Measures the programs. In every round each program goes through each door, and its ceiling is
/// measured as well; every second round goes backwards, so that what changes on the machine hits
/// all alike. The first round warms up, and does not count if there is another.
///
/// # Errors
///
/// A room, door or service that does not come about. A use that fails is part of the report.
pub fn measure(programs: &[Box<dyn Program>], terms: &Terms) -> Result<Report> {
    let room = Room::build(&terms.links, &terms.congestion, &terms.folder)?;
    let mut skipped = Vec::new();
    let passages = passages(&room, &terms.doors, &mut skipped)?;
    let (plain, ceilings) = (Passage::default(), ceilings(programs));
    let mut contenders = Vec::new();
    for program in present(programs.iter().map(|program| &**program), &mut skipped) {
        for (door, passage) in passages.iter().filter(|(door, _)| program.means().contains(&door.means())) {
            contenders.push(Contender::serve(&room, program, Some(*door), passage, terms.size)?);
        }
    }
    for ceiling in present(ceilings.iter().map(|ceiling| ceiling as &dyn Program), &mut skipped) {
        contenders.push(Contender::serve(&room, ceiling, None, &plain, terms.size)?);
    }
    let mut taken = Vec::new();
    for round in 0..terms.rounds {
        let mut order: Vec<&Contender<'_>> = contenders.iter().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for contender in order {
            let one = contender.once(&room, terms, round)?;
            eprintln!("{}", one.line());
            taken.push(one);
        }
    }
    let ceilings = programs.iter().filter_map(|program| Some((program.name(), program.ceiling()?.name()))).collect();
    Ok(Report { facts: Facts::gather(terms, programs)?, ceilings, skipped, taken })
}

/// Opens the doors that can be opened here.
fn passages(room: &Room, doors: &[Door], skipped: &mut Vec<String>) -> Result<Vec<(Door, Passage)>> {
    let mut passages = Vec::new();
    for door in doors {
        match door.missing() {
            Some(why) => skipped.push(format!("{}: {why}", door.name())),
            None => passages.push((*door, door.open(room)?)),
        }
    }
    Ok(passages)
}

/// The programs that can run here.
fn present<'a>(programs: impl Iterator<Item = &'a dyn Program>, skipped: &mut Vec<String>) -> Vec<&'a dyn Program> {
    let mut present = Vec::new();
    for program in programs {
        match program.missing() {
            Some(why) => skipped.push(format!("{}: {why}", program.name())),
            None => present.push(program),
        }
    }
    present
}

/// The ceilings of the programs, each once.
fn ceilings(programs: &[Box<dyn Program>]) -> Vec<Ceiling> {
    let ceilings: BTreeSet<Ceiling> = programs.iter().filter_map(|program| program.ceiling()).collect();
    ceilings.into_iter().collect()
}

impl<'a> Contender<'a> {
    fn serve(
        room: &Room,
        program: &'a dyn Program,
        door: Option<Door>,
        passage: &'a Passage,
        size: Size,
    ) -> Result<Self> {
        let service = program.serve(room, passage, size);
        let service = service.with_context(|| format!("{} does not serve", program.name()))?;
        Ok(Self { program, door, passage, service })
    }

    /// One use, with what it cost and how long its receiver stood still.
    fn once(&self, room: &Room, terms: &Terms, round: usize) -> Result<Taken> {
        let into = room.folder("into")?;
        fs::remove_dir_all(&into)?;
        let into = room.folder("into")?;
        let (passage, service, size) = (self.passage, &self.service, terms.size);
        let this = Use { room, passage, service, size, into: &into, patience: PATIENCE };
        let before = room.usage();
        let is_watched = self.program.writes_files() && self.door.is_some();
        let gaps = is_watched.then(|| GapMeter::start(&into));
        let has_ended = AtomicBool::new(false);
        let (sample, pulled) = match terms.pull.filter(|_| is_watched) {
            None => (self.program.run(&this), None),
            Some(pull) => thread::scope(|scope| {
                let puller = scope.spawn(|| pull.pull_and_restore(room, &into, size.bytes / 4, &has_ended));
                let sample = self.program.run(&this);
                has_ended.store(true, Ordering::Relaxed);
                (sample, Some(puller.join().expect("pulling a link does not panic")))
            }),
        };
        let longest_gap_seconds = gaps.map(|gaps| gaps.finish().as_secs_f64());
        let spent = |(before, after): ([f64; 3], [f64; 3])| array::from_fn(|part| after[part] - before[part]);
        let cpu_seconds = before.zip(room.usage()).map(spent);
        let failure = sample.as_ref().err().map(|error| format!("{error:#}"));
        Ok(Taken {
            program: self.program.name().to_owned(),
            door: self.door,
            round,
            sample: sample.ok(),
            failure,
            cpu_seconds,
            longest_gap_seconds,
            pulled: pulled.transpose()?,
        })
    }
}

impl Pull {
    /// Pulls the link when so many bytes have arrived, and puts it back; returns whether it came to
    /// that before the program had ended.
    fn pull_and_restore(self, room: &Room, into: &Path, bytes: u64, has_ended: &AtomicBool) -> Result<bool> {
        while gap::size(into) < bytes {
            if has_ended.load(Ordering::Relaxed) {
                return Ok(false);
            }
            thread::sleep(gap::INTERVAL);
        }
        room.lab.set_link_up(Side::B, self.link, false)?;
        thread::sleep(self.duration);
        room.restore_link(self.link)?;
        Ok(true)
    }
}

/// The time of one use; a plain program that lost its link waits for it far longer.
const PATIENCE: Duration = Duration::from_secs(120);
