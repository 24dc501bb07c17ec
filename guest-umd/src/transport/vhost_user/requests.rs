// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device's own requests: the thread that answers them.

use super::conversation::during;
use crate::transport::TransportError;
use std::net::Shutdown;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use vhost::vhost_user::Error::ReqHandlerError;
use vhost::vhost_user::{
    Frontend, FrontendReqHandler, VhostUserFrontend, VhostUserFrontendReqHandlerMut,
};

/// The thread that answers the device's requests. It ends on drop.
pub struct RequestServer {
    /// A duplicate of the thread's socket: shutting it down ends the thread.
    socket: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl RequestServer {
    /// Gives the device a channel for requests, which `window` answers.
    ///
    /// # Errors
    /// If the device or the operating system refuses.
    pub fn start<W: VhostUserFrontendReqHandlerMut + Send + 'static>(
        front_end: &mut Frontend,
        window: Arc<Mutex<W>>,
    ) -> Result<Self, TransportError> {
        let io = |error| TransportError::Io("the device's request channel", error);
        let mut handler = during("request channel", FrontendReqHandler::new(window))?;
        handler.set_reply_ack_flag(true);
        // SAFETY: the handler owns the descriptor, and outlives the making of the duplicate.
        #[expect(unsafe_code, reason = "the handler offers only the raw descriptor")]
        let socket = unsafe { BorrowedFd::borrow_raw(handler.as_raw_fd()) }
            .try_clone_to_owned()
            .map_err(io)?;
        let device_end = handler.get_tx_raw_fd();
        during("SET_BACKEND_REQ_FD", front_end.set_backend_request_fd(&device_end))?;
        let thread = thread::Builder::new()
            .name("vmm-requests".into())
            // The handler answers a refusal and the channel stays usable; only its end ends the loop.
            .spawn(
                move || {
                    while matches!(handler.handle_request(), Ok(_) | Err(ReqHandlerError(_))) {}
                },
            )
            .map_err(io)?;
        Ok(Self { socket: socket.into(), thread: Some(thread) })
    }
}

impl Drop for RequestServer {
    fn drop(&mut self) {
        // This fails only if the connection has ended already.
        let _ = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // The thread does nothing that panics.
            let _ = thread.join();
        }
    }
}
