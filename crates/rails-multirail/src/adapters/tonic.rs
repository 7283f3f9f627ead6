//! `Server::serve_with_incoming(listener.into_incoming())`.

use super::StreamInfo;
use crate::MultiRailStream;
use tonic::transport::server::Connected;

impl Connected for MultiRailStream {
    type ConnectInfo = StreamInfo;

    fn connect_info(&self) -> StreamInfo {
        StreamInfo::from(self)
    }
}
