//! The state that tasks of a session wait for, and the events that wake them. The model has its own
//! in their place.

pub(super) use crate::stream::{StreamShared, StreamState, among_others};
pub(super) use tokio::sync::Notify;
