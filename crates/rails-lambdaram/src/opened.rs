//! A site that is open, which its handles and those of its datasets share.

use crate::{SiteAddress, SiteOptions, library::Library, trace::Recorder};
use rails_multirail::Rails;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct OpenSite {
    pub(crate) library: Arc<Library>,
    pub(crate) options: SiteOptions,
    pub(crate) address: SiteAddress,
    /// The rails that carry the links run as long as the site.
    #[expect(dead_code, reason = "they are only dropped")]
    pub(crate) rails: Vec<Rails>,
    /// The recording of the reads, if somebody wants it.
    pub(crate) recorder: Option<Recorder>,
}

impl Drop for OpenSite {
    fn drop(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.end(self.library.status(), self.library.path());
        }
    }
}
