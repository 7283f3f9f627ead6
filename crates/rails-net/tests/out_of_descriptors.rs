//! A listener goes on after the process ran out of descriptors. The limit holds for the process, so
//! this test has a file of its own.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rails_net::TcpTransport;
use std::os::fd::AsRawFd;

#[tokio::test(flavor = "current_thread")]
async fn accept_after_descriptors_ran_out() {
    let options = TcpTransport::new();
    let listener = options.listen(([127, 0, 0, 1], 0).into()).expect("every machine has a loopback interface");
    let near = options.connect(listener.local_addr()).await.expect("the listener accepts");

    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("readable");
    // The kernel gives out the lowest free descriptor, and the limit is the first number that it does
    // not give out.
    let next = std::fs::File::open("/dev/null").expect("a descriptor").as_raw_fd();
    let limit = u64::try_from(next).expect("descriptors are not negative");
    setrlimit(Resource::RLIMIT_NOFILE, limit, hard).expect("lowering is allowed");
    let outcome = listener.accept().await;
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).expect("raising up to the hard limit is allowed");

    let error = outcome.expect_err("no descriptor is free");
    assert!(error.is_transient() && error.is_out_of_resources(), "{error}");
    let far = listener.accept().await.expect("the connection waited");
    assert_eq!(far.peer_addr(), near.local_addr());
}
