//! The socket on which doors of this host ask.

use super::{Shared, lock, peer::Peer};
use crate::{
    door::{self, Answer, DoorKind, MAX_QUESTION, Plain, Question, receive_descriptor},
    policy::{Policy, canonical},
    session::{Channel, NotOpened},
    socket::Socket,
};
use nix::{
    sys::stat::{Mode, umask},
    unistd::{Gid, Group, chown},
};
use std::{
    collections::VecDeque,
    convert::Infallible,
    fs, io,
    net::SocketAddr,
    os::{
        fd::AsFd,
        unix::{
            fs::{FileTypeExt, PermissionsExt},
            net as os,
        },
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{Semaphore, oneshot},
    time::{sleep, timeout},
};

/// Why doors cannot ask.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindDoorsError {
    /// Another gate listens there.
    #[error("another gate listens at {}", path.display())]
    Taken {
        /// The socket.
        path: PathBuf,
    },
    /// There is a file that is no socket.
    #[error("{} is there, and is no socket", path.display())]
    NoSocket {
        /// The file.
        path: PathBuf,
    },
    /// The group does not exist.
    #[error("there is no group {group:?} for {}", path.display())]
    Group {
        /// The socket.
        path: PathBuf,
        /// The group.
        group: String,
    },
    /// The system's error.
    #[error("cannot make the socket {} for doors", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// The cause.
        #[source]
        error: io::Error,
    },
}

/// Makes the socket, with the mode and the group of the policy.
pub(super) fn bind(path: &Path, policy: &Policy) -> Result<os::UnixListener, BindDoorsError> {
    let failed = |error: io::Error| BindDoorsError::System { path: path.to_owned(), error };
    let group = policy.socket_group.as_deref().map(|name| group_of(name, path)).transpose()?;
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => return Err(BindDoorsError::NoSocket { path: path.to_owned() }),
        Ok(_) => match os::UnixStream::connect(path) {
            Ok(_) => return Err(BindDoorsError::Taken { path: path.to_owned() }),
            // Left by a gate that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed)?,
            Err(error) => return Err(failed(error)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
        }
        Err(error) => return Err(failed(error)),
    }
    // Nobody else gets in before the mode is set.
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = os::UnixListener::bind(path);
    umask(before);
    let listener = listener.map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    if let Some(group) = group {
        chown(path, None, Some(group)).map_err(|error| failed(error.into()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(policy.socket_mode)).map_err(failed)?;
    Ok(listener)
}

/// The group of that name or number.
fn group_of(name: &str, path: &Path) -> Result<Gid, BindDoorsError> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let failed = |error: io::Error| BindDoorsError::System { path: path.to_owned(), error };
    let group = Group::from_name(name).map_err(|error| failed(error.into()))?;
    group.map(|group| group.gid).ok_or_else(|| BindDoorsError::Group { path: path.to_owned(), group: name.to_owned() })
}

/// Answers doors.
pub(super) async fn serve(shared: Arc<Shared>, listener: os::UnixListener) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(error = %error, "no door is heard"),
    };
    let room = Arc::new(Room::default());
    loop {
        match listener.accept().await {
            Ok((door, _)) => {
                let (shared, room, pushed_out) = (shared.clone(), room.clone(), room.enter());
                tokio::spawn(async move {
                    // A door that goes away has its answer already, or needs none.
                    let _ = answer(&shared, &room, door, pushed_out).await;
                });
            }
            Err(error) => {
                shared.warn(&format!("a door is not heard: {error}"));
                sleep(PAUSE).await;
            }
        }
    }
}

/// The doors that are served at a time.
///
/// A door asks as soon as it is connected. One that does not is pushed out by later ones, so that a
/// program which connects and says nothing keeps nobody away.
#[derive(Debug)]
struct Room {
    /// Doors that have not asked yet, from the oldest on. One whose entry is dropped is pushed out.
    silent: Mutex<VecDeque<oneshot::Sender<Infallible>>>,
    connecting: Semaphore,
    reading: Semaphore,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            silent: Mutex::default(),
            connecting: Semaphore::new(MAX_CONNECTING),
            reading: Semaphore::new(MAX_READING),
        }
    }
}

impl Room {
    /// Lets a door in. The receiver ends when the door is pushed out.
    fn enter(&self) -> oneshot::Receiver<Infallible> {
        let (entry, pushed_out) = oneshot::channel();
        let mut silent = lock(&self.silent);
        if silent.len() >= MAX_SILENT {
            silent.retain(|entry| !entry.is_closed());
        }
        let oldest = if silent.len() >= MAX_SILENT { silent.pop_front() } else { None };
        silent.push_back(entry);
        drop(silent);
        // It wakes the door's task.
        drop(oldest);
        pushed_out
    }
}

async fn answer(
    shared: &Arc<Shared>,
    room: &Room,
    mut door: UnixStream,
    pushed_out: oneshot::Receiver<Infallible>,
) -> io::Result<()> {
    let question = tokio::select! {
        biased;
        question = timeout(PATIENCE, door::read::<Question>(&mut door, MAX_QUESTION)) => question??,
        _ = pushed_out => return Err(io::ErrorKind::TimedOut.into()),
    };
    match question {
        Question::Connect { door: kind, destination, source } => {
            connect(shared, room, door, kind, destination, source).await
        }
        Question::Networks => {
            let policy = shared.policy();
            let networks = || policy.networks().map(|(target, _)| target.to_string()).collect();
            reply_at_length(room, &mut door, || Answer::Networks(networks())).await
        }
        Question::Status => reply_at_length(room, &mut door, || Answer::Status(Box::new(shared.status()))).await,
        Question::Metrics => reply_at_length(room, &mut door, || Answer::Metrics(shared.metrics())).await,
    }
}

/// Gives a door an answer that may be long. There are only a few of these at a time.
async fn reply_at_length(room: &Room, door: &mut UnixStream, answer: impl FnOnce() -> Answer) -> io::Result<()> {
    match timeout(PATIENCE, room.reading.acquire()).await? {
        Ok(_place) => reply(door, &answer()).await,
        Err(closed) => Err(io::Error::other(closed)),
    }
}

/// Answers a door, if it reads.
async fn reply(door: &mut UnixStream, answer: &Answer) -> io::Result<()> {
    timeout(PATIENCE, door::write(door, answer)).await?
}

/// Looks for a way, and carries the connection that the door hands over.
async fn connect(
    shared: &Arc<Shared>,
    room: &Room,
    mut door: UnixStream,
    kind: DoorKind,
    destination: SocketAddr,
    source: Option<SocketAddr>,
) -> io::Result<()> {
    let destination = canonical(destination);
    let policy = shared.policy();
    let routed = policy.route(destination);
    let place = room.connecting.try_acquire();
    let opened = match routed {
        None => Err(Plain::NotRouted),
        Some(_) if place.is_err() => Err(Plain::Full),
        Some(peer) => match shared.peer(&peer.name) {
            None => Err(Plain::NoSession),
            Some(kept) => {
                reply(&mut door, &Answer::Asked { within: peer.answer_within }).await?;
                open(&kept, destination, source, peer.answer_within).await.map(|channel| (channel, kept))
            }
        },
    };
    // A descriptor that arrives where there is no room for it is lost, and the connection with it.
    let opened = opened.and_then(|opened| match door.as_fd().try_clone_to_owned() {
        Ok(spare) => Ok((opened, spare)),
        Err(error) => {
            shared.warn(&format!("there is no room for the connections of doors: {error}"));
            Err(Plain::Full)
        }
    });
    let ((channel, peer), spare) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            shared.counters.went_plain(kind, routed.map(|peer| &peer.name), why);
            // A destination that the policy does not name is nothing to speak of.
            if why != Plain::NotRouted {
                shared.inform(kind, destination, why);
            }
            return reply(&mut door, &Answer::Plain(why)).await;
        }
    };
    reply(&mut door, &Answer::Through { peer: peer.name().to_string() }).await?;
    let handed_over = async {
        door.readable().await?;
        drop(spare);
        receive_descriptor(&door).await
    };
    let Some(descriptor) = timeout(PATIENCE, handed_over).await?? else { return Ok(()) };
    let traffic = shared.counters.of(Some(kind), peer.name(), destination);
    shared.carry(&peer, move || Socket::adopt(descriptor), channel, traffic);
    Ok(())
}

/// Opens a channel to the service. A session that is lost meanwhile may have been one of two, or of
/// a gate that is started anew: another one is waited for.
async fn open(
    peer: &Peer,
    destination: SocketAddr,
    source: Option<SocketAddr>,
    within: Duration,
) -> Result<Channel, Plain> {
    let mut session = peer.session().ok_or(Plain::NoSession)?;
    let opened = async {
        loop {
            match session.open(destination, source).await {
                Ok(channel) => return Ok(channel),
                Err(NotOpened::Refused(refusal)) => return Err(Plain::Refused(refusal)),
                Err(NotOpened::Full(_)) => return Err(Plain::Full),
                Err(NotOpened::Lost) => session = peer.session_other_than(&session).await,
            }
        }
    };
    timeout(within, opened)
        .await
        .unwrap_or_else(|_| Err(if peer.session().is_some() { Plain::Slow } else { Plain::NoSession }))
}

/// The doors at a time that have not asked yet.
const MAX_SILENT: usize = 1024;
/// The doors at a time that wait for the way of a connection; the connections of more go plain.
const MAX_CONNECTING: usize = 1024;
/// The doors at a time that read the gate's state; more wait.
const MAX_READING: usize = 16;
/// How long a door may take for its question, for reading an answer, and for the descriptor.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause after a door that could not be heard, as where descriptors are out.
const PAUSE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_door_that_reads_no_answer_is_left() {
        let (mut gate, door) = UnixStream::pair().unwrap();
        let answer = Answer::Metrics("x".repeat(3 << 20));
        assert_eq!(reply(&mut gate, &answer).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(door);
    }

    #[tokio::test]
    async fn the_oldest_of_too_many_silent_doors_is_pushed_out() {
        let room = Room::default();
        let mut asked = room.enter();
        let oldest = room.enter();
        asked.close();
        let mut others: Vec<_> = (2..=MAX_SILENT).map(|_| room.enter()).collect();
        assert!(others[0].try_recv().is_err());
        assert!(!room.silent.lock().unwrap().iter().any(oneshot::Sender::is_closed), "one that has asked makes room");
        let last = room.enter();
        assert!(oldest.await.is_err());
        let entries = room.silent.lock().unwrap().len();
        assert_eq!(entries, MAX_SILENT);
        drop((others, last));
    }
}
