// SPDX-License-Identifier: MIT OR Apache-2.0

//! The display itself: its children, its sources, and what it reports.
//!
//! Source: Windows KMD overview, "Display" and "Interrupt".

use super::error::DisplayError;
use crate::adapter::Adapter;
use crate::error::Error;
use crate::link::display_events::{HotPlug, Inbox, Input, Vsync};
use crate::link::session::{self, Session};
use bellhop_protocol::control::Request;
use bellhop_protocol::control::display::{ChildDescriptor, QueryChildRelations};
use bellhop_protocol::control::flip::{
    ControlInterrupt, GetScanLine, INTERRUPT_VSYNC, ScanLine, SetVidPnSourceOwner,
    SetVidPnSourceVisibility,
};
use std::sync::Arc;
use std::time::Duration;

impl Adapter {
    /// Opens the guest's display for this process. Its clones are one display; all of them together see each event once.
    ///
    /// # Errors
    /// [`DisplayError::NoDisplay`] if the guest has none.
    pub fn display(&self) -> Result<Display, DisplayError> {
        let request = QueryChildRelations { reserved: 0 };
        let relations = self.adapter_call(&request).map_err(DisplayError::of_display)?;
        let children = relations.list.get(..relations.children as usize);
        let children = children.ok_or(Error::BadReply(QueryChildRelations::CODE))?.to_vec();
        let session = Arc::clone(self.session());
        session.link.events.open_display(session.process());
        let sources = relations.sources;
        Ok(Display(Arc::new(Opened { session, children, sources })))
    }
}

/// The guest's display, as one process sees it.
///
/// Every request of a display may fail with [`DisplayError::Device`]; `# Errors` sections name other errors only.
#[derive(Clone)]
pub struct Display(Arc<Opened>);

struct Opened {
    session: Arc<Session>,
    children: Vec<ChildDescriptor>,
    sources: u32,
}

impl Display {
    pub(super) fn session(&self) -> &Session {
        &self.0.session
    }

    /// Sends a request of the adapter, which names no process.
    pub(super) fn adapter_call<T: Request>(&self, request: &T) -> Result<T::Reply, Error> {
        session::call(&*self.session().link.transport, 0, request, &[])
    }

    /// Its connectors, numbered from 0 (`QueryChildRelations`).
    #[must_use]
    pub fn children(&self) -> &[ChildDescriptor] {
        &self.0.children
    }

    /// How many sources there are, numbered from 0.
    #[must_use]
    pub fn sources(&self) -> u32 {
        self.0.sources
    }

    /// Shows a source of this process or blanks it (`SetVidPnSourceVisibility`). A blanked source has no VSYNC and costs
    /// nothing; flips of it happen at once, and the last one is seen when it is visible again.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn set_visible(&self, source: u32, visible: bool) -> Result<(), DisplayError> {
        let request = SetVidPnSourceVisibility { source, visible: visible.into() };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }

    /// Lets another process of the guest flip a source of this one, or takes that back with `None`. Flips of both wait in
    /// one queue; those of the other process that still wait when it is taken back are lost.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn lend(&self, source: u32, process: Option<&Adapter>) -> Result<(), DisplayError> {
        self.lend_to(source, process.map_or(0, Adapter::process))
    }

    /// As [`Self::lend`], to a process of another program, by its number; 0 takes it back.
    ///
    /// # Errors
    /// As [`Self::lend`].
    pub fn lend_to(&self, source: u32, process: u32) -> Result<(), DisplayError> {
        let request = SetVidPnSourceOwner { source, process };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }

    /// The line that is scanned now (`GetScanLine`), on the first target of the source.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn scan_line(&self, source: u32) -> Result<ScanLine, DisplayError> {
        let request = GetScanLine { source, reserved: 0 };
        self.adapter_call(&request).map_err(DisplayError::of_source(source))
    }

    /// Asks for an event for each VSYNC of a source, or no longer (`DxgkDdiControlInterrupt`). While no
    /// program asks and no flip waits, VSYNCs cost nothing.
    ///
    /// # Errors
    /// [`DisplayError::NotInTopology`]
    pub fn set_vsync_events(&self, source: u32, wanted: bool) -> Result<(), DisplayError> {
        let flags = if wanted { INTERRUPT_VSYNC } else { 0 };
        let request = ControlInterrupt { source, flags };
        self.session().call(&request).map_err(DisplayError::of_source(source))
    }

    /// Waits for the next VSYNC of a source that no earlier call has returned, in their order. Needs
    /// [`Self::set_vsync_events`].
    ///
    /// # Errors
    /// [`DisplayError::Timeout`]
    pub fn wait_for_vsync(&self, source: u32, timeout: Duration) -> Result<Vsync, DisplayError> {
        let vsync =
            self.wait(timeout, |inbox| inbox.vsyncs.take(|vsync| vsync.source == source))?;
        vsync.ok_or(DisplayError::Timeout("a VSYNC"))
    }

    /// Forgets the VSYNCs of a source that have come, so that [`Self::wait_for_vsync`] returns the next one to come.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn skip_vsyncs(&self, source: u32) -> Result<(), DisplayError> {
        let Session { link, .. } = self.session();
        link.events.drain()?;
        let forget = |inbox: &mut Inbox| inbox.vsyncs.forget(|vsync| vsync.source == source);
        link.events.with_display(self.session().process(), forget);
        Ok(())
    }

    /// Waits until a monitor is plugged in or unplugged; returns each time once. `None` if that does not happen in time.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn next_hot_plug(&self, timeout: Duration) -> Result<Option<HotPlug>, DisplayError> {
        self.wait(timeout, |inbox| inbox.hot_plugs.pop())
    }

    /// Waits for a key or the pointer of somebody who watches a source of this process. `None` if nothing comes in time.
    ///
    /// # Errors
    /// None but those of every request.
    pub fn next_input(&self, timeout: Duration) -> Result<Option<Input>, DisplayError> {
        self.wait(timeout, |inbox| inbox.input.pop())
    }

    /// Waits until `take` finds what it looks for among the process's events. Without time, looks at those that are there.
    pub(super) fn wait<R>(
        &self,
        timeout: Duration,
        take: impl Fn(&mut Inbox) -> Option<R>,
    ) -> Result<Option<R>, DisplayError> {
        let session = self.session();
        if timeout.is_zero() {
            session.link.events.drain()?;
            return Ok(session.link.events.with_display(session.process(), take));
        }
        Ok(session.link.events.wait_for_display(session.process(), timeout, take)?)
    }
}
