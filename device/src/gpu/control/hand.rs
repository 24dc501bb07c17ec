// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread that touches memory of guests in place of the control plane.
//!
//! A guest's VMM, and its workers, have descriptors of the memory that the guest shares with the host: of its own, and of
//! the BAR. Each of them can punch a hole there, and whoever touches the memory then waits until the hole is complete,
//! which nothing can interrupt. Engines cannot help touching a guest's memory. The control plane, for which all guests
//! wait, can: it has another thread do it, and waits for the result for as long as that thread does not *stand*.
//!
//! A guest whose memory is kept from the host loses its connection, and the control plane touches its memory no more. The
//! thread that stands is left to itself; it ends when the hole is complete. Holes that are short add up: the guests
//! of a socket have one stall budget ([`Account`](crate::gpu::shared::account)).
//!
//! Somebody may stop the whole daemon in the middle of a touch, such as a debugger. The host's kernel counts the touching
//! thread as blocked then, but the control plane was not there either: a touch stands at most for as long as somebody saw it.

use crate::gpu::shared::account::STALL_BUDGET;
use crate::gpu::shared::partition::Partition;
use crate::gpu::shared::thread::HostThread;
use crate::gpu::shared::thread::standstill::Standstill;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// Time between two looks at a thread that has no result yet.
const LOOK: Duration = Duration::from_millis(10);
/// A touch that takes less is not measured.
const SHORT: Duration = Duration::from_micros(100);

type Touch = Box<dyn FnOnce(&mut Meter) + Send>;

/// Tells how long touches of the calling thread stood.
struct Meter {
    epoch: Instant,
    standstill: Standstill,
}

impl Meter {
    fn new() -> Self {
        let mut standstill = Standstill::default();
        standstill.begin(0);
        Self { epoch: Instant::now(), standstill }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// What comes of a touch, and how long it stood.
    fn measure<T>(&mut self, touch: impl FnOnce() -> T) -> (T, Duration) {
        let began = self.now();
        self.standstill.count_from(began);
        let result = touch();
        let ended = self.now();
        let took = Duration::from_nanos(ended.saturating_sub(began));
        if took < SHORT {
            return (result, Duration::ZERO);
        }
        (result, Duration::from_nanos(self.standstill.of_turn((began, ended), Duration::ZERO)))
    }
}

/// Touches guests' memory, one touch after another.
#[derive(Debug)]
pub struct Hand {
    helper: Mutex<Option<Helper>>,
    /// Whether the caller's own thread does it, for programs that step the device.
    is_own: AtomicBool,
}

#[derive(Debug)]
struct Helper {
    /// The channel hands over what the caller did before, and the result's channel what the touch did.
    touches: Sender<Touch>,
    thread: Arc<HostThread>,
}

impl Helper {
    fn start() -> std::io::Result<Self> {
        let (touches, next) = mpsc::channel::<Touch>();
        let thread = Arc::new(HostThread::default());
        let own = Arc::clone(&thread);
        Builder::new().name("hand".into()).spawn(move || {
            own.begin();
            let mut meter = Meter::new();
            next.into_iter().for_each(|touch| touch(&mut meter));
        })?;
        Ok(Self { touches, thread })
    }

    /// Has the thread do it, and waits until it has, or has stood for longer than the budget. Returns what came of it, and how
    /// long it stood.
    #[expect(clippy::disallowed_methods, reason = "never full: it has room for the one result")]
    fn touch<T: Send + 'static>(
        &self,
        touch: impl FnOnce() -> T + Send + 'static,
        stands: impl Fn(&HostThread) -> bool,
        budget: Duration,
    ) -> Option<(T, Duration)> {
        let (done, result) = mpsc::sync_channel(1);
        let touch = move |meter: &mut Meter| {
            // Who no longer waits for the result has given this thread up.
            let _ = done.send(meter.measure(touch));
        };
        self.touches.send(Box::new(touch)).ok()?;
        let ((result, stood), seen) = wait(&result, || stands(&self.thread), budget)?;
        Some((result, stood.min(seen)))
    }
}

/// Waits for a result, unless the thread that owes it stands for longer than this, at once or by parts. Returns for how long it
/// looked on, too: however late a look is, the thread is seen for no longer than looks are apart.
#[expect(
    clippy::disallowed_methods,
    reason = "the control plane, for the hand: until the touch is done, or 50 ms while the hand stands"
)]
fn wait<T>(
    result: &Receiver<T>,
    stands: impl Fn() -> bool,
    budget: Duration,
) -> Option<(T, Duration)> {
    let (mut stood, mut seen) = (Duration::ZERO, Duration::ZERO);
    loop {
        let looked = Instant::now();
        match result.recv_timeout(LOOK) {
            Ok(result) => return Some((result, seen + looked.elapsed().min(LOOK))),
            Err(RecvTimeoutError::Timeout) if stands() => stood += LOOK,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        seen += LOOK;
        if stood > Duration::ZERO && stood >= budget {
            return None;
        }
    }
}

impl Hand {
    /// A hand with its thread.
    ///
    /// # Errors
    /// If Linux gives the process no thread.
    pub fn start() -> std::io::Result<Self> {
        Ok(Self { helper: Mutex::new(Some(Helper::start()?)), is_own: AtomicBool::new(false) })
    }

    /// From now on the caller's own thread does it.
    #[cfg(feature = "stepped")]
    pub fn use_own_thread(&self) {
        self.is_own.store(true, Ordering::Relaxed);
    }

    /// Does something in a guest's memory. `None` if the guest's memory is kept from the host: the guest loses its
    /// connection then, and nothing is done for it any more.
    pub fn touch<T: Send + 'static>(
        &self,
        partition: &Arc<Partition>,
        touch: impl FnOnce(&Arc<Partition>) -> T + Send + 'static,
    ) -> Option<T> {
        self.touch_unless(partition, touch, HostThread::stands)
    }

    #[expect(clippy::disallowed_methods, reason = "a lock that the control plane alone takes")]
    fn touch_unless<T: Send + 'static>(
        &self,
        partition: &Arc<Partition>,
        touch: impl FnOnce(&Arc<Partition>) -> T + Send + 'static,
        stands: impl Fn(&HostThread) -> bool,
    ) -> Option<T> {
        if partition.is_withheld() {
            return None;
        }
        if self.is_own.load(Ordering::Relaxed) {
            return Some(touch(partition));
        }
        // Only the control plane takes the lock.
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        let ready = match helper.take() {
            Some(ready) => ready,
            None => match Helper::start() {
                Ok(started) => started,
                Err(error) => {
                    tracing::warn!(%error, "cannot start a thread; the control plane touches a guest's memory itself");
                    return Some(touch(partition));
                }
            },
        };
        let (own, account) = (Arc::clone(partition), partition.account());
        let budget = account.stall_budget();
        let touched = ready.touch(move || touch(&own), stands, budget);
        if touched.is_some() {
            *helper = Some(ready);
        }
        let stood = touched.as_ref().map_or(STALL_BUDGET, |(_, stood)| *stood);
        if !stood.is_zero() {
            account.charge_stall(stood);
        }
        if stood > budget || touched.is_none() {
            partition.withhold();
        }
        touched.map(|(result, _)| result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::memory::cross_memory::CrossAdapterMemory;
    use bellhop_host_kmd::hardware::{GuestId, SegmentSizes};
    use bellhop_protocol::bar::BarLayout;
    use std::sync::mpsc::channel;
    use std::thread;
    use vm_memory::GuestMemoryMmap;

    fn guest(id: u64) -> Arc<Partition> {
        let layout = BarLayout { doorbell_count: 1, fence_count: 1, local_memory: 0x1000 };
        let (memory, shared) = (GuestMemoryMmap::new(), CrossAdapterMemory::new(0).unwrap());
        let sizes = SegmentSizes::default();
        let guest = Partition::new(GuestId(id), layout, sizes, 0, &memory, Arc::new(shared), 1);
        Arc::new(guest.unwrap())
    }

    #[test]
    fn it_is_done_in_order_on_one_thread_that_is_not_the_callers() {
        let (hand, guest) = (Hand::start().unwrap(), guest(1));
        let ids: Vec<_> =
            (0..3).map(|_| hand.touch(&guest, |_| thread::current().id()).unwrap()).collect();
        assert!(ids.iter().all(|id| *id == ids[0] && *id != thread::current().id()));
        assert_eq!(hand.touch(&guest, |guest| guest.id()), Some(GuestId(1)));
    }

    #[test]
    fn a_thread_that_is_slow_is_waited_for() {
        let (hand, guest) = (Hand::start().unwrap(), guest(1));
        let (go, gone) = channel();
        let looks = std::cell::Cell::new(0_u32);
        let slow = move |_: &Arc<Partition>| {
            loop {
                match gone.try_recv() {
                    Ok(value) => break value,
                    Err(_) => thread::yield_now(),
                }
            }
        };
        let done = hand.touch_unless(&guest, slow, |_| {
            looks.set(looks.get() + 1);
            if looks.get() == 15 {
                go.send(7).unwrap();
            }
            // It stands from time to time, as in memory that is read from swap.
            looks.get().is_multiple_of(5)
        });
        assert_eq!((done, guest.is_withheld()), (Some(7), false));
    }

    #[test]
    fn short_holes_add_up_and_work_does_not() {
        const HOLE: Duration = Duration::from_millis(45);
        let hand = Hand::start().unwrap();
        let [hostile, busy] = [1, 2].map(guest);
        let blocked = |_: &Arc<Partition>| {
            let (_never, blocked) = channel::<()>();
            assert!(blocked.recv_timeout(HOLE).is_err());
        };
        let works = |_: &Arc<Partition>| {
            let start = Instant::now();
            while start.elapsed() < HOLE {}
        };
        let holes = (0..10).take_while(|_| hand.touch(&hostile, blocked).is_some()).count();
        // Some of the budget comes back meanwhile.
        assert!((2..10).contains(&holes) && hostile.is_withheld(), "{holes}");
        assert!((0..4).all(|_| hand.touch(&busy, works).is_some()) && !busy.is_withheld());
    }

    #[test]
    fn a_stop_of_the_whole_daemon_in_the_middle_of_a_touch_is_no_hole() {
        const STOP: Duration = Duration::from_millis(250);
        let (hand, guest) = (Hand::start().unwrap(), guest(1));
        for _ in 0..3 {
            let (go, gone) = channel();
            let stopped = move |_: &Arc<Partition>| gone.recv().unwrap();
            // The control plane looks, and comes back from its look after the stop, as does the hand.
            let touched = hand.touch_unless(&guest, stopped, |_| {
                let (_never, blocked) = channel::<()>();
                assert!(blocked.recv_timeout(STOP).is_err());
                go.send(7).unwrap();
                false
            });
            assert_eq!((touched, guest.is_withheld()), (Some(7), false));
        }
    }

    #[test]
    fn a_guest_whose_memory_is_kept_from_the_host_is_given_up_and_no_other() {
        let hand = Hand::start().unwrap();
        let [hostile, other] = [1, 2].map(guest);
        let (go, gone) = channel::<()>();
        let (told, tells) = channel();
        let stuck = move |_: &Arc<Partition>| {
            gone.recv().unwrap();
            told.send(()).unwrap();
        };
        assert_eq!(hand.touch_unless(&hostile, stuck, |_| true), None);
        assert!(hostile.is_withheld() && !other.is_withheld());
        assert_eq!(hand.touch(&other, |guest| guest.id()), Some(GuestId(2)));
        // Nothing more is done for it, although its memory is there again.
        go.send(()).unwrap();
        tells.recv().unwrap();
        assert_eq!(hand.touch(&hostile, |_| -> u8 { panic!("it is touched") }), None);
    }
}
