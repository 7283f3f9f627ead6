//! How a connection ends.

use crate::{
    case::{Case, Client, Served},
    log::Log,
    work::{
        BULK, LITTLE, MORE_THAN_FITS, PATIENCE, fill, finish, look_at_the_cut, read_exactly, read_to_end, reset, wait,
        wait_for_unread, write_all,
    },
};
use nix::poll::PollFlags;
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
};

pub(super) const CASES: &[Case] = &[
    Case { name: "half-close-by-client", client: client_closes_half, server: other_half },
    Case { name: "half-close-by-server", client: other_half_of_server, server: server_closes_half },
    Case { name: "shutdown-then-write", client: shut_down_then_write, server: late_answer },
    Case { name: "shutdown-read", client: shut_down_reading, server: answer_and_read_on },
    Case { name: "shutdown-both", client: shut_down_both, server: answer_to_nobody },
    Case { name: "close-then-answer", client: close_then_answer, server: answer_to_nobody },
    Case { name: "reset-by-client", client: client_resets, server: server_is_reset },
    Case { name: "reset-by-server", client: client_is_reset, server: server_resets },
    Case { name: "reset-behind-data", client: data_and_reset, server: reset_behind_data },
    Case { name: "reset-of-a-writer", client: writer_is_reset, server: writer_resets },
    Case { name: "reset-of-a-writing-server", client: reader_resets, server: writing_server_is_reset },
    Case { name: "unread-at-client", client: client_leaves_unread, server: server_was_not_read },
    Case { name: "unread-at-server", client: client_was_not_read, server: server_leaves_unread },
];

fn client_closes_half(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    write_all(&client.log, &socket, &client.payload(BULK))?;
    finish(&client.log, &socket)?;
    // The server has seen the end before it says a word.
    client.meet()?;
    read_to_end(&client.log, &socket)
}

fn other_half(served: &Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)?;
    served.meet()?;
    write_all(&served.log, &served.socket, &served.payload(BULK))?;
    finish(&served.log, &served.socket)
}

fn other_half_of_server(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    read_to_end(&client.log, &socket)?;
    client.meet()?;
    write_all(&client.log, &socket, &client.payload(BULK))?;
    finish(&client.log, &socket)
}

fn server_closes_half(served: &Served) -> io::Result<()> {
    write_all(&served.log, &served.socket, &served.payload(BULK))?;
    finish(&served.log, &served.socket)?;
    served.meet()?;
    read_to_end(&served.log, &served.socket)
}

fn shut_down_then_write(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    finish(log, &socket)?;
    log.tried("write", socket.write(b"too late"));
    client.meet()?;
    read_to_end(log, &socket)
}

/// A shutdown of reading is the client's alone: the server goes on as before, and Linux even takes
/// what arrives.
fn shut_down_reading(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    log.did("shutdown(RD)", socket.shutdown(Shutdown::Read))?;
    log.saw("read", socket.read(&mut [0; 9])?);
    write_all(log, &socket, &client.payload(LITTLE))?;
    client.meet()?;
    log.saw("FIONREAD", wait_for_unread(&socket, LITTLE)?);
    read_to_end(log, &socket)?;
    finish(log, &socket)
}

fn answer_and_read_on(served: &Served) -> io::Result<()> {
    read_exactly(&served.log, &served.socket, LITTLE)?;
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    served.meet()?;
    finish(&served.log, &served.socket)?;
    read_to_end(&served.log, &served.socket)
}

fn late_answer(served: &Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)?;
    served.meet()?;
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    finish(&served.log, &served.socket)
}

fn shut_down_both(client: &Client) -> io::Result<()> {
    let (mut socket, log) = (client.connect()?, &client.log);
    write_all(log, &socket, &client.payload(LITTLE))?;
    log.did("shutdown(RDWR)", socket.shutdown(Shutdown::Both))?;
    log.saw("read", socket.read(&mut [0; 9])?);
    log.tried("write", socket.write(b"too late"));
    client.meet()?;
    client.meet()
}

fn close_then_answer(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    write_all(log, &socket, &client.payload(LITTLE))?;
    drop(socket);
    log.saw("close", "ok");
    client.meet()?;
    client.meet()
}

/// The client has closed: the first write goes out, and what comes back ends the connection.
fn answer_to_nobody(served: &Served) -> io::Result<()> {
    read_to_end(&served.log, &served.socket)?;
    served.meet()?;
    served.log.did("write", (&served.socket).write_all(b"to nobody"))?;
    look_at_the_cut(&served.log, &served.socket)?;
    served.meet()
}

fn client_resets(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    write_all(&client.log, &socket, &client.payload(LITTLE))?;
    // No byte is under way that the reset could take with it.
    client.meet()?;
    reset(&client.log, socket)
}

fn server_is_reset(served: &Served) -> io::Result<()> {
    read_exactly(&served.log, &served.socket, LITTLE)?;
    served.meet()?;
    look_at_the_cut(&served.log, &served.socket)
}

fn client_is_reset(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    read_exactly(&client.log, &socket, LITTLE)?;
    client.meet()?;
    look_at_the_cut(&client.log, &socket)
}

fn server_resets(served: &Served) -> io::Result<()> {
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    served.meet()?;
    reset(&served.log, served.socket.try_clone()?)?;
    // The last descriptor: the connection ends with it.
    Ok(())
}

/// The bytes before a reset may be lost, and the reset may not.
fn data_and_reset(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    client.log.receives_what_comes();
    look_at_the_cut(&client.log, &socket)
}

fn reset_behind_data(served: &Served) -> io::Result<()> {
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    reset(&served.log, served.socket.try_clone()?)
}

fn writer_is_reset(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    client.log.sends_what_fits();
    fill(&client.log, &socket, &client.payload(MORE_THAN_FITS))?;
    client.meet()?;
    cut_while_writing(&client.log, &socket)
}

fn writer_resets(served: &Served) -> io::Result<()> {
    served.meet()?;
    reset(&served.log, served.socket.try_clone()?)
}

fn reader_resets(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    client.meet()?;
    reset(&client.log, socket)
}

fn writing_server_is_reset(served: &Served) -> io::Result<()> {
    served.log.sends_what_fits();
    fill(&served.log, &served.socket, &served.payload(MORE_THAN_FITS))?;
    served.meet()?;
    cut_while_writing(&served.log, &served.socket)
}

/// The errors of writing, and then of reading, on a connection that is reset while it is full.
fn cut_while_writing(log: &Log, mut socket: &TcpStream) -> io::Result<()> {
    wait(socket, PollFlags::empty(), PATIENCE)?;
    log.tried("write", socket.write(b"to nobody"));
    log.tried("write again", socket.write(b"to nobody"));
    match socket.read(&mut [0; 9]) {
        Ok(0) => log.saw("read", "eof"),
        answer => log.tried("read", answer),
    }
    Ok(())
}

/// A close with unread bytes is a reset (RFC 2525, 2.17).
fn client_leaves_unread(client: &Client) -> io::Result<()> {
    let (socket, log) = (client.connect()?, &client.log);
    read_exactly(log, &socket, 1)?;
    log.saw("FIONREAD", wait_for_unread(&socket, LITTLE - 1)?);
    client.meet()?;
    drop(socket);
    log.saw("close", "ok");
    Ok(())
}

fn server_was_not_read(served: &Served) -> io::Result<()> {
    write_all(&served.log, &served.socket, &served.payload(LITTLE))?;
    served.meet()?;
    look_at_the_cut(&served.log, &served.socket)
}

fn client_was_not_read(client: &Client) -> io::Result<()> {
    let socket = client.connect()?;
    write_all(&client.log, &socket, &client.payload(LITTLE))?;
    client.meet()?;
    look_at_the_cut(&client.log, &socket)
}

fn server_leaves_unread(served: &Served) -> io::Result<()> {
    read_exactly(&served.log, &served.socket, 1)?;
    served.log.saw("FIONREAD", wait_for_unread(&served.socket, LITTLE - 1)?);
    served.meet()?;
    Ok(())
}
