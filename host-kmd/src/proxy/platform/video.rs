// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions: each belongs to the GPU that has its node.

use super::LinkedPlatform;
use crate::hardware::{
    AddressSpaceId, UnknownId, Video, VideoRefusal, VideoSessionNumber, VideoSettings,
};
use bellhop_protocol::control::video::VideoCaps;

impl Video for LinkedPlatform {
    fn video_caps(&self) -> VideoCaps {
        // Some GPU of the chain does it; nodes tell which. The limit of sessions is the guest's.
        let all = self.gpus.iter().map(|gpu| gpu.video_caps()).filter(VideoCaps::are_supported);
        let some = all.reduce(|a, b| VideoCaps {
            flags: a.flags | b.flags,
            max_sessions: a.max_sessions.max(b.max_sessions),
            ..a
        });
        some.unwrap_or_else(|| self.master().video_caps())
    }

    fn create_video_session(
        &self,
        space: AddressSpaceId,
        settings: VideoSettings,
    ) -> Result<VideoSessionNumber, VideoRefusal> {
        let (gpu, node) = self.place(settings.node);
        let own = self.shared.space(space, gpu);
        let settings = VideoSettings { node, ..settings };
        let session = self.gpu(gpu).create_video_session(own, settings)?;
        self.shared.insert_session(space, session, gpu);
        Ok(session)
    }

    fn destroy_video_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
    ) -> Result<(), UnknownId> {
        let unknown = UnknownId::VideoSession { space, session };
        let gpu = self.shared.remove_session(space, session).ok_or(unknown)?;
        self.gpu(gpu).destroy_video_session(self.shared.space(space, gpu), session)
    }
}
