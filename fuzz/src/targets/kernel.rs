//! The inputs of rails-bind: files of `/proc`, its own journal, answers of the kernel and of
//! irqbalance.

use super::texts;
use rails_bind::fuzzing;

/// Reads one text as each of the files.
pub(crate) fn proc_files(data: &[u8]) {
    fuzzing::proc_files(&String::from_utf8_lossy(data));
}

pub(crate) fn files() -> Vec<Vec<u8>> {
    texts([
        "77 (a b) c) S 1 77 77 0 -1 4194304 120 0 3 0 11 7 0 0 20 0 4 0 5551 9 9 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 \
         17 3 0 0 0 0 0",
        "123456789 98765 42\n",
        "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\nMems_allowed_list:\t0-1\n",
        "x (7, #threads: 1)\n---------------------------------------------------------\nse.nr_migrations   :   3\n\
         nr_voluntary_switches : 4\nnr_involuntary_switches : 5\nmm->numa_scan_seq : 2\nnuma_pages_migrated : 9\n\
         numa_preferred_nid : 0\ncurrent_node=0, numa_group_id=0\n\
         numa_faults node=0 task_private=1 task_shared=2 group_private=0 group_shared=0\n",
        "55d0 default file=/usr/bin/x mapped=3 mapmax=2 N0=2 N1=1 kernelpagesize_kB=4\n7f00 prefer:1 anon=7 N1=7 \
         kernelpagesize_kB=4\n7f10 default huge dirty=1 N0=1 kernelpagesize_kB=2048\n",
        "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 512 kB\nNode 0 Active(file): 7 kB\nNode 0 SReclaimable: 1 kB\n",
        "7f00-7f20 rw-p 00000000 00:00 0 \nRss:  2048 kB\nAnonHugePages:      2048 kB\n",
        "   CPU0   CPU1\n 24:  7  4294967295  PCI-MSI 0-edge eth0-rx-0\n",
    ])
}

pub(crate) const WORDS: &[&str] = &[
    "18446744073709551615",
    "kernelpagesize_kB=",
    "N0=",
    "huge",
    "file=",
    "MemTotal:",
    "MemFree:",
    "Active(file):",
    "SReclaimable:",
    " kB",
    "numa_faults node=",
    "task_private=",
    "current_node=",
    "CPU0",
    "AnonHugePages:",
    "7f00-7f20 ",
];

/// A record that was read is written so that it reads back as the same. Nothing is carried out.
pub(crate) fn journal(data: &[u8]) {
    fuzzing::journal(data);
}

pub(crate) fn records() -> Vec<Vec<u8>> {
    fuzzing::records()
}

pub(crate) const RECORD_WORDS: &[&str] = &[
    "\"boot\":",
    "\"owner\":",
    "\"kept\":",
    "\"progress\":",
    "planned",
    "changing",
    "made",
    "\"entries\":",
    "\"setting\":",
    "\"former\":",
    "\"ours\":",
];

/// The kernel's answer about connections.
pub(crate) fn connections(data: &[u8]) {
    fuzzing::connections(data);
}

/// A connection with 136 bytes of `tcp_info`, and the end of the answer.
pub(crate) fn connection_answers() -> Vec<Vec<u8>> {
    let mut answer = vec![0; 16 + 72 + 4 + 136];
    answer[..4].copy_from_slice(&228_u32.to_ne_bytes());
    answer[4..6].copy_from_slice(&20_u16.to_ne_bytes());
    answer[16..18].copy_from_slice(&[2, 1]);
    answer[88..92].copy_from_slice(&[[140, 0], [2, 0]].concat());
    answer.extend([16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    vec![answer]
}

/// irqbalance's answer on its socket.
pub(crate) fn irqbalance(data: &[u8]) {
    fuzzing::irqbalance(&String::from_utf8_lossy(data));
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    texts(["SLEEP 2 IRQ 26 LOAD 0 DIFF 0 CLASS 0 IRQ 27 LOAD 0 DIFF 0 CLASS 0 BANNED 00000000,0000000f"])
}

pub(crate) const BALANCER_WORDS: &[&str] = &["SLEEP ", "IRQ ", "LOAD ", "BANNED "];
