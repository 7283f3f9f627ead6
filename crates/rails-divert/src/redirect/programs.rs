//! The BPF programs, instruction by instruction.
//!
//! A program of the cgroup calls connect(2). [`connect`] looks the destination up; where it is in
//! the networks, the program notes it beside the socket and puts a listener's address in its place.
//! When the connection is established, and before the listener can see it, [`socket_events`] files
//! the note under the socket's local port, by which the carrying process finds it.
//! [`peer_name`] gives the destination back to the program.
//!
//! Filing when the connection is established, and not earlier, makes ports that are used again
//! harmless: while the listener's end of a former connection lives, no other connection from the
//! same port can be established.
//!
//! # References
//!
//! `struct bpf_sock_addr`, `struct bpf_sock` and `struct bpf_sock_ops` of include/uapi/linux/bpf.h;
//! bpf-helpers(7)

use super::{
    assembler::{
        ARGUMENT_1, ARGUMENT_2, ARGUMENT_3, ARGUMENT_4, Assembler, FRAME, Helper, Is, Label, RESULT, Register, SAVED_1,
        SAVED_2, SAVED_3, SAVED_4, Width::*, at,
    },
    limits::MAX_PORT_RANGES,
    tables::{ADDRESS, PASSED_ON, PATH, PORT, TO_IPV4, TO_IPV6, Tables, UNTOUCHED},
};
use crate::sys::bpf::Instruction;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The addresses that connections are diverted to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Listeners {
    /// The identity of their network namespace. Programs in others do not reach them.
    pub(super) namespace: u64,
    /// The port on 127.0.0.1.
    pub(super) ipv4: u16,
    /// The port on ::1; `None` where this namespace has no IPv6.
    pub(super) ipv6: Option<u16>,
}

/// The family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// The program of connect(2).
pub(super) fn connect(family: Family, tables: &Tables, listeners: Listeners) -> Vec<Instruction> {
    /// The saved registers.
    const CONTEXT: Register = SAVED_1;
    const SOCKET: Register = SAVED_2;
    const DESTINATION_PORT: Register = SAVED_3;
    const DIVERSION: Register = SAVED_4;
    /// The destination's prefix on the stack, and the address in it.
    const PREFIX: i16 = -20;
    const DESTINATION: i16 = PREFIX + 4;
    /// The slot's number on the stack.
    const SLOT: i16 = -24;

    let mut a = Assembler::default();
    let (pass, is_new) = (a.label(), a.label());
    a.set(CONTEXT, ARGUMENT_1);

    // TCP alone, in the listeners' namespace.
    for (field, expected) in [(address::TYPE, libc::SOCK_STREAM), (address::PROTOCOL, libc::IPPROTO_TCP)] {
        a.load(Word, ARGUMENT_2, at(CONTEXT, field));
        a.jump_if_word(ARGUMENT_2, Is::NotEqual, expected, pass);
    }
    a.set(ARGUMENT_1, CONTEXT);
    a.call(Helper::NamespaceCookie);
    a.set_wide(ARGUMENT_2, listeners.namespace);
    a.jump_if(RESULT, Is::NotEqual, ARGUMENT_2, pass);

    // A note of an earlier connect holds no longer, unless it says that the socket is passed on.
    a.load(Double, SOCKET, at(CONTEXT, address::SOCKET));
    find_diversion(&mut a, tables, SOCKET, IfMissing::Nothing);
    a.jump_if(RESULT, Is::Equal, 0, is_new);
    a.load(Word, ARGUMENT_2, at(RESULT, PATH));
    a.jump_if_word(ARGUMENT_2, Is::Equal, PASSED_ON, pass);
    a.store(Word, at(RESULT, PATH), UNTOUCHED);
    a.place(is_new);

    // A socket that was bound to a device, a port or an address leaves as it is.
    let address_of_source: &[i16] = match family {
        Family::V4 => &[socket::SOURCE_IP4],
        Family::V6 => &[0, 4, 8, 12].map(|word| socket::SOURCE_IP6 + word),
    };
    for field in [socket::BOUND_DEVICE, socket::SOURCE_PORT].iter().chain(address_of_source) {
        a.load(Word, ARGUMENT_2, at(SOCKET, *field));
        a.jump_if_word(ARGUMENT_2, Is::NotEqual, 0, pass);
    }

    // The networks.
    a.store(Word, at(FRAME, PREFIX), 128);
    match family {
        Family::V4 => {
            a.store(Word, at(FRAME, DESTINATION), 0);
            a.store(Word, at(FRAME, DESTINATION + 4), 0);
            a.store(Word, at(FRAME, DESTINATION + 8), MAPPED[2]);
            a.load(Word, ARGUMENT_2, at(CONTEXT, address::IP4));
            a.store(Word, at(FRAME, DESTINATION + 12), ARGUMENT_2);
        }
        Family::V6 => {
            for word in WORDS {
                a.load(Word, ARGUMENT_2, at(CONTEXT, address::IP6 + word));
                a.store(Word, at(FRAME, DESTINATION + word), ARGUMENT_2);
            }
        }
    }
    a.store(Word, at(FRAME, SLOT), 0);
    a.set_map(ARGUMENT_1, &tables.networks);
    a.set_address(ARGUMENT_2, at(FRAME, SLOT));
    a.call(Helper::MapLookup);
    a.jump_if(RESULT, Is::Equal, 0, pass);
    a.set(ARGUMENT_1, RESULT);
    a.set_address(ARGUMENT_2, at(FRAME, PREFIX));
    a.call(Helper::MapLookup);
    a.jump_if(RESULT, Is::Equal, 0, pass);
    a.load(Word, DESTINATION_PORT, at(CONTEXT, address::PORT));
    pass_other_ports(&mut a, DESTINATION_PORT, RESULT, pass);

    // The note. Without memory for it, the connection leaves as it is.
    find_diversion(&mut a, tables, SOCKET, IfMissing::Create);
    a.jump_if(RESULT, Is::Equal, 0, pass);
    a.set(DIVERSION, RESULT);
    for word in WORDS {
        a.load(Word, ARGUMENT_2, at(FRAME, DESTINATION + word));
        a.store(Word, at(DIVERSION, ADDRESS + word), ARGUMENT_2);
    }
    a.store(Word, at(DIVERSION, PORT), DESTINATION_PORT);

    // The listener's address in place of the destination's.
    match family {
        Family::V4 => {
            a.store(Word, at(DIVERSION, PATH), TO_IPV4);
            replace(&mut a, CONTEXT, address::IP4, &[LOOPBACK_4], listeners.ipv4);
        }
        Family::V6 => {
            let is_ipv6 = a.label();
            for word in [0, 4, 8] {
                a.load(Word, ARGUMENT_2, at(FRAME, DESTINATION + word));
                a.jump_if_word(ARGUMENT_2, Is::NotEqual, MAPPED[word as usize / 4], is_ipv6);
            }
            a.store(Word, at(DIVERSION, PATH), TO_IPV4);
            replace(&mut a, CONTEXT, address::IP6, &[MAPPED[0], MAPPED[1], MAPPED[2], LOOPBACK_4], listeners.ipv4);
            a.jump(pass);
            a.place(is_ipv6);
            // Without a listener for it, no network of the table is of IPv6.
            if let Some(port) = listeners.ipv6 {
                a.store(Word, at(DIVERSION, PATH), TO_IPV6);
                replace(&mut a, CONTEXT, address::IP6, &words(Ipv6Addr::LOCALHOST), port);
            }
        }
    }
    a.place(pass);
    a.answer(GO_ON);
    a.finish()
}

/// The program of getpeername(2): the destination in place of the listener.
pub(super) fn peer_name(family: Family, tables: &Tables) -> Vec<Instruction> {
    const CONTEXT: Register = SAVED_1;
    let mut a = Assembler::default();
    let pass = a.label();
    a.set(CONTEXT, ARGUMENT_1);
    a.load(Double, ARGUMENT_2, at(CONTEXT, address::SOCKET));
    find_diversion(&mut a, tables, ARGUMENT_2, IfMissing::Nothing);
    pass_undiverted(&mut a, RESULT, pass);
    match family {
        Family::V4 => {
            a.load(Word, ARGUMENT_2, at(RESULT, ADDRESS + 12));
            a.store(Word, at(CONTEXT, address::IP4), ARGUMENT_2);
        }
        Family::V6 => {
            for word in WORDS {
                a.load(Word, ARGUMENT_2, at(RESULT, ADDRESS + word));
                a.store(Word, at(CONTEXT, address::IP6 + word), ARGUMENT_2);
            }
        }
    }
    a.load(Word, ARGUMENT_2, at(RESULT, PORT));
    a.store(Word, at(CONTEXT, address::PORT), ARGUMENT_2);
    a.place(pass);
    a.answer(GO_ON);
    a.finish()
}

/// The program of a socket's events: it files the note of an established connection, and takes it
/// back when the program gives the connection up.
pub(super) fn socket_events(tables: &Tables) -> Vec<Instruction> {
    const CONTEXT: Register = SAVED_1;
    const DIVERSION: Register = SAVED_2;
    /// The key on the stack: the local port and the path.
    const KEY: i16 = -8;

    let mut a = Assembler::default();
    let (pass, established) = (a.label(), a.label());
    a.set(CONTEXT, ARGUMENT_1);
    a.load(Double, ARGUMENT_2, at(CONTEXT, events::SOCKET));
    a.jump_if(ARGUMENT_2, Is::Equal, 0, pass);
    find_diversion(&mut a, tables, ARGUMENT_2, IfMissing::Nothing);
    pass_undiverted(&mut a, RESULT, pass);
    a.set(DIVERSION, RESULT);
    a.load(Word, ARGUMENT_2, at(CONTEXT, events::LOCAL_PORT));
    a.store(Word, at(FRAME, KEY), ARGUMENT_2);
    a.load(Word, ARGUMENT_2, at(DIVERSION, PATH));
    a.store(Word, at(FRAME, KEY + 4), ARGUMENT_2);

    a.load(Word, ARGUMENT_2, at(CONTEXT, events::EVENT));
    a.jump_if_word(ARGUMENT_2, Is::Equal, events::ACTIVE_ESTABLISHED, established);

    // A connection that ends otherwise than by an end in each direction was reset. After an end from
    // here alone, the other side has yet to read.
    a.jump_if_word(ARGUMENT_2, Is::NotEqual, events::NEW_STATE, pass);
    a.load(Word, ARGUMENT_2, at(CONTEXT, events::ARGUMENTS + 4));
    a.jump_if_word(ARGUMENT_2, Is::NotEqual, events::CLOSE, pass);
    a.load(Word, ARGUMENT_2, at(CONTEXT, events::ARGUMENTS));
    a.jump_if_word(ARGUMENT_2, Is::Equal, events::FIN_WAIT_2, pass);
    a.set_map(ARGUMENT_1, &tables.established);
    a.set_address(ARGUMENT_2, at(FRAME, KEY));
    a.call(Helper::MapDelete);
    a.jump(pass);

    a.place(established);
    a.set_map(ARGUMENT_1, &tables.established);
    a.set_address(ARGUMENT_2, at(FRAME, KEY));
    a.set(ARGUMENT_3, DIVERSION);
    a.set(ARGUMENT_4, 0);
    a.call(Helper::MapUpdate);
    // From now on the socket tells its new states, beside the events that others asked for.
    a.set(ARGUMENT_1, CONTEXT);
    a.load(Word, ARGUMENT_2, at(CONTEXT, events::WANTED));
    a.or(ARGUMENT_2, events::WANT_STATES);
    a.call(Helper::SetSocketEvents);

    a.place(pass);
    a.answer(GO_ON);
    a.finish()
}

/// Whether a socket without a note is given one.
#[derive(Debug, Clone, Copy)]
enum IfMissing {
    Nothing = 0,
    Create = 1,
}

/// `RESULT = ` the address of the socket's note, or 0.
fn find_diversion(a: &mut Assembler, tables: &Tables, socket: Register, if_missing: IfMissing) {
    a.set(ARGUMENT_2, socket);
    a.set_map(ARGUMENT_1, &tables.diversions);
    // A new note is all zeros.
    a.set(ARGUMENT_3, 0);
    a.set(ARGUMENT_4, if_missing as i32);
    a.call(Helper::SocketStorage);
}

/// Goes on only with a note of a connection that is diverted.
fn pass_undiverted(a: &mut Assembler, diversion: Register, pass: Label) {
    let diverted = a.label();
    a.jump_if(diversion, Is::Equal, 0, pass);
    a.load(Word, ARGUMENT_2, at(diversion, PATH));
    a.jump_if_word(ARGUMENT_2, Is::Equal, TO_IPV4, diverted);
    a.jump_if_word(ARGUMENT_2, Is::NotEqual, TO_IPV6, pass);
    a.place(diverted);
}

/// Goes on only if the port, in the network's order, is within one of the ranges at `ranges`.
fn pass_other_ports(a: &mut Assembler, port: Register, ranges: Register, pass: Label) {
    let found = a.label();
    a.set(ARGUMENT_2, port);
    a.network_order_16(ARGUMENT_2);
    for range in 0..MAX_PORT_RANGES as i16 {
        let next = a.label();
        a.load(Half, ARGUMENT_3, at(ranges, 4 * range));
        a.load(Half, ARGUMENT_4, at(ranges, 4 * range + 2));
        a.jump_if(ARGUMENT_2, Is::Less, ARGUMENT_3, next);
        a.jump_if(ARGUMENT_2, Is::Greater, ARGUMENT_4, next);
        a.jump(found);
        a.place(next);
    }
    a.jump(pass);
    a.place(found);
}

/// Writes another address and port to the context.
fn replace(a: &mut Assembler, context: Register, field: i16, address: &[i32], port: u16) {
    for (word, place) in address.iter().zip(WORDS) {
        a.set(ARGUMENT_2, *word);
        a.store(Word, at(context, field + place), ARGUMENT_2);
    }
    a.set(ARGUMENT_2, i32::from(port.to_be()));
    a.store(Word, at(context, address::PORT), ARGUMENT_2);
}

/// An address in the network's order of bytes, as 32-bit numbers of this machine.
const fn words(address: Ipv6Addr) -> [i32; 4] {
    let o = address.octets();
    [
        i32::from_ne_bytes([o[0], o[1], o[2], o[3]]),
        i32::from_ne_bytes([o[4], o[5], o[6], o[7]]),
        i32::from_ne_bytes([o[8], o[9], o[10], o[11]]),
        i32::from_ne_bytes([o[12], o[13], o[14], o[15]]),
    ]
}

/// The offsets of an IPv6 address's 32-bit words.
const WORDS: [i16; 4] = [0, 4, 8, 12];
/// The words of the address 0.0.0.0, mapped into IPv6.
const MAPPED: [i32; 4] = words(Ipv4Addr::UNSPECIFIED.to_ipv6_mapped());
const LOOPBACK_4: i32 = i32::from_ne_bytes(Ipv4Addr::LOCALHOST.octets());

/// The answer of a program that lets the call go on.
const GO_ON: i32 = 1;

/// The offsets of `struct bpf_sock_addr`: the address of a call.
mod address {
    pub(super) const IP4: i16 = 4;
    pub(super) const IP6: i16 = 8;
    /// In the network's order.
    pub(super) const PORT: i16 = 24;
    pub(super) const TYPE: i16 = 32;
    pub(super) const PROTOCOL: i16 = 36;
    pub(super) const SOCKET: i16 = 64;
}

/// The offsets of `struct bpf_sock`.
mod socket {
    pub(super) const BOUND_DEVICE: i16 = 0;
    pub(super) const SOURCE_IP4: i16 = 24;
    pub(super) const SOURCE_IP6: i16 = 28;
    pub(super) const SOURCE_PORT: i16 = 44;
}

/// The offsets of `struct bpf_sock_ops`, and the numbers in it.
mod events {
    pub(super) const EVENT: i16 = 0;
    pub(super) const ARGUMENTS: i16 = 4;
    /// In the machine's order.
    pub(super) const LOCAL_PORT: i16 = 68;
    pub(super) const WANTED: i16 = 84;
    pub(super) const SOCKET: i16 = 184;

    /// `BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB`: the answer to the SYN came, and is not confirmed yet.
    pub(super) const ACTIVE_ESTABLISHED: i32 = 4;
    /// `BPF_SOCK_OPS_STATE_CB`, with the old and the new state as arguments.
    pub(super) const NEW_STATE: i32 = 10;
    /// `BPF_SOCK_OPS_STATE_CB_FLAG`
    pub(super) const WANT_STATES: i32 = 1 << 2;

    // include/net/tcp_states.h
    pub(super) const FIN_WAIT_2: i32 = 5;
    pub(super) const CLOSE: i32 = 7;
}
