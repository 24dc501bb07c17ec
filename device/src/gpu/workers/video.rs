// SPDX-License-Identifier: MIT OR Apache-2.0

//! Video sessions: what they are, and the table by which engines find them.
//!
//! A session has a worker of its own, which its engine asks for at the first packet. The worker remembers the stream, so
//! the session is lost with it.

use super::mailboxes::{Mailboxes, Order};
use super::tenant::{GuestWorkers, Tenant, TenantId};
use bellhop_host_kmd::hardware::{AddressSpaceId, GuestId, VideoSessionNumber, VideoSettings};
use bellhop_worker::messages::video::Session;
use bellhop_worker::owner::Role;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A session.
#[derive(Debug)]
pub struct VideoSession {
    /// Its workers' tenant.
    pub tenant: Arc<Tenant>,
    /// What it is.
    pub settings: VideoSettings,
}

impl VideoSession {
    /// What its worker is told of it.
    pub fn to_message(&self) -> Session {
        let VideoSettings { encodes, format, size, is_bit_rate, rate, frame_rate, .. } =
            self.settings;
        Session {
            encodes: encodes.into(),
            format,
            size,
            is_bit_rate: is_bit_rate.into(),
            rate,
            frame_rate,
            key_frame_interval: self.settings.key_frame_interval,
            speed: self.settings.speed,
        }
    }

    /// Most samples of luma of a picture that it decodes; 0 if it encodes.
    pub fn samples_to_decode(&self) -> u32 {
        let [width, height] = self.settings.size;
        if self.settings.encodes { 0 } else { width.saturating_mul(height) }
    }
}

/// Sessions by address space and number.
pub type SessionTable = HashMap<(AddressSpaceId, u32), Arc<VideoSession>>;

/// The next session's number. Numbers are unique in the process, and so in each address space.
static NUMBERS: AtomicU32 = AtomicU32::new(1);

/// The control plane's side of sessions.
#[derive(Debug)]
pub struct VideoSessions {
    mailboxes: Arc<Mailboxes>,
    /// Most sessions of all guests.
    most: usize,
}

impl VideoSessions {
    /// No sessions. There may be this many.
    pub fn new(mailboxes: Arc<Mailboxes>, most: u32) -> Self {
        Self { mailboxes, most: most as usize }
    }

    /// Creates a session. `None` if there is no room for another.
    pub fn create(
        &self,
        space: AddressSpaceId,
        settings: VideoSettings,
        guest: Arc<GuestWorkers>,
    ) -> Option<VideoSessionNumber> {
        let mut table = SessionTable::clone(&self.mailboxes.sessions.load());
        if table.len() >= self.most {
            return None;
        }
        // Relaxed: only the uniqueness of the number matters. After 2^32 sessions there are no more.
        let next = |number: u32| number.checked_add(1);
        let number = NUMBERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok()?;
        let id = TenantId { role: Role::Video, number: number.into() };
        let tenant = Arc::new(Tenant::new(id, space, guest));
        let session = VideoSession { tenant, settings };
        table.insert((space, number), Arc::new(session));
        self.mailboxes.sessions.store(Arc::new(table));
        Some(VideoSessionNumber(number))
    }

    /// Destroys a session. Returns false if there is no such session.
    pub fn destroy(&self, space: AddressSpaceId, session: VideoSessionNumber) -> bool {
        self.end(|of, number, _| (of, number) == (space, session.0)) > 0
    }

    /// Destroys the sessions of an address space. Their workers end soon, and before any engine passes a later ticket.
    pub fn end_space(&self, space: AddressSpaceId) {
        self.end(|of, _, _| of == space);
    }

    /// Destroys all sessions of a guest.
    pub fn end_guest(&self, guest: GuestId) {
        self.end(|_, _, session| session.tenant.guest.id == guest);
    }

    fn end(&self, which: impl Fn(AddressSpaceId, u32, &VideoSession) -> bool) -> usize {
        let mut table = SessionTable::clone(&self.mailboxes.sessions.load());
        let ended: Vec<_> =
            table.extract_if(|(space, number), session| which(*space, *number, session)).collect();
        if !ended.is_empty() {
            self.mailboxes.sessions.store(Arc::new(table));
        }
        for (_, session) in &ended {
            session.tenant.end();
            self.mailboxes.order(Order::EndTenant(session.tenant.id));
        }
        ended.len()
    }
}
