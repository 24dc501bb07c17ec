// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guest memory that disappears while it is in use.
//!
//! A front end can shorten the file behind a guest's memory, and a file system can be full when a page is first
//! touched. The access then raises SIGBUS on the accessing thread, an engine's or the control plane's. The handler
//! maps zeroes over the memory, so that the access completes, and signals an event; the guest's connection sees the
//! event and ends. Only that guest loses its work.
//!
//! Any other SIGBUS keeps its previous effect.

use libc::{c_int, c_void, siginfo_t};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use vm_memory::MmapRegion;

/// Maximum number of regions at once, of all guests.
const PLACES: usize = 1 << 14;
/// Bytes replaced by one call of the handler: small enough to be quick, large enough to add few mappings.
const PIECE: usize = 64 << 20;
/// The unit of addresses, which divides every page size.
const UNIT: usize = 4096;
/// Bits of [`Place::range`] that hold the number of units.
const LENGTH_BITS: u32 = 29;
/// `BUS_ADRERR`: codes from this one on report a failed access. Lower codes are signals that a process sent.
const FAULTS: std::ops::RangeInclusive<c_int> = 1..=5;

/// Place of a region in the address space.
///
/// The handler uses a place only for a region that its own thread is accessing. That thread received the region
/// from the thread that watched it, so the place was filled earlier, and it stays filled until the last owner drops
/// the region. Other places may change while the handler reads them. A range is one word, so the handler never sees
/// parts of two ranges.
struct Place {
    /// The first unit and, in the lower bits, the number of units; 0 is a free place.
    range: AtomicU64,
    /// Page size of the file. Only whole pages can be replaced.
    page: AtomicU64,
    /// Whether a part of the memory disappeared.
    is_lost: AtomicBool,
}

static PLACES_OF_REGIONS: [Place; PLACES] = [const {
    Place { range: AtomicU64::new(0), page: AtomicU64::new(0), is_lost: AtomicBool::new(false) }
}; PLACES];

/// The event that the handler signals at a loss; never closed.
static EVENT: AtomicI32 = AtomicI32::new(-1);

/// The region of each place. A place is free once its region is dropped.
static OWNERS: Mutex<Vec<Weak<MmapRegion>>> = Mutex::new(Vec::new());

/// No code panics while it holds the lock, so its content is consistent.
#[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
fn owners() -> MutexGuard<'static, Vec<Weak<MmapRegion>>> {
    OWNERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a region cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// Too many regions are watched.
    #[error("this process already maps {PLACES} memory regions of guests; announce fewer")]
    Full,
    /// The region is too large, or mapped outside user space.
    #[error("a memory region of {0:#x} bytes is too large")]
    Size(usize),
    /// The operating system refused a call.
    #[error("cannot watch for memory that disappears: {0}")]
    Handler(#[from] io::Error),
}

/// A region that is watched until it is dropped.
#[derive(Debug)]
pub struct Watched {
    region: Weak<MmapRegion>,
    place: usize,
}

impl Watched {
    /// Watches a region that no thread uses yet. `page` is the page size of its file.
    ///
    /// # Errors
    /// See [`WatchError`].
    pub fn new(region: &Arc<MmapRegion>, page: u64) -> Result<Self, WatchError> {
        install()?;
        let start = region.as_ptr().addr();
        let units = region.size().div_ceil(UNIT);
        let fits = units < 1 << LENGTH_BITS && start / UNIT < 1 << (u64::BITS - LENGTH_BITS);
        let range = ((start / UNIT) as u64) << LENGTH_BITS | units as u64;
        if !fits {
            return Err(WatchError::Size(region.size()));
        }
        let mut owners = owners();
        // A new region, this one for instance, may occupy the addresses of dropped regions.
        for (place, owner) in PLACES_OF_REGIONS.iter().zip(&*owners) {
            if owner.strong_count() == 0 {
                place.range.store(0, Ordering::Relaxed);
            }
        }
        let free = owners.iter().position(|owner| owner.strong_count() == 0);
        let index = free.unwrap_or(owners.len());
        let place = PLACES_OF_REGIONS.get(index).ok_or(WatchError::Full)?;
        match owners.get_mut(index) {
            Some(owner) => *owner = Arc::downgrade(region),
            None => owners.push(Arc::downgrade(region)),
        }
        // Relaxed: the accessing thread runs the handler itself, and received the region after this store by
        // whatever handed it the memory.
        place.page.store(page, Ordering::Relaxed);
        place.is_lost.store(false, Ordering::Relaxed);
        place.range.store(range, Ordering::Relaxed);
        Ok(Self { region: Arc::downgrade(region), place: index })
    }

    /// Returns whether the region still has an owner.
    pub fn is_in_use(&self) -> bool {
        self.region.strong_count() > 0
    }

    /// The region's length in bytes; 0 after it was dropped.
    pub fn length(&self) -> u64 {
        self.region.upgrade().map_or(0, |region| region.size() as u64)
    }

    /// Returns whether a part of the memory disappeared.
    pub fn is_lost(&self) -> bool {
        // Without an owner the place may hold another region.
        self.is_in_use()
            // Relaxed: the handler writes the event after this flag, and the kernel orders both.
            && PLACES_OF_REGIONS.get(self.place).is_some_and(|place| place.is_lost.load(Ordering::Relaxed))
    }
}

/// Becomes readable at each loss of any guest and stays readable: wait for its edge.
///
/// # Errors
/// If the process is out of descriptors.
pub fn event() -> io::Result<BorrowedFd<'static>> {
    install().map(AsFd::as_fd)
}

/// The previous action for SIGBUS, normally the handler of Rust's standard library.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once.
#[expect(clippy::disallowed_methods, reason = "a lock that is held for a few stores")]
fn install() -> io::Result<&'static OwnedFd> {
    static INSTALLED: Mutex<()> = Mutex::new(());
    static LOSSES: OnceLock<OwnedFd> = OnceLock::new();
    let _one_at_a_time = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(event) = LOSSES.get() {
        return Ok(event);
    }
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    EVENT.store(event.as_raw_fd(), Ordering::Relaxed);
    // SAFETY: All fields of a `sigaction` are integers, sets of bits and a pointer that may be null.
    #[expect(unsafe_code, reason = "libc has no constructor for it")]
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the signal stack, which each Rust thread has: the fault may affect the thread's own stack.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    let mut before = MaybeUninit::zeroed();
    // SAFETY: `action` is initialised, and `before` has room for another. The handler only reads and writes
    // atomics and makes async-signal-safe system calls.
    #[expect(unsafe_code, reason = "a handler runs between any two instructions")]
    let before = unsafe {
        if libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        before.assume_init()
    };
    // The only call: one thread arrives here, once.
    let _ = BEFORE.set(before);
    Ok(LOSSES.get_or_init(|| event))
}

/// Handles SIGBUS.
extern "C" fn handle(_signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    // SAFETY: The kernel passes a `siginfo_t` to a handler installed with `SA_SIGINFO`; for fault codes its address
    // is the one that could not be accessed.
    #[expect(unsafe_code, reason = "what a handler is given is a pointer")]
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    if FAULTS.contains(&code) && replace(address) {
        return;
    }
    restore(code);
}

/// Maps zeroes over guest memory; returns whether the address was in guest memory.
fn replace(address: usize) -> bool {
    let unit = (address / UNIT) as u64;
    for place in &PLACES_OF_REGIONS {
        // Relaxed: see [`Place`].
        let range = place.range.load(Ordering::Relaxed);
        let (first, units) = (range >> LENGTH_BITS, range & ((1 << LENGTH_BITS) - 1));
        if !(first..first + units).contains(&unit) {
            continue;
        }
        let (start, end) = (first as usize * UNIT, (first + units) as usize * UNIT);
        let page = (place.page.load(Ordering::Relaxed) as usize).max(UNIT);
        let from = (address - address % page).max(start);
        let to = (from + PIECE.next_multiple_of(page)).min(end);
        if !map_zeroes(from, to - from) {
            return false;
        }
        place.is_lost.store(true, Ordering::Relaxed);
        tell();
        return true;
    }
    false
}

/// Maps zeroes over a part of a region. Restores `errno`, since the handler may run between any two instructions of
/// its thread.
fn map_zeroes(from: usize, length: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: The range is part of a mapped region, because the thread that runs this was accessing the
    // region. The memory is shared, and all accesses allow for changes by others at any time. The new mapping
    // has the length and the protection of the old one, and its owner unmaps it with the rest.
    // `__errno_location` is valid on every thread.
    #[expect(unsafe_code, reason = "a mapping is replaced under those who use it")]
    unsafe {
        let errno = *libc::__errno_location();
        let place = std::ptr::with_exposed_provenance_mut(from);
        let mapped = libc::mmap(place, length, protection, flags, -1, 0);
        *libc::__errno_location() = errno;
        mapped != libc::MAP_FAILED
    }
}

/// Signals the event of losses.
fn tell() {
    let one = 1u64.to_ne_bytes();
    // SAFETY: The event stays open until the process ends, and does not block. `write` reads eight bytes of a
    // local variable. `__errno_location` is valid on every thread.
    #[expect(unsafe_code, reason = "nothing that is safe may be called in a handler")]
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(EVENT.load(Ordering::Relaxed), one.as_ptr().cast(), one.len());
        *libc::__errno_location() = errno;
    }
}

/// Restores the previous action for SIGBUS: the access then repeats under it, or the signal is sent again.
fn restore(code: c_int) {
    let Some(before) = BEFORE.get() else { return };
    // SAFETY: `before` was filled by `sigaction`. Both functions are async-signal-safe.
    #[expect(unsafe_code, reason = "there is no safe way to install a handler")]
    unsafe {
        libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
        if !FAULTS.contains(&code) {
            // The signal arrives when this handler has returned.
            libc::raise(libc::SIGBUS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, ftruncate, memfd_create};
    use std::fs::File;
    use vm_memory::{Bytes, FileOffset, VolatileMemory};

    const SIZE: usize = 16 * UNIT;

    fn region() -> (File, Arc<MmapRegion>) {
        let file = File::from(memfd_create("test", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, SIZE as u64).unwrap();
        let offset = FileOffset::new(file.try_clone().unwrap(), 0);
        (file, Arc::new(MmapRegion::from_file(offset, SIZE).unwrap()))
    }

    #[test]
    fn lost_memory_reads_as_zeroes_and_its_owner_is_reported() {
        let ((file, region), (_kept, neighbour)) = (region(), region());
        let watched = Watched::new(&region, UNIT as u64).unwrap();
        let other = Watched::new(&neighbour, UNIT as u64).unwrap();
        let (bytes, others) = (region.as_volatile_slice(), neighbour.as_volatile_slice());
        bytes.write_obj(1u64, 0).unwrap();
        bytes.write_obj(2u64, SIZE - 8).unwrap();
        others.write_obj(3u64, 0).unwrap();
        assert!(!watched.is_lost());
        ftruncate(&file, UNIT as u64).unwrap();
        assert_eq!(bytes.read_obj::<u64>(SIZE - 8).unwrap(), 0);
        assert_eq!(bytes.read_obj::<u64>(0).unwrap(), 1);
        bytes.write_obj(5u64, UNIT).unwrap();
        assert_eq!(bytes.read_obj::<u64>(UNIT).unwrap(), 5);
        assert_eq!(others.read_obj::<u64>(0).unwrap(), 3);
        assert!(watched.is_lost() && !other.is_lost());
    }

    #[test]
    fn a_hole_that_can_be_filled_is_no_loss() {
        let (file, region) = region();
        let watched = Watched::new(&region, UNIT as u64).unwrap();
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(&file, hole, 0, SIZE as u64).unwrap();
        assert_eq!(region.as_volatile_slice().read_obj::<u64>(0).unwrap(), 0);
        assert!(!watched.is_lost());
    }

    #[test]
    fn many_threads_lose_one_region_at_once() {
        let (file, region) = region();
        let watched = Watched::new(&region, UNIT as u64).unwrap();
        ftruncate(&file, 0).unwrap();
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    for place in (0..SIZE).step_by(UNIT).rev() {
                        region.as_volatile_slice().read_obj::<u64>(place).unwrap();
                    }
                });
            }
        });
        assert!(watched.is_lost());
    }

    #[test]
    fn the_place_of_a_region_that_is_gone_is_anothers() {
        let place = {
            let (_file, region) = region();
            let watched = Watched::new(&region, UNIT as u64).unwrap();
            drop(region);
            assert!(!watched.is_in_use() && watched.length() == 0);
            watched.place
        };
        // Other tests occupy places too.
        let regions: Vec<_> = (0..8)
            .map(|_| {
                let (_, region) = region();
                let watched = Watched::new(&region, UNIT as u64).unwrap();
                (region, watched)
            })
            .collect();
        assert!(regions.iter().any(|(_, watched)| watched.place <= place + 8));
        assert!(regions.iter().all(|(_, watched)| !watched.is_lost()));
    }
}
