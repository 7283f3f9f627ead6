//! The way of a result onto the disk: under its name only when it is whole.

use anyhow::{Context, Result, bail};
use rails_cli::{draft::Draft, exit::Help, thread};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    thread::JoinHandle,
};
use tokio::sync::{mpsc, oneshot};

/// A file, or stdout, that a thread of its own writes to. If it is dropped before
/// [`finish`](Self::finish), nothing is left behind.
pub(crate) struct Target {
    /// `None` once all was sent.
    buffers: Option<mpsc::Sender<Vec<u8>>>,
    /// Buffers that were written.
    written: mpsc::Receiver<Vec<u8>>,
    done: oneshot::Receiver<io::Result<Sink>>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
    replaces: bool,
}

enum Sink {
    /// A file that gets its name at the end.
    Draft(Draft),
    /// What is no regular file is written directly.
    Direct(File),
    Stdout(io::Stdout),
}

impl Target {
    /// Opens a target; `-` is stdout. `replaces` says whether a file that is there gives way.
    pub(crate) fn open(path: &Path, replaces: bool) -> Result<Self> {
        let name = path.display();
        let sink = match fs::metadata(path) {
            _ if path == Path::new("-") => Sink::Stdout(io::stdout()),
            Ok(there) if there.is_dir() => bail!("{name}: it is a folder"),
            Ok(there) if !there.is_file() => {
                Sink::Direct(OpenOptions::new().write(true).open(path).with_context(|| format!("cannot write {name}"))?)
            }
            Ok(_) if !replaces => {
                return Err(anyhow::anyhow!("{name}: the file is there already").help("--force replaces it"));
            }
            _ => Sink::Draft(Draft::of(path).with_context(|| format!("cannot write {name}"))?),
        };
        let (buffers, to_write) = mpsc::channel(1);
        let (back, written) = mpsc::channel(2);
        let (end, done) = oneshot::channel();
        let run = move || {
            let outcome = write(sink, to_write, &back, &end);
            // A file of which nobody waits for the end is removed here.
            drop(end.send(outcome));
        };
        let thread = Some(thread::start("output", run)?);
        let path = (path != Path::new("-")).then(|| path.to_owned());
        Ok(Self { buffers: Some(buffers), written, done, thread, path, replaces })
    }

    /// Has bytes written behind those before.
    ///
    /// # Errors
    /// An error of writing, of these bytes or of earlier ones.
    pub(crate) async fn write(&mut self, bytes: Vec<u8>) -> Result<()> {
        let buffers = self.buffers.as_ref().expect("only the end takes it away");
        if buffers.send(bytes).await.is_ok() {
            return Ok(());
        }
        match (&mut self.done).await {
            Ok(Err(error)) => Err(error).with_context(|| self.context()),
            _ => bail!("{}: the thread that writes has ended", self.context()),
        }
    }

    /// A buffer that was written, to be used again, or a new one.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        self.written.try_recv().unwrap_or_default()
    }

    /// Waits until all is written, and gives the file its name.
    ///
    /// # Errors
    /// An error of writing, or a file of that name that is there by now.
    pub(crate) async fn finish(mut self) -> Result<()> {
        let context = self.context();
        self.buffers = None;
        let sink = (&mut self.done).await.context("the thread that writes has ended")?;
        let sink = sink.with_context(|| context.clone())?;
        match sink {
            Sink::Draft(draft) => draft.publish(self.replaces).context(context),
            Sink::Direct(_) | Sink::Stdout(_) => Ok(()),
        }
    }

    fn context(&self) -> String {
        self.path
            .as_ref()
            .map_or_else(|| "cannot write to stdout".to_owned(), |path| format!("cannot write {}", path.display()))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.buffers = None;
        self.done.close();
        // The process may end next, and a draft with a name has to be gone then.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write(
    mut sink: Sink,
    mut buffers: mpsc::Receiver<Vec<u8>>,
    back: &mpsc::Sender<Vec<u8>>,
    end: &oneshot::Sender<io::Result<Sink>>,
) -> io::Result<Sink> {
    while let Some(bytes) = buffers.blocking_recv() {
        match &mut sink {
            Sink::Draft(draft) => draft.file().write_all(&bytes)?,
            Sink::Direct(file) => file.write_all(&bytes)?,
            Sink::Stdout(stdout) => stdout.write_all(&bytes)?,
        }
        // As many as are in use come back at most.
        let _ = back.try_send(bytes);
    }
    if end.is_closed() {
        return Ok(sink);
    }
    match &mut sink {
        // Network file systems report a full disk only here.
        Sink::Draft(draft) => draft.file().sync_all()?,
        Sink::Direct(_) => {}
        Sink::Stdout(stdout) => stdout.flush()?,
    }
    Ok(sink)
}
