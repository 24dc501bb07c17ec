// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about video sessions.

use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::nodes;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::object::handles::ObjectKind;
use crate::dxgkrnl::object::quotas::Limited;
use crate::dxgkrnl::video::session::VideoSession;
use crate::dxgkrnl::video::settings;
use crate::hardware::GpuOrdinal;
use bellhop_protocol::control::video::{
    CreateVideoSession, DestroyVideoSession, QueryVideoCaps, VideoCaps, VideoSessionCreated,
};

impl ProcessAccess<'_> {
    /// What sessions can be, for this guest.
    pub(crate) fn query_video_caps(&mut self, request: QueryVideoCaps) -> Handled<VideoCaps> {
        zero("reserved", request.reserved)?;
        let mut caps = self.platform.video_caps();
        let limit = self.guest.quotas.limit(Limited::VideoSessions);
        caps.max_sessions = caps.max_sessions.min(u32::try_from(limit).unwrap_or(u32::MAX));
        Ok(Answer::Done(caps))
    }

    /// Creates a session.
    pub(crate) fn create_video_session(
        &mut self,
        request: CreateVideoSession,
    ) -> Handled<VideoSessionCreated> {
        let CreateVideoSession { device, node, .. } = request;
        self.get::<Device>(device)?.check_alive(device)?;
        let caps = self.platform.video_caps();
        if !caps.are_supported() {
            return Err(RequestError::NotSupported("video sessions"));
        }
        let metadata = nodes::node(self.guest, self.miniport, node)?;
        self.guest.presence.check_gpu(GpuOrdinal(metadata.gpu()))?;
        let engine_type = metadata.engine_type;
        let settings = settings::check(&request, engine_type, &caps)?;
        let space = self.process()?.space();
        // Charged for first: what is refused costs the hardware nothing.
        self.guest.quotas.charge_object(ObjectKind::VideoSession)?;
        let created = self.platform.create_video_session(space, settings);
        let number = created.inspect_err(|_| {
            let kind = ObjectKind::VideoSession;
            self.guest.quotas.refund_object(kind);
        })?;
        let session = VideoSession::new(device, number);
        let session = self.guest.handles.insert(self.process_id, session);
        self.get_mut::<Device>(device)?.add_video_session(session);
        Ok(Answer::Done(VideoSessionCreated { session, number: number.0, reserved: 0 }))
    }

    /// Destroys a session. An engine that executes a packet of it finishes.
    pub(crate) fn destroy_video_session(&mut self, request: DestroyVideoSession) -> Handled<()> {
        self.remove_video_session(request.session)?;
        Ok(Answer::Done(()))
    }
}
