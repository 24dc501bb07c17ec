// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model's video sessions, which decode nothing.

use crate::model::Model;
use bellhop_host_kmd::hardware::{
    AddressSpaceId, UnknownId, Video, VideoRefusal, VideoSessionNumber, VideoSettings,
};
use bellhop_protocol::control::video::{VIDEO_DECODES, VideoCaps};

impl Video for Model {
    fn video_caps(&self) -> VideoCaps {
        if self.state().video_room == 0 {
            return VideoCaps::none("the model has no video nodes");
        }
        VideoCaps::new(VIDEO_DECODES, 1000)
    }

    fn create_video_session(
        &self,
        space: AddressSpaceId,
        settings: VideoSettings,
    ) -> Result<VideoSessionNumber, VideoRefusal> {
        self.known(UnknownId::AddressSpace(space))?;
        let mut state = self.state();
        if state.video_sessions.len() as u32 >= state.video_room {
            return Err(VideoRefusal::Full);
        }
        // No other GPU of the chain has the number.
        let number = VideoSessionNumber(u32::from(self.gpu.0) << 24 | state.id() as u32);
        state.video_sessions.insert((space, number), settings);
        Ok(number)
    }

    fn destroy_video_session(
        &self,
        space: AddressSpaceId,
        session: VideoSessionNumber,
    ) -> Result<(), UnknownId> {
        let removed = self.state().video_sessions.remove(&(space, session));
        removed.map(drop).ok_or(UnknownId::VideoSession { space, session })
    }
}
