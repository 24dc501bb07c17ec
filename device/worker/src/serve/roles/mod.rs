// SPDX-License-Identifier: MIT OR Apache-2.0

//! The roles without Vulkan.

#[cfg(feature = "codecs")]
pub mod video;

/// A build without codecs has no video.
#[cfg(not(feature = "codecs"))]
pub mod video {
    use crate::serve::memory::Memory;
    use crate::serve::tasks::Tasks;
    use anyhow::bail;

    /// Nothing that could do a task.
    pub enum Video {}

    impl Tasks for Video {
        fn task(&mut self, _task: &[u8], memory: &Memory) -> anyhow::Result<Vec<u8>> {
            // No value exists that this could be called with.
            memory.read(0, &mut [])?;
            match *self {}
        }
    }

    /// Prepares for a video session.
    ///
    /// # Errors
    /// This build has no codecs.
    pub fn prepare(_threads: u32, _samples: u32) -> anyhow::Result<Video> {
        bail!("this bellhop-worker was built without codecs")
    }
}
