//! Flows beside a session, and the conversations to which they belong: a flow shows the token that
//! its conversation was given.

use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// A random number that names a conversation. Both ends know it from the control stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Token([u8; Token::LEN]);

impl Token {
    /// The length of a token, in bytes.
    pub(crate) const LEN: usize = 32;

    /// A token that nobody can guess.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn random() -> io::Result<Self> {
        let mut token = [0; Self::LEN];
        getrandom::fill(&mut token)?;
        Ok(Self(token))
    }

    /// The token with these bytes.
    pub(crate) fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// The bytes that a flow sends.
    pub(crate) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

/// A token is as good as a secret, and shows up in no log.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The conversations that wait for flows of type `F`.
#[derive(Debug)]
pub(crate) struct Claims<F>(Arc<Mutex<BTreeMap<Token, mpsc::Sender<F>>>>);

impl<F> Claims<F> {
    /// Waits for up to `max` flows that show the token.
    pub(crate) fn wait(&self, token: Token, max: usize) -> Claim<F> {
        let (found, arriving) = mpsc::channel(max);
        self.lock().insert(token, found);
        Claim { claims: self.clone(), token, arriving }
    }

    /// Hands a flow to the conversation with that token. Gives the flow back if nobody waits for
    /// it.
    pub(crate) fn hand(&self, token: Token, flow: F) -> Result<(), F> {
        let waiting = self.lock().get(&token).cloned();
        let Some(waiting) = waiting else { return Err(flow) };
        waiting.try_send(flow).map_err(mpsc::error::TrySendError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Token, mpsc::Sender<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> Default for Claims<F> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<F> Clone for Claims<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// A conversation's wait for its flows.
#[derive(Debug)]
pub(crate) struct Claim<F> {
    claims: Claims<F>,
    token: Token,
    arriving: mpsc::Receiver<F>,
}

impl<F> Claim<F> {
    /// Waits for the next flow. Cancel safe.
    pub(crate) async fn next(&mut self) -> F {
        match self.arriving.recv().await {
            Some(flow) => flow,
            None => unreachable!("the claim is in the map until it is dropped"),
        }
    }
}

impl<F> Drop for Claim<F> {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_flow_reaches_the_conversation_of_its_token_alone() {
        let claims: Claims<u8> = Claims::default();
        let (ours, theirs) = (Token::random().unwrap(), Token::random().unwrap());
        let mut claim = claims.wait(ours, 2);
        assert_eq!(claims.hand(theirs, 1), Err(1), "nobody waits for it");
        assert_eq!((claims.hand(ours, 2), claims.hand(ours, 3), claims.hand(ours, 4)), (Ok(()), Ok(()), Err(4)));
        assert_eq!((claim.next().await, claim.next().await), (2, 3));
        drop(claim);
        assert_eq!(claims.hand(ours, 5), Err(5), "the conversation is over");
    }
}
