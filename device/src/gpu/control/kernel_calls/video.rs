// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions.

use super::Gpu;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, UnknownId, Video, VideoRefusal, VideoSessionNumber, VideoSettings,
};
use bellhop_protocol::control::video::VideoCaps;

impl Video for Gpu {
    fn video_caps(&self) -> VideoCaps {
        self.video_caps
    }

    fn create_video_session(
        &self,
        space: AddressSpaceId,
        settings: VideoSettings,
    ) -> Result<VideoSessionNumber, VideoRefusal> {
        let unknown = UnknownId::AddressSpace(space);
        let (guest, _) = self.registry().spaces.get(&space).cloned().ok_or(unknown)?;
        let partition = self.guest(guest)?;
        let (Some(video), Some(workers)) = (&self.video, &self.workers) else {
            return Err(VideoRefusal::NoVideo);
        };
        let created = video.create(space, settings, workers.guest(&partition));
        created.ok_or(VideoRefusal::Full)
    }

    fn destroy_video_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
    ) -> Result<(), UnknownId> {
        self.space(space)?;
        let destroyed = self.video.as_ref().is_some_and(|video| video.destroy(space, session));
        destroyed.then_some(()).ok_or(UnknownId::VideoSession { space, session })
    }
}
