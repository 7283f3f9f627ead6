//! `rails-bench pipe`

use super::door::{DoorArgs, Service, pair, source};
use crate::{
    exit::{Exit, Help},
    print, thread,
    thread::block_on,
};
use anyhow::{Context, Error, Result};
use nix::libc;
use rails_gate::{DoorKind, Plain, Way, reset_on_close};
use socket2::SockRef;
use std::{
    fs::File,
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    os::fd::AsFd,
};

/// Connect standard input and output to a service, through the gate of this host
///
/// A service to which the gate has no way is connected to as by any program.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ssh -o ProxyCommand='rails-bench pipe %h %p' storage
  rsync -e \"ssh -o ProxyCommand='rails-bench pipe %h %p'\" -a data storage:
  GIT_SSH_COMMAND=\"ssh -o ProxyCommand='rails-bench pipe %h %p'\" git clone storage:project

Ends when the service has ended its side and standard input has ended, or the connection is reset (exit code 1).")]
pub(crate) struct Args {
    /// Name or address of the service's host
    host: String,
    /// Port of the service
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    #[command(flatten)]
    gate: DoorArgs,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let connection = block_on(connect(args))?;
    connection.set_nonblocking(false).context("cannot wait for the connection")?;
    // Bytes leave at once: their writer has decided already when.
    let _ = connection.set_nodelay(true);
    let (to, mut from) = (connection.try_clone().context("cannot share the connection")?, connection);
    // Files of their own: the buffers of Rust's standard streams hold bytes without a newline back.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned().context("cannot read standard input")?);
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned().context("cannot write standard output")?);
    // This thread ends with the process: it may wait for a terminal that nobody types on.
    let sent = thread::start("input", move || {
        let copied = copy_input(input, &to);
        if copied.is_err() {
            // The service must not take a part for the whole, nor wait for more. The other thread then
            // reads an end, and nothing leaves this host before the reset.
            reset_on_close(&to);
            let _ = to.shutdown(Shutdown::Read);
        }
        copied
    })?;
    match copy(&mut from, &mut output) {
        Ok(()) => {}
        // The reader of the answers is gone: SIGPIPE ends this program, as it ends others.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Exit::CommandSignal(libc::SIGPIPE)),
        Err(error) => {
            reset_on_close(&from);
            return Err(error).context(LOST);
        }
    }
    // The reader learns of the end also where this process still waits for input: of a pipe when its
    // last descriptor is closed, of a socket, which standard input may be as well, by shutdown(2).
    let _ = SockRef::from(&output).shutdown(Shutdown::Write);
    drop(output);
    let _ = nix::unistd::close(libc::STDOUT_FILENO);
    if let Ok(Err(error)) = sent.join() {
        return Err(error);
    }
    // The kernel of a service that ended with bytes unread resets the connection.
    match from.take_error() {
        Ok(Some(error)) => Err(error).context(LOST),
        _ => Ok(Exit::Done),
    }
}

/// Copies standard input to the service, and ends that direction.
fn copy_input(mut input: File, mut to: &TcpStream) -> Result<()> {
    copy(&mut input, &mut to).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::TimedOut => {
            Error::new(error).context(LOST)
        }
        _ => Error::new(error).context("cannot copy standard input"),
    })?;
    match to.shutdown(Shutdown::Write) {
        // The service has ended both directions.
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
        ended => ended.context(LOST),
    }
}

const LOST: &str = "the connection was lost";

/// Copies bytes to the end, each as soon as it has come. `io::copy` calls splice(2), which holds a
/// part of what a pipe has back from a socket until there is more (seen with Linux 6.18).
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(bytes) => to.write_all(&buffer[..bytes])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// A connection to the service: through the gate if there is a way, or else plain.
async fn connect(args: &Args) -> Result<TcpStream> {
    let service = Service::new(&args.host, args.port)?;
    let addresses = service.addresses().await?;
    let door = args.gate.door(DoorKind::Pipe);
    let mut reason = Plain::NotRouted;
    for address in &addresses {
        match door.ask(*address, source(*address, 0)).await {
            Way::Through(passage) => {
                let (near, far) = match pair().await {
                    Ok(both) => both,
                    Err(error) => {
                        print::note(format_args!("{service}: a plain connection: {error:#}"));
                        reason = Plain::NotRouted;
                        break;
                    }
                };
                tracing::info!(peer = passage.peer(), %address, "through the gate");
                passage.hand_over(far).await.context("the gate is gone")?;
                return Ok(near.into_std()?);
            }
            Way::Plain(Plain::NotRouted) => {}
            Way::Plain(why) => reason = why,
        }
        if matches!(reason, Plain::NoGate | Plain::NotPermitted) {
            break;
        }
    }
    if reason != Plain::NotRouted {
        print::note(format_args!("{service}: a plain connection, because {reason}"));
    }
    let connected = tokio::net::TcpStream::connect(&addresses[..]).await;
    let connected = connected.with_context(|| format!("cannot connect to {service}"));
    Ok(connected.map_err(|error| error.help("`rails-bench gate --status` says what the gate knows"))?.into_std()?)
}

/// The bytes that are read at a time.
const BUFFER: usize = 128 << 10;
