// SPDX-License-Identifier: MIT OR Apache-2.0

//! The scripted device as a transport.

use super::script::{Answer, Sent, reply};
use super::{SYSTEM_BASE, SYSTEM_SIZE, ScriptedDevice};
use bellhop_guest_umd::transport::{
    BarMapping, Donations, MemoryType, SystemMemory, Transport, TransportError,
};
use bellhop_protocol::config::ConfigSpace;
use bellhop_protocol::control::allocation::Extent;
use bellhop_protocol::event::Event;
use bellhop_protocol::features::Features;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::panicking;
use std::time::{Duration, Instant};
use vm_memory::MmapRegion;

impl ScriptedDevice {
    /// Answers a request; returns the reply, or the length that it claims.
    fn take(&self, sent: Sent) -> Result<(Vec<u8>, usize), TransportError> {
        let script = Arc::clone(&*self.script.lock().unwrap());
        // A test that has failed drops its objects.
        let answer = if panicking() { Answer::AsUsual } else { script(self, &sent) };
        let mut state = self.state();
        let bytes = match answer {
            Answer::AsUsual => self.answer(&mut state, &sent),
            Answer::Refuse(status, detail) => reply(status, detail, &[]),
            Answer::Reply(bytes) => bytes,
            Answer::Alter(alter) => {
                let mut bytes = self.answer(&mut state, &sent);
                alter(&mut bytes);
                bytes
            }
            Answer::Length(length) => {
                state.sent.push(sent);
                return Ok((Vec::new(), length));
            }
            Answer::Disconnect => return Err(TransportError::Disconnected("as scripted".into())),
        };
        state.sent.push(sent);
        self.changed.notify_all();
        let length = bytes.len();
        Ok((bytes, length))
    }
}

impl Transport for ScriptedDevice {
    fn config(&self) -> ConfigSpace {
        self.shape.config
    }

    fn features(&self) -> Features {
        self.shape.features
    }

    fn donations(&self) -> &Donations {
        &self.donations
    }

    fn bar(&self) -> Option<BarMapping> {
        self.shape.bar.as_ref()?;
        let region = Arc::clone(&self.bar);
        Some(BarMapping { region, memory_type: MemoryType::WriteBack })
    }

    fn request(&self, request: &[u8], reply_buffer: &mut [u8]) -> Result<usize, TransportError> {
        let (bytes, length) = self.take(Sent::new(request))?;
        reply_buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(length)
    }

    fn post(&self, request: &[u8]) -> Result<(), TransportError> {
        self.take(Sent { is_posted: true, ..Sent::new(request) }).map(drop)
    }

    fn kick(&self) -> Result<(), TransportError> {
        self.state().kicks += 1;
        Ok(())
    }

    fn next_event(&self, timeout: Option<Duration>) -> Result<Option<Event>, TransportError> {
        let deadline = Instant::now() + timeout.expect("the driver always names a time");
        let mut state = self.state();
        state.reads += 1;
        self.changed.notify_all();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.gone {
                return Err(TransportError::Disconnected("as scripted".into()));
            }
            if state.events.is_empty()
                && let Some(event) = state.late.take()
            {
                state.events.push_back(event);
            }
            let is_notified = std::mem::take(&mut state.notified);
            if !state.events.is_empty() || is_notified || left.is_zero() {
                return Ok(state.events.pop_front());
            }
            state = self.changed.wait_timeout(state, left).unwrap().0;
        }
    }

    fn allocate(&self, size: u64) -> Result<Box<dyn SystemMemory>, TransportError> {
        let length = size as usize;
        let offset = self.next_system.fetch_add(length, Ordering::Relaxed);
        if offset + length > SYSTEM_SIZE {
            return Err(TransportError::OutOfMemory(size));
        }
        self.system_in_use.fetch_add(length, Ordering::Relaxed);
        Ok(Box::new(Pages {
            region: Arc::clone(&self.system),
            offset,
            extents: [Extent { address: SYSTEM_BASE + offset as u64, length: size }],
            in_use: Arc::clone(&self.system_in_use),
        }))
    }

    fn check(&self) -> Result<(), TransportError> {
        Ok(())
    }
}

/// Memory that the driver got.
struct Pages {
    region: Arc<MmapRegion>,
    offset: usize,
    extents: [Extent; 1],
    in_use: Arc<AtomicUsize>,
}

impl SystemMemory for Pages {
    fn region(&self) -> &Arc<MmapRegion> {
        &self.region
    }

    fn offset(&self) -> usize {
        self.offset
    }

    fn len(&self) -> usize {
        self.extents[0].length as usize
    }

    fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        self.in_use.fetch_sub(self.len(), Ordering::Relaxed);
    }
}
