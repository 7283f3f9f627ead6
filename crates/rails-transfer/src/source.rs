//! Reads and hashes the sender's files, each reader on a thread of its own.

mod theirs;

use crate::{
    frame::{Block, MAX_RUN},
    hash::{BLOCK, FileHasher},
    holes::next_data,
    keep::Keeps,
    message::{BlockDigest, Digest, Held},
    meta::Meta,
    path::RelPath,
    plan::Place,
    proto::Pace,
    reason::Reason,
    stamp::{Identity, Stamp},
};
use cap_std::fs::Metadata;
use std::{
    fs::File,
    io,
    num::NonZeroU64,
    ops::Range,
    os::unix::fs::FileExt as _,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc as sync_mpsc,
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use theirs::Theirs;

/// A file to read, after the receiver has named the bytes that it holds.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) path: RelPath,
    pub(crate) source: Place,
    /// The offered size.
    pub(crate) size: u64,
    pub(crate) held: Held,
    /// The answers to `Ask`, one at a time.
    pub(crate) digests: Mutex<sync_mpsc::Receiver<Vec<BlockDigest>>>,
    pub(crate) keeps: Keeps,
    /// The file that was listed, if other names are to be linked to it.
    pub(crate) twin: Option<Identity>,
    /// Whether the file is compared alone, and not sent.
    pub(crate) is_dry_run: bool,
    /// Set when the receiver has given up on the file.
    pub(crate) stop: Arc<AtomicBool>,
}

impl Job {
    /// The present size and properties of the file, if it is still one.
    fn list(&self) -> Option<(u64, Meta)> {
        let metadata = self.source.inspect().ok().filter(Metadata::is_file)?;
        let mut meta = self.keeps.meta(&metadata);
        meta.has_twins = self.twin == Some(Stamp::of(&metadata).identity);
        if self.keeps.has_attributes() {
            self.keeps.add_attributes(&mut meta, &self.source.open().ok()?);
        }
        Some((metadata.len(), meta))
    }
}

/// The files to read. The first reader that is free takes the next one.
#[derive(Debug, Clone)]
pub(crate) struct Jobs(Arc<Mutex<sync_mpsc::Receiver<Arc<Job>>>>);

impl Jobs {
    /// The end that hands jobs out, and the end of the readers.
    pub(crate) fn new() -> (sync_mpsc::Sender<Arc<Job>>, Self) {
        let (jobs_in, jobs) = sync_mpsc::channel();
        (jobs_in, Self(Arc::new(Mutex::new(jobs))))
    }

    /// Waits for the next job; `None` when there will be none.
    fn next(&self) -> Option<Arc<Job>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
    }
}

/// The pace of a batch, which all its readers keep together.
#[derive(Debug, Clone)]
pub(crate) struct Pacer(Arc<Mutex<Pace>>);

impl Pacer {
    pub(crate) fn new(bits_per_second: NonZeroU64) -> Self {
        Self(Arc::new(Mutex::new(Pace::new(bits_per_second))))
    }

    fn max_block(&self) -> usize {
        self.pace().max_block()
    }

    /// The time at which so many bytes may go.
    fn take(&self, bytes: usize) -> Instant {
        let mut pace = self.pace();
        let now = Instant::now();
        now + pace.take(now, bytes)
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a reader finds: `Keep` or `Would`; or `Start`, and behind the blocks, holes and runs of
/// bytes that are the same, `Finish`. In place of `Keep`, `Would` and `Finish`, at any time,
/// `Changed` or `Failed`. `Ask` may come before these, and is answered before them.
#[derive(Debug)]
pub(crate) enum Event {
    Start {
        offset: u64,
        meta: Meta,
    },
    /// Zeros, at most [`MAX_RUN`] of them.
    Hole {
        len: u64,
    },
    /// Bytes that the receiver's file has at the same place, at most [`MAX_RUN`] of them.
    Same {
        len: u64,
    },
    /// The digests of the receiver's blocks are wanted, from this one on.
    Ask {
        block: u64,
    },
    Finish {
        digest: Digest,
    },
    Keep {
        digest: Digest,
        meta: Meta,
    },
    /// In a dry run, in place of `Start` and all behind it.
    Would {
        offset: u64,
    },
    /// The file changed since it was listed: the bytes may be of several versions.
    Changed {
        reason: Reason,
        /// The present size and properties, if it is still a file.
        now: Option<(u64, Meta)>,
    },
    /// The file cannot be sent, or was stopped.
    Failed {
        reason: Reason,
    },
}

/// The way of a reader's events to the peer.
pub(crate) trait Output {
    /// The reason why a reader stops for good.
    type Gone;

    /// Passes an event on; waits for room.
    fn emit(&mut self, job: &Arc<Job>, event: Event) -> Result<(), Self::Gone>;

    /// Passes a block of the started file on; waits for room.
    fn block(&mut self, job: &Arc<Job>, block: Block) -> Result<(), Self::Gone>;

    /// A block to fill, of which the bytes have been used.
    fn spare(&mut self) -> Block;

    /// Fails once nobody wants the events.
    fn check(&mut self) -> Result<(), Self::Gone>;
}

/// Reads the files of all jobs, until there are no more or the output is gone.
pub(crate) fn read_all<O: Output>(jobs: &Jobs, pacer: Option<&Pacer>, mut output: O) -> Result<(), O::Gone> {
    while let Some(job) = jobs.next() {
        let mut reading = Reading::new(&job, pacer, &mut output);
        let event = match reading.read() {
            Ok(event) => event,
            Err(Stop::Gone(gone)) => return Err(gone),
            Err(Stop::Would(offset)) => Event::Would { offset },
            Err(Stop::Failed(reason)) => Event::Failed { reason },
            Err(Stop::Changed(reason)) => Event::Changed { reason, now: job.list() },
        };
        reading.theirs.take_answer(&job, reading.output)?;
        output.emit(&job, event)?;
    }
    Ok(())
}

/// The reason why a file was not read to its end.
enum Stop<G> {
    /// The file could not be read.
    Failed(Reason),
    /// The file changed.
    Changed(Reason),
    /// The dry run would send the file from this offset on.
    Would(u64),
    /// The output is gone.
    Gone(G),
}

struct Reading<'a, O> {
    job: &'a Arc<Job>,
    pacer: Option<&'a Pacer>,
    output: &'a mut O,
    theirs: Theirs,
    /// The bytes that the receiver has, and of which it is still to hear.
    same: u64,
    is_started: bool,
}

/// The contents of `Start`.
struct Start {
    offset: u64,
    meta: Meta,
}

/// The bytes to send.
enum Bytes<'a> {
    /// Bytes that were read and hashed.
    Known(&'a [u8]),
    /// Bytes that are still to be read and hashed.
    Unread(&'a mut FileHasher),
}

impl<'a, O: Output> Reading<'a, O> {
    fn new(job: &'a Arc<Job>, pacer: Option<&'a Pacer>, output: &'a mut O) -> Self {
        Self { job, pacer, output, theirs: Theirs::new(&job.held), same: 0, is_started: false }
    }

    /// Reads the file, and gives the last event about it.
    fn read(&mut self) -> Result<Event, Stop<O::Gone>> {
        let (job, size) = (self.job, self.job.size);
        let (file, stamp, meta) = open(job)?;
        let (mut hasher, mut offset) = (FileHasher::default(), 0);
        if let Some(part) = job.held.part_of(size) {
            self.hash_exactly(&file, &mut hasher, part.len)?;
            if hasher.finalize() == part.digest {
                offset = part.len;
            } else {
                hasher = FileHasher::default();
            }
        }
        let start = Start { offset, meta };
        self.send(&file, &mut hasher, &start)?;
        let is_kept = !self.is_started && self.may_be_kept();
        if !is_kept {
            self.say_same(&start)?;
        }
        if read_some(&file, &mut [0], size)? != 0 {
            return Err(Stop::Changed(Reason::new(format_args!("sender: the file grew past {size} bytes while sent"))));
        }
        unchanged(job, &file, &stamp)?;
        let digest = hasher.finalize();
        Ok(if is_kept { Event::Keep { digest, meta: start.meta } } else { Event::Finish { digest } })
    }

    /// Whether the receiver has a file of the same size.
    fn may_be_kept(&self) -> bool {
        self.job.held.there.as_ref().is_some_and(|there| there.len == self.job.size)
    }

    /// Reads from the offset to the end, and sends what the receiver does not have: nothing, not
    /// even `Start`, as long as its file may be the same.
    fn send(&mut self, file: &File, hasher: &mut FileHasher, start: &Start) -> Result<(), Stop<O::Gone>> {
        let size = self.job.size;
        let (mut at, mut data) = (start.offset, start.offset..start.offset);
        if at > 0 || !self.may_be_kept() {
            self.say_same(start)?;
        }
        let mut read = Vec::new();
        while at < size
            && let Some(theirs) = self.theirs.digest(at / BLOCK as u64, self.job, self.output).map_err(Stop::Gone)?
        {
            stopped(self.job)?;
            self.output.check().map_err(Stop::Gone)?;
            let end = (at / BLOCK as u64 + 1).saturating_mul(BLOCK as u64).min(size);
            read.resize(usize::try_from(end - at).expect("a block is small"), 0);
            if data.end <= at {
                data = next_data(file, at, size);
            }
            if data.start >= end {
                read.fill(0);
            } else {
                read_exactly(file, &mut read, at, size)?;
            }
            hasher.update(&read);
            // A part may end within a block.
            if at.is_multiple_of(BLOCK as u64) && hasher.block_digest() == theirs {
                self.same += end - at;
                if self.is_started && self.same >= SAME_AT_ONCE {
                    self.say_same(start)?;
                }
            } else {
                self.say_same(start)?;
                self.send_bytes(file, at..end, &mut data, Bytes::Known(&read))?;
            }
            at = end;
        }
        if at < size {
            self.say_same(start)?;
            self.send_bytes(file, at..size, &mut data, Bytes::Unread(hasher))?;
        }
        Ok(())
    }

    /// Begins, unless that is done, and tells the receiver of the bytes that it has itself.
    fn say_same(&mut self, start: &Start) -> Result<(), Stop<O::Gone>> {
        if !self.is_started {
            if self.job.is_dry_run {
                return Err(Stop::Would(start.offset));
            }
            self.emit(Event::Start { offset: start.offset, meta: start.meta.clone() })?;
            self.is_started = true;
        }
        while self.same > 0 {
            let len = self.same.min(MAX_RUN);
            self.emit(Event::Same { len })?;
            self.same -= len;
        }
        Ok(())
    }

    /// Sends a range, as blocks and holes. `data` are the bytes that are in no hole, as of the last
    /// look.
    fn send_bytes(
        &mut self,
        file: &File,
        range: Range<u64>,
        data: &mut Range<u64>,
        mut bytes: Bytes<'_>,
    ) -> Result<(), Stop<O::Gone>> {
        let max = self.pacer.map_or(BLOCK, |pacer| pacer.max_block().min(BLOCK));
        let mut at = range.start;
        while at < range.end {
            stopped(self.job)?;
            if data.end <= at {
                *data = next_data(file, at, self.job.size);
            }
            if at < data.start {
                self.output.check().map_err(Stop::Gone)?;
                let len = (data.start.min(range.end) - at).min(MAX_RUN);
                match &mut bytes {
                    Bytes::Known(known) => *known = &known[usize::try_from(len).expect("a block is small")..],
                    Bytes::Unread(hasher) => hasher.update_zeros(len),
                }
                self.emit(Event::Hole { len })?;
                at += len;
                continue;
            }
            let left = data.end.min(range.end) - at;
            let len = usize::try_from(left).map_or(max, |left| left.min(max));
            let mut block = self.output.spare();
            let payload = block.payload_mut(len);
            match &mut bytes {
                Bytes::Known(known) => {
                    let (some, rest) = known.split_at(len);
                    payload.copy_from_slice(some);
                    *known = rest;
                }
                Bytes::Unread(hasher) => {
                    read_exactly(file, payload, at, self.job.size)?;
                    hasher.update(payload);
                }
            }
            self.wait(len)?;
            self.output.block(self.job, block).map_err(Stop::Gone)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Waits until so many bytes may go.
    fn wait(&mut self, bytes: usize) -> Result<(), Stop<O::Gone>> {
        let Some(at) = self.pacer.map(|pacer| pacer.take(bytes)) else { return Ok(()) };
        loop {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(MAX_NAP));
            stopped(self.job)?;
            self.output.check().map_err(Stop::Gone)?;
        }
    }

    /// Hashes the first bytes of the file.
    fn hash_exactly(&mut self, file: &File, hasher: &mut FileHasher, len: u64) -> Result<(), Stop<O::Gone>> {
        let mut buffer = vec![0; usize::try_from(len).map_or(BLOCK, |len| len.min(BLOCK))];
        let mut at = 0;
        while at < len {
            stopped(self.job)?;
            self.output.check().map_err(Stop::Gone)?;
            let some = usize::try_from(len - at).map_or(BLOCK, |left| left.min(BLOCK));
            read_exactly(file, &mut buffer[..some], at, self.job.size)?;
            hasher.update(&buffer[..some]);
            at += some as u64;
        }
        Ok(())
    }

    fn emit(&mut self, event: Event) -> Result<(), Stop<O::Gone>> {
        self.output.emit(self.job, event).map_err(Stop::Gone)
    }
}

impl Stamp {
    /// The time during which a change could still get the file's present times, at `now` since
    /// 1970; `None` if it could not.
    fn is_fresh_for(&self, now: Duration) -> Option<Duration> {
        let (seconds, nanos) = self.modified.max(self.changed);
        let last = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        let tick = if self.modified.1 == 0 && self.changed.1 == 0 { COARSE_TICK } else { TICK };
        // A time in the future is that of another clock.
        let age = now.checked_sub(last)?;
        tick.checked_sub(age).filter(|left| !left.is_zero())
    }
}

/// Opens the file, and checks that it is the listed one.
fn open<G>(job: &Job) -> Result<(File, Stamp, Meta), Stop<G>> {
    let file = job.source.open().map_err(|error| failed("open", &error))?;
    let inspect = || Metadata::from_file(&file).map_err(|error| failed("inspect", &error));
    let mut metadata = inspect()?;
    if !metadata.is_file() {
        return Err(Stop::Failed(Reason::new("sender: this is no longer a regular file")));
    }
    if job.twin.is_some_and(|twin| twin != Stamp::of(&metadata).identity) {
        return Err(Stop::Changed(Reason::new("sender: another file has the name than the one that was listed")));
    }
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut looks = 0;
    while let Some(left) = Stamp::of(&metadata).is_fresh_for(now()) {
        if looks == MAX_LOOKS {
            return Err(Stop::Changed(Reason::new("sender: the file is being written")));
        }
        stopped(job)?;
        thread::sleep(left);
        metadata = inspect()?;
        looks += 1;
    }
    if metadata.len() != job.size {
        let (now, then) = (metadata.len(), job.size);
        let text = format_args!("sender: the file had {then} bytes when it was listed and has {now} now");
        return Err(Stop::Changed(Reason::new(text)));
    }
    let mut meta = job.keeps.meta(&metadata);
    // The listing has named the attributes that have no room.
    job.keeps.add_attributes(&mut meta, &file);
    Ok((file, Stamp::of(&metadata), meta))
}

/// Checks that the bytes that were read since the file was opened are those of the file that has
/// the name.
fn unchanged<G>(job: &Job, file: &File, stamp: &Stamp) -> Result<(), Stop<G>> {
    if job.source.inspect().ok().map(|metadata| Stamp::of(&metadata).identity) != Some(stamp.identity) {
        return Err(Stop::Changed(Reason::new("sender: the file was replaced while it was sent")));
    }
    let metadata = Metadata::from_file(file).map_err(|error| failed("inspect", &error))?;
    if Stamp::of(&metadata) != *stamp {
        return Err(Stop::Changed(Reason::new("sender: the file changed while it was sent")));
    }
    Ok(())
}

fn read_exactly<G>(file: &File, mut into: &mut [u8], mut at: u64, size: u64) -> Result<(), Stop<G>> {
    while !into.is_empty() {
        match read_some(file, into, at)? {
            0 => {
                let text = format_args!("sender: the file shrank below {size} bytes while sent");
                return Err(Stop::Changed(Reason::new(text)));
            }
            count => {
                into = &mut into[count..];
                at += count as u64;
            }
        }
    }
    Ok(())
}

fn read_some<G>(file: &File, into: &mut [u8], at: u64) -> Result<usize, Stop<G>> {
    loop {
        match file.read_at(into, at) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other.map_err(|error| failed("read", &error)),
        }
    }
}

fn stopped<G>(job: &Job) -> Result<(), Stop<G>> {
    // Relaxed, because the flag only saves work.
    if job.stop.load(Ordering::Relaxed) {
        return Err(Stop::Failed(Reason::new("sender: stopped because the receiver gave up")));
    }
    Ok(())
}

fn failed<G>(doing: &str, error: &io::Error) -> Stop<G> {
    Stop::Failed(Reason::new(format_args!("sender: cannot {doing} the file: {error}")))
}

/// The receiver copies so many bytes of its own while the reader compares the next ones.
const SAME_AT_ONCE: u64 = 8 << 20;
/// A reader that waits looks this often whether its file is still wanted.
const MAX_NAP: Duration = Duration::from_millis(100);
/// Two ticks of the slowest clock: up to Linux 6.12 a file's times are those of the last tick, of
/// at most 10 ms.
const TICK: Duration = Duration::from_millis(20);
/// The tick of file systems whose times are whole seconds (ext4 with inodes of 128 bytes), or every
/// second one (vfat).
const COARSE_TICK: Duration = Duration::from_secs(2);
/// A file that still changes after so many ticks is being written.
const MAX_LOOKS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn fresh_times_are_waited_out() {
        let ms = Duration::from_millis;
        let fresh = |nanos, age| {
            let stamp = Stamp { identity: (1, 1), size: 0, modified: (900, nanos), changed: (1_000, nanos) };
            stamp.is_fresh_for(Duration::new(1_000, nanos as u32) + age)
        };
        assert_eq!([ms(0), ms(15), ms(20)].map(|age| fresh(1, age)), [Some(ms(20)), Some(ms(5)), None]);
        assert_eq!([ms(20), ms(1_999), ms(2_000)].map(|age| fresh(0, age)), [Some(ms(1_980)), Some(ms(1)), None]);
        let stamp = Stamp { identity: (1, 1), size: 0, modified: (1_000, 1), changed: (1_000, 1) };
        assert_eq!(stamp.is_fresh_for(ms(999_999)), None, "of another clock");
    }

    fn job(path: &std::path::Path) -> Job {
        let (source, path) = (Place::Named(path.to_owned()), RelPath::parse("f").unwrap());
        let (held, keeps, stop) = (Held::default(), Keeps::default(), Arc::default());
        let digests = Mutex::new(sync_mpsc::channel().1);
        Job { id: 0, path, source, size: 3, held, digests, keeps, twin: None, is_dry_run: false, stop }
    }

    #[test]
    fn changes_since_the_opening_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let other = || {
            fs::write(folder.path().join("other"), "abc").unwrap();
            fs::rename(folder.path().join("other"), &path).unwrap();
        };
        let changes: [(&dyn Fn(), bool); 4] = [
            (&|| drop(fs::read(&path).unwrap()), false),
            (&|| fs::write(&path, "xyz").unwrap(), true),
            (&other, true),
            (&|| fs::remove_file(&path).unwrap(), true),
        ];
        for (index, (change, is_one)) in changes.into_iter().enumerate() {
            // So late that a clock of ticks is still at the file's own time.
            fs::write(&path, "abc").unwrap();
            let job = job(&path);
            let Ok((file, stamp, _)) = open::<()>(&job) else { panic!("it is there") };
            change();
            assert_eq!(matches!(unchanged::<()>(&job, &file, &stamp), Err(Stop::Changed(_))), is_one, "change {index}");
        }
    }
}
