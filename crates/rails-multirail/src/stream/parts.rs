//! The driver's part of receiving messages: packets into buffers of their own, large messages straight into theirs.

use super::{
    io::receive_ready,
    lane::{Intake, LaneDriver},
};
use crate::error::LaneError;
use bytes::{Bytes, BytesMut};
use rails_proto::{
    chunk::Content,
    messages::{Lent, Place},
    wire::DataHeader,
};
use std::time::Instant;
use tokio::task::coop;

impl LaneDriver {
    /// Receives a chunk of messages, whose headers have arrived.
    pub(super) async fn receive_content(
        &self,
        intake: &mut Intake<'_>,
        header: &DataHeader,
        content: Content,
    ) -> Result<(), LaneError> {
        let own = match self.place(header, &content)? {
            Place::Message => match self.receive_part(intake, header).await? {
                None => return Ok(()),
                Some(ousted) => ousted.freeze(),
            },
            Place::Own | Place::NeedsBuffer(_) => {
                let mut buffer = self.shared.buffers.chunk(self.node, header.length as usize);
                intake.payload(header, &mut buffer).await?;
                buffer.freeze()
            }
        };
        self.hand_in(header, &content, own)
    }

    /// Where the chunk's bytes go. A message that begins gets its buffer here, outside the lock. Its pages are made as they are first written to:
    /// each on the node of the rail that receives it, or in turn on those of all rails in use, where that was asked for.
    fn place(&self, header: &DataHeader, content: &Content) -> Result<Place, LaneError> {
        let mut spare = None;
        loop {
            let place = self
                .shared
                .with(|state| state.connection.admit_content(self.id, header, content, &mut spare))
                .map_err(LaneError::Violation)?;
            match place {
                Place::NeedsBuffer(length) => {
                    let nodes = if self.interleaved { self.shared.nodes_in_use() } else { None };
                    spare = Some(self.shared.buffers.message(length, nodes.as_ref()));
                }
                place => {
                    self.shared.buffers.make_room();
                    return Ok(place);
                }
            }
        }
    }

    /// Reads a part into its piece of the message, which is in hand only between two waits. Where the part comes by another lane meanwhile, the
    /// rest of it comes in a buffer of its own, which is given.
    async fn receive_part(&self, intake: &mut Intake<'_>, header: &DataHeader) -> Result<Option<BytesMut>, LaneError> {
        let length = header.length as usize;
        let mut filled = 0;
        while filled < length {
            let mut piece = match self.lend() {
                Lent::Piece(piece) => piece,
                Lent::Own(own) => return self.receive_rest(intake, header, own, filled).await.map(Some),
            };
            let read = intake.fill_some(&mut piece[filled..]);
            filled += *read.as_ref().unwrap_or(&0);
            self.shared
                .with(|state| state.connection.give_back(self.id, piece, filled))
                .map_err(LaneError::Violation)?;
            if read? == 0 {
                receive_ready(intake.lane).await?;
            }
            coop::consume_budget().await;
        }
        let tag = intake.tag(header).await?;
        let mut piece = match self.lend() {
            Lent::Piece(piece) => piece,
            Lent::Own(mut own) => return intake.check(header, &mut own, tag.as_ref()).map(|()| Some(own)),
        };
        if let Err(error) = intake.check(header, &mut piece, tag.as_ref()) {
            let _ = self.shared.with(|state| state.connection.give_back(self.id, piece, 0));
            return Err(error);
        }
        let now = Instant::now();
        self.take_in(|connection| connection.handle_part(now, self.id, header, piece))?;
        self.record.received.count(header.length);
        Ok(None)
    }

    /// The rest of a part that came by another lane, behind what is in `own` already.
    async fn receive_rest(
        &self,
        intake: &mut Intake<'_>,
        header: &DataHeader,
        mut own: BytesMut,
        filled: usize,
    ) -> Result<BytesMut, LaneError> {
        intake.fill(&mut own[filled..]).await?;
        let tag = intake.tag(header).await?;
        intake.check(header, &mut own, tag.as_ref())?;
        Ok(own)
    }

    /// Takes in a chunk that came in a buffer of its own.
    fn hand_in(&self, header: &DataHeader, content: &Content, payload: Bytes) -> Result<(), LaneError> {
        let now = Instant::now();
        self.take_in(|connection| connection.handle_content(now, self.id, header, content, payload))?;
        self.shared.buffers.make_room();
        self.record.received.count(header.length);
        Ok(())
    }

    fn lend(&self) -> Lent {
        let lent = self.shared.with(|state| state.connection.lend(self.id));
        lent.expect("what a lane was given to fill is its own until it is full or was filled by another")
    }
}
