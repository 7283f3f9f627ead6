//! The targets. To add one is to write its function and to add a line here.

mod capture;
mod celeritas;
mod delimited;
mod formats;
mod gate;
mod gate_policy;
mod handshake;
mod kernel;
mod lambdaram;
mod lane;
mod lanes;
mod messages;
mod monitor;
mod reassembler;
mod record;
mod seal;
mod selection;
mod session;
mod streams;
mod text;
mod tls;
mod topology;
mod transfer;
mod wire;
mod zarr;

/// A decoder, and the start of its search.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Panics if the decoder panics, or breaks its promises.
    pub(crate) run: fn(&[u8]),
    /// Inputs that reach deep into the decoder.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
    /// Words of its inputs.
    pub(crate) words: &'static [&'static str],
}

pub(crate) const TARGETS: &[Target] = &[
    // rails-multirail: bytes from a peer, and requests of a user.
    Target { name: "frame", run: wire::frame, seeds: wire::seeds, words: &[] },
    Target { name: "handshake-message", run: handshake::message, seeds: handshake::messages, words: &["RAIL"] },
    Target { name: "handshake", run: handshake::both_sides, seeds: handshake::conversations, words: &["RAIL"] },
    Target { name: "tls", run: tls::strangers, seeds: tls::flights, words: &["RAIL"] },
    Target { name: "tls-between", run: tls::between, seeds: tls::changes, words: &[] },
    Target { name: "seal", run: seal::run, seeds: seal::seeds, words: &[] },
    Target { name: "pem", run: tls::pem, seeds: tls::pems, words: tls::PEM_WORDS },
    Target { name: "key-pin", run: tls::pin, seeds: tls::pins, words: &[] },
    Target { name: "lanes", run: lanes::exchange, seeds: lanes::exchanges, words: &["RAIL"] },
    Target { name: "lane-entries", run: lanes::entries, seeds: lanes::lists, words: lanes::ENTRY_WORDS },
    Target { name: "pairing", run: lanes::pairing, seeds: lanes::offers_of_both, words: &[] },
    Target { name: "session", run: session::run, seeds: session::seeds, words: &[] },
    Target { name: "streams", run: streams::run, seeds: streams::seeds, words: &[] },
    Target { name: "lane", run: lane::run, seeds: lane::seeds, words: &[] },
    Target { name: "messages", run: messages::run, seeds: messages::seeds, words: &[] },
    Target { name: "delimited", run: delimited::run, seeds: delimited::seeds, words: &[] },
    Target { name: "reassembler", run: reassembler::run, seeds: reassembler::seeds, words: &[] },
    Target { name: "decisions", run: record::run, seeds: record::seeds, words: record::WORDS },
    Target { name: "rail-request", run: text::rail_request, seeds: text::rail_requests, words: text::REQUEST_WORDS },
    // rails-celeritas: bytes from a peer.
    Target { name: "celeritas", run: celeritas::bytes, seeds: celeritas::frames, words: &[] },
    Target { name: "celeritas-peer", run: celeritas::peer, seeds: celeritas::scripts, words: &[] },
    // rails-gate: bytes from a peer's gate, and from a program of this host.
    Target { name: "gate-frame", run: gate::frame, seeds: gate::frames, words: &[] },
    Target { name: "gate-session", run: gate::session, seeds: gate::sessions, words: &[] },
    Target { name: "gate-question", run: gate::question, seeds: gate::questions, words: &[] },
    Target { name: "gate-answer", run: gate::answer, seeds: gate::answers, words: &[] },
    // rails-bench and rails-transfer: messages that a peer sends, and the command line.
    Target {
        name: "conversation",
        run: transfer::conversation,
        seeds: transfer::conversations,
        words: &["count", "watch"],
    },
    Target { name: "transfer-message", run: transfer::message, seeds: transfer::messages, words: transfer::WORDS },
    Target { name: "transfer-receive", run: transfer::receive, seeds: transfer::to_receiver, words: transfer::WORDS },
    Target {
        name: "transfer-streams",
        run: transfer::receive_over,
        seeds: transfer::to_receiver_over,
        words: transfer::WORDS,
    },
    Target { name: "transfer-send", run: transfer::send, seeds: transfer::to_sender, words: transfer::WORDS },
    Target { name: "latency", run: transfer::latency, seeds: transfer::questions, words: &[] },
    Target { name: "rivals-output", run: text::rivals_output, seeds: text::outputs, words: text::OUTPUT_WORDS },
    Target { name: "profile", run: text::profile, seeds: text::profiles, words: text::PROFILE_WORDS },
    Target { name: "command-line", run: text::command_line, seeds: text::command_lines, words: text::LINE_WORDS },
    // rails-gate: its policy, and bytes from a client.
    Target {
        name: "gate-policy",
        run: gate_policy::policy,
        seeds: gate_policy::policies,
        words: gate_policy::POLICY_WORDS,
    },
    Target {
        name: "socks",
        run: gate_policy::socks,
        seeds: gate_policy::requests,
        words: &["\x05\x01\0", "\x05\x01\0\x03"],
    },
    // rails-array: selections that people write.
    Target { name: "selection", run: selection::text, seeds: selection::seeds, words: selection::WORDS },
    // rails-topo: the machine's description.
    Target { name: "id-set", run: text::id_set, seeds: text::id_sets, words: &["-", ",", "0-", "1048575"] },
    Target { name: "interrupts", run: text::interrupts, seeds: text::interrupt_files, words: text::INTERRUPT_WORDS },
    Target { name: "synthetic", run: topology::synthetic, seeds: topology::descriptions, words: topology::LEVELS },
    Target { name: "sysfs", run: topology::sysfs, seeds: topology::trees, words: &["0-3", "\0"] },
    Target { name: "capture", run: capture::read, seeds: capture::captures, words: capture::WORDS },
    Target { name: "hwloc-xml", run: topology::xml, seeds: topology::values, words: topology::XML_WORDS },
    Target { name: "config", run: topology::config, seeds: topology::configs, words: topology::CONFIG_WORDS },
    Target { name: "uevent", run: monitor::uevent, seeds: monitor::uevents, words: monitor::UEVENT_WORDS },
    Target { name: "rtnetlink", run: monitor::rtnetlink, seeds: monitor::datagrams, words: &["eth0\0\0\0\0"] },
    // rails-bind: answers of the kernel and of other programs, and the journal.
    Target { name: "proc-files", run: kernel::proc_files, seeds: kernel::files, words: kernel::WORDS },
    Target { name: "journal", run: kernel::journal, seeds: kernel::records, words: kernel::RECORD_WORDS },
    Target { name: "connections", run: kernel::connections, seeds: kernel::connection_answers, words: &[] },
    Target { name: "irqbalance", run: kernel::irqbalance, seeds: kernel::answers, words: kernel::BALANCER_WORDS },
    // rails-formats: files of arrays, and their description.
    Target { name: "netcdf3", run: formats::netcdf3, seeds: formats::netcdf3_files, words: &["CDF\x01", "CDF\x05"] },
    Target { name: "map-binary", run: formats::map_binary, seeds: formats::map_binary_files, words: &["MAPBIN\r\n"] },
    Target {
        name: "dataset-file",
        run: formats::dataset_file,
        seeds: formats::dataset_files,
        words: formats::DATASET_WORDS,
    },
    Target { name: "manifest", run: formats::manifest, seeds: formats::manifests, words: &[] },
    Target { name: "zarr-metadata", run: zarr::metadata, seeds: zarr::texts, words: zarr::WORDS },
    Target { name: "zarr-shard", run: zarr::shard, seeds: zarr::shards, words: &[] },
    Target { name: "chunk", run: zarr::chunk, seeds: zarr::chunks, words: &[] },
    // rails-lambdaram: messages of another node, and the blocks in them.
    Target { name: "lambdaram-reader", run: lambdaram::reader, seeds: lambdaram::reader_frames, words: &[] },
    Target { name: "lambdaram-server", run: lambdaram::server, seeds: lambdaram::server_messages, words: &[] },
    Target { name: "lambdaram-payload", run: lambdaram::payload, seeds: lambdaram::payloads, words: &[] },
    Target {
        name: "lambdaram-trace",
        run: lambdaram::trace,
        seeds: lambdaram::traces,
        words: &["\"read\":{", "[0:1]"],
    },
];

/// Inputs that are text.
fn texts<const N: usize>(texts: [&str; N]) -> Vec<Vec<u8>> {
    texts.map(|text| text.as_bytes().to_vec()).into()
}
