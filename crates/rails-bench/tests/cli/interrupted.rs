//! Ctrl-C.

use crate::{
    transfers::wait_for_size,
    util::{Receiver, finish, interrupt, pattern, rails_bench, start, text},
};
use std::fs;

#[test]
fn an_interrupted_sender_leaves_no_final_file_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::write(&file, pattern(256 << 20, 4)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure", "--once"]);
    let (sender, lines) = start(rails_bench(["send", text(&file), "--to", &receiver.addresses, "--insecure"]));
    wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    interrupt(sender.id());
    let (code, out, said) = finish(sender, &lines);
    assert_eq!(code, 130, "{said}");
    assert!(out.is_empty() && said.contains("the same command goes on from there"), "{said}");
    let (code, _, said) = receiver.finish();
    assert_eq!(code, 1, "the batch is not there: {said}");
    assert!(said.contains("large (") && said.contains("to go on from"), "{said}");
    assert!(!inbox.join("large").exists());
}

#[test]
fn an_interrupted_receiver_leaves_no_final_file_and_says_what_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let (inbox, file) = (folder.path().join("inbox"), folder.path().join("large"));
    fs::write(&file, pattern(256 << 20, 5)).unwrap();
    let receiver = Receiver::start(&inbox, ["--insecure"]);
    let (sender, lines) = start(rails_bench(["send", text(&file), "--to", &receiver.addresses, "--insecure"]));
    wait_for_size(&inbox.join(".large.rails-part"), 1 << 20);
    interrupt(receiver.id());
    let (code, _, said) = receiver.finish();
    assert_eq!(code, 130, "{said}");
    assert!(said.contains("large (") && said.contains("to go on from"), "{said}");
    assert!(!inbox.join("large").exists() && inbox.join(".large.rails-part").exists());
    assert_eq!(finish(sender, &lines).0, 1, "the sender is told");
}

#[test]
fn an_idle_receiver_ends_at_ctrl_c() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = Receiver::start(&folder.path().join("inbox"), ["--insecure"]);
    interrupt(receiver.id());
    assert_eq!(receiver.finish().0, 130);
}
