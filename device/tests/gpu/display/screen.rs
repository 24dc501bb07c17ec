// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a viewer sees of what a guest flips.

use crate::support::rig::{LAYOUT, SEGMENTS, guest_memory};
use bellhop_device::gpu::display::config::{ConnectorConfig, DisplayConfig};
use bellhop_device::gpu::display::{Frame, FrameBuffer, ScreenError, Update, Viewer};
use bellhop_device::gpu::{Gpu, GpuConfig, GuestEvents};
use bellhop_host_kmd::hardware::{
    Display as _, DisplayPath, GuestId, Interrupt, Interrupts as _, Monitor, PhysicalAddress,
    PointerShape, Segment, SourceAddress, UnknownId,
};
use bellhop_protocol::control::display::{
    ConnectorKind, Rotation, Scaling, SourceMode, TargetMode,
};
use bellhop_protocol::event::{Event, InputKind};
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::rect::Rect;
use bellhop_protocol::screen::Input;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Sides of all screens here, and bytes of a frame.
const WIDTH: u32 = 64;
const HEIGHT: u32 = 48;
const FRAME: u64 = 4 * (WIDTH * HEIGHT) as u64;

/// Only something that never happens takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

struct Screens {
    gpu: Arc<Gpu>,
    guest: GuestId,
    bar: MmapRegion,
}

/// A guest's event queue, as a test reads it.
#[derive(Debug)]
struct Told(Sender<Event>);

impl GuestEvents for Told {
    fn send(&self, event: Event) {
        // The test has ended.
        let _ = self.0.send(event);
    }

    fn hang_up(&self) {
        panic!("the guest keeps no memory from the host");
    }
}

/// Waits until a descriptor is readable.
fn wait(fd: impl AsFd) {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    assert_eq!(retry_on_intr(|| poll(&mut fds, Some(&patience))).unwrap(), 1, "nothing happened");
}

fn mode(rate: u32) -> TargetMode {
    TargetMode {
        width: WIDTH,
        height: HEIGHT,
        total_width: WIDTH + 16,
        // Nearly all of the time is visible, so that an immediate flip tears.
        total_height: HEIGHT + 1,
        refresh_numerator: rate,
        refresh_denominator: 1,
        flags: 0,
        min_refresh: 0,
    }
}

fn path(source: u32, target: u32, rate: u32) -> DisplayPath {
    let format = PixelFormat::X8R8G8B8;
    DisplayPath {
        source,
        target,
        scaling: Scaling::IDENTITY,
        rotation: Rotation::IDENTITY,
        source_mode: SourceMode { width: WIDTH, height: HEIGHT, format, reserved: 0 },
        target_mode: mode(rate),
    }
}

impl Screens {
    fn start() -> Self {
        let connector = |name: &str, plugged| ConnectorConfig {
            name: name.into(),
            kind: ConnectorKind::VIRTUAL,
            max_pixel_rate: u64::MAX,
            monitor: Monitor { edid: vec![0; 128], modes: vec![mode(100)] },
            plugged,
        };
        let connectors = vec![connector("one", true), connector("two", false)];
        let display = DisplayConfig { connectors, total_pixel_rate: u64::MAX };
        let gpu = Gpu::start(GpuConfig { display, ..GpuConfig::default() }).unwrap();
        let guest = gpu.attach_guest(LAYOUT, SEGMENTS, guest_memory(), &Arc::default()).unwrap();
        let file = FileOffset::from_arc(gpu.bar_file(guest).unwrap(), 0);
        let bar = MmapRegion::from_file(file, LAYOUT.bar_size() as usize).unwrap();
        Self { gpu, guest, bar }
    }

    /// Draws a frame of one colour: the flip's number.
    fn draw(&self, flip: u64) {
        let bytes = (flip as u32).to_le_bytes().repeat((WIDTH * HEIGHT) as usize);
        let offset = (LAYOUT.local_memory() + flip % 8 * FRAME) as usize;
        self.bar.as_volatile_slice().write_slice(&bytes, offset).unwrap();
    }

    fn flip(&self, source: u32, flip: u64, immediate: bool) {
        let base = PhysicalAddress { segment: Segment::Local, address: flip % 8 * FRAME };
        let address = SourceAddress { flip, number: flip, base, pitch: 4 * WIDTH, immediate };
        self.gpu.set_source_address(self.guest, source, Some(address)).unwrap();
    }

    /// The first interrupt that `wanted` picks.
    fn interrupt<T>(&self, mut wanted: impl FnMut(&Interrupt) -> Option<T>) -> T {
        loop {
            wait(self.gpu.interrupt_fd());
            self.gpu.acknowledge_interrupt();
            if let Some(found) = self.gpu.take_interrupts().iter().find_map(&mut wanted) {
                return found;
            }
        }
    }

    fn vsync_of(&self, flip: u64) -> u64 {
        self.interrupt(|interrupt| match interrupt {
            Interrupt::CrtcVsync { flip: shown, count, .. } if *shown == flip => Some(*count),
            _ => None,
        })
    }

    fn view(&self, target: u32) -> Eyes {
        let display = self.gpu.displays().get(self.guest).unwrap();
        Eyes { viewer: display.view(target).unwrap(), buffers: None, told: Vec::new() }
    }
}

impl Drop for Screens {
    fn drop(&mut self) {
        self.gpu.detach_guest(self.guest);
    }
}

/// A viewer that looks at what it is shown.
struct Eyes {
    viewer: Viewer,
    buffers: Option<[MmapRegion; 2]>,
    told: Vec<Update>,
}

fn map(buffer: &FrameBuffer) -> MmapRegion {
    let file = File::from(buffer.as_fd().try_clone_to_owned().unwrap());
    MmapRegion::from_file(FileOffset::new(file, 0), FRAME as usize).unwrap()
}

impl Eyes {
    /// The next frame: how it was shown, and the first pixel of each row. Each row has one colour.
    fn see(&mut self) -> (Frame, Vec<u32>) {
        loop {
            if self.told.is_empty() {
                wait(&self.viewer);
                self.told = self.viewer.take().expect("a guest");
                self.told.reverse();
            }
            match self.told.pop() {
                Some(Update::Buffers([one, other])) => {
                    self.buffers = Some([map(&one), map(&other)])
                }
                Some(Update::NoSignal) => self.buffers = None,
                Some(Update::Frame(frame)) => {
                    let buffers = self.buffers.as_ref().unwrap();
                    let mut bytes = vec![0; FRAME as usize];
                    let region = &buffers[frame.buffer as usize];
                    region.as_volatile_slice().read_slice(&mut bytes, 0).unwrap();
                    let words: Vec<_> =
                        bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
                    self.viewer.give_back(frame.buffer);
                    let rows = words.chunks_exact(WIDTH as usize).map(|row| {
                        assert!(row.iter().all(|word| *word == row[0]), "{row:?}");
                        row[0]
                    });
                    return (frame, rows.collect());
                }
                None => {}
            }
        }
    }

    /// Looks until a flip is seen whole.
    fn see_flip(&mut self, flip: u64) -> Vec<u32> {
        loop {
            let (frame, rows) = self.see();
            if frame.flip == flip && frame.torn_at == 0 {
                return rows;
            }
        }
    }
}

#[test]
fn what_is_flipped_is_seen_from_its_vsync_on() {
    let screens = Screens::start();
    screens.gpu.commit_vidpn(screens.guest, &[path(0, 0, 240)]).unwrap();
    let mut eyes = screens.view(0);
    assert_eq!(eyes.see_flip(0), [0; HEIGHT as usize]);
    let mut last = 0;
    for flip in 1..=20 {
        screens.draw(flip);
        screens.flip(0, flip, false);
        let vsync = screens.vsync_of(flip);
        assert!(vsync > last);
        last = vsync;
        assert_eq!(eyes.see_flip(flip), [flip as u32; HEIGHT as usize]);
    }
}

#[test]
fn what_is_drawn_into_the_picture_that_is_shown_is_seen_without_a_flip() {
    let screens = Screens::start();
    screens.gpu.commit_vidpn(screens.guest, &[path(0, 0, 100)]).unwrap();
    screens.draw(1);
    screens.flip(0, 1, false);
    screens.vsync_of(1);
    let mut eyes = screens.view(0);
    let mut rows = vec![1; HEIGHT as usize];
    assert_eq!(eyes.see_flip(1), rows);
    // One row after another; a frame is told only if it is not the same as that before.
    for row in [0, 47, 17, 30] {
        rows[row] = 0x55_0055;
        let bytes = 0x55_0055_u32.to_le_bytes().repeat(WIDTH as usize);
        let at = (LAYOUT.local_memory() + FRAME) as usize + row * 4 * WIDTH as usize;
        screens.bar.as_volatile_slice().write_slice(&bytes, at).unwrap();
        let (frame, seen) = eyes.see();
        assert_eq!((frame.flip, seen), (1, rows.clone()), "{frame:?}");
    }
}

#[test]
fn an_immediate_flip_tears_where_the_line_was() {
    let screens = Screens::start();
    // Five frames in a second: there is time to flip in the middle of one.
    screens.gpu.commit_vidpn(screens.guest, &[path(0, 0, 5)]).unwrap();
    let mut eyes = screens.view(0);
    screens.draw(1);
    screens.flip(0, 1, false);
    screens.vsync_of(1);
    eyes.see_flip(1);
    for flip in 2..100 {
        screens.draw(flip);
        // Somewhere in the middle.
        let is_inside = || {
            let line = screens.gpu.scan_line(screens.guest, 0).unwrap();
            line.in_vertical_blank == 0 && (8..40).contains(&line.line)
        };
        while !is_inside() {
            std::thread::yield_now();
        }
        screens.flip(0, flip, true);
        screens.interrupt(|interrupt| match interrupt {
            Interrupt::Flipped { flip: happened, .. } if *happened == flip => Some(()),
            _ => None,
        });
        let (frame, rows) = eyes.see();
        if frame.torn_at == 0 {
            // The thread was late, and the frame was over.
            continue;
        }
        let (above, below) = rows.split_at(frame.torn_at as usize);
        assert!(
            !above.is_empty() && above.iter().all(|row| u64::from(*row) == flip - 1),
            "{frame:?} {rows:?}"
        );
        assert!(
            !below.is_empty() && below.iter().all(|row| u64::from(*row) == flip),
            "{frame:?} {rows:?}"
        );
        assert_eq!(eyes.see_flip(flip), [flip as u32; HEIGHT as usize], "then a whole one");
        return;
    }
    panic!("no flip was in the middle of a frame");
}

#[test]
fn two_screens_are_plugged_and_unplugged_while_both_flip() {
    let screens = Screens::start();
    let (gpu, guest) = (&screens.gpu, screens.guest);
    gpu.commit_vidpn(guest, &[path(0, 0, 100)]).unwrap();
    let mut eyes = [screens.view(0), screens.view(1)];
    let display = gpu.displays().get(guest).unwrap();
    let mut flip = 0;
    let mut next = |source, eyes: &mut Eyes| {
        flip += 1;
        screens.draw(flip);
        screens.flip(source, flip, false);
        screens.vsync_of(flip);
        assert_eq!(eyes.see_flip(flip), [flip as u32; HEIGHT as usize]);
    };
    for _ in 0..3 {
        next(0, &mut eyes[0]);
        display.plug(1, true).unwrap();
        let changed = Interrupt::ChildStatusChanged { guest, child: 1 };
        screens.interrupt(|interrupt| (*interrupt == changed).then_some(()));
        assert!(gpu.monitor(guest, 1).is_some());
        gpu.commit_vidpn(guest, &[path(0, 0, 100), path(1, 1, 60)]).unwrap();
        next(1, &mut eyes[1]);
        next(0, &mut eyes[0]);
        display.plug(1, false).unwrap();
        screens.interrupt(|interrupt| (*interrupt == changed).then_some(()));
        assert_eq!(gpu.monitor(guest, 1), None);
        gpu.commit_vidpn(guest, &[path(0, 0, 100)]).unwrap();
        next(0, &mut eyes[0]);
    }
    assert_eq!(display.plug(2, true), Err(ScreenError::NoConnector(2)));
}

#[test]
fn a_pointer_lies_over_the_picture_and_its_pixels_are_the_guests_to_change() {
    let screens = Screens::start();
    let (gpu, guest) = (&screens.gpu, screens.guest);
    gpu.commit_vidpn(guest, &[path(0, 0, 100)]).unwrap();
    // A pointer that is as wide as the screen, so that rows have one colour.
    let bytes = 0xff00_00aa_u32.to_le_bytes().repeat(64 * 2);
    let at = LAYOUT.local_memory() as usize;
    screens.bar.as_volatile_slice().write_slice(&bytes, at).unwrap();
    let base = PhysicalAddress { segment: Segment::Local, address: 0 };
    let shape = PointerShape { base, pitch: 256, width: 64, height: 2, hot_x: 3, hot_y: 1 };
    gpu.set_pointer(guest, 0, Some(shape)).unwrap();
    screens.bar.as_volatile_slice().write_slice(&[0x55; 512], at).unwrap();
    gpu.move_pointer(guest, 0, (3, 11), true).unwrap();
    let mut eyes = screens.view(0);
    let rows = eyes.see().1;
    assert_eq!(rows[9..13], [0, 0xaa, 0xaa, 0]);
}

/// A screen of 1920 x 1080 pixels has cells of 30 x 17.
#[test]
fn a_change_of_64_by_64_pixels_has_its_own_cells_composed_and_compared_and_nothing_else() {
    const SIZE: (u32, u32) = (1920, 1080);
    const WHOLE: u64 = 4 * SIZE.0 as u64 * SIZE.1 as u64;
    // From pixel 300, 170 to 364, 234, and to the end of the cells.
    const PART: Rect = Rect { left: 300, top: 170, right: 390, bottom: 238 };
    const BYTES: u64 = 4 * PART.width() as u64 * PART.height() as u64;
    let screens = Screens::start();
    let (gpu, guest) = (&screens.gpu, screens.guest);
    let mut large = path(0, 0, 100);
    (large.source_mode.width, large.source_mode.height) = SIZE;
    (large.target_mode.width, large.target_mode.height) = SIZE;
    (large.target_mode.total_width, large.target_mode.total_height) = (SIZE.0 + 16, SIZE.1 + 1);
    gpu.commit_vidpn(guest, &[large]).unwrap();
    let display = gpu.displays().get(guest).unwrap();
    let viewer = display.view(0).unwrap();
    let next = || loop {
        wait(&viewer);
        for update in viewer.take().expect("a guest") {
            if let Update::Frame(frame) = update {
                viewer.give_back(frame.buffer);
                return frame;
            }
        }
    };
    let costs = || {
        let screens = gpu.displays().screens();
        let costs = screens.iter().find(|screen| screen.guest == guest).unwrap().costs;
        (costs.frames, costs.composed, costs.compared)
    };
    assert_eq!(next().changed, Rect::whole(SIZE.0, SIZE.1));
    assert_eq!(costs(), (1, WHOLE, 0), "there is nothing to compare the first frame with");
    // What changes is a pointer of 64 x 64 pixels.
    let bytes = 0xff00_00aa_u32.to_le_bytes().repeat(64 * 64);
    let at = LAYOUT.local_memory() as usize;
    screens.bar.as_volatile_slice().write_slice(&bytes, at).unwrap();
    let base = PhysicalAddress { segment: Segment::Local, address: 0 };
    let shape = PointerShape { base, pitch: 256, width: 64, height: 64, hot_x: 0, hot_y: 0 };
    gpu.set_pointer(guest, 0, Some(shape)).unwrap();
    gpu.move_pointer(guest, 0, (300, 170), true).unwrap();
    assert_eq!(next().changed, PART);
    assert_eq!(costs(), (2, WHOLE + BYTES, BYTES));
    assert_eq!((BYTES, WHOLE), (24_480, 8_294_400), "a three hundredth");
    // Away again: what it lay over.
    gpu.move_pointer(guest, 0, (0, 0), false).unwrap();
    assert_eq!(next().changed, PART);
    assert_eq!(costs(), (3, WHOLE + 2 * BYTES, 2 * BYTES));
    // Where it does not show, nothing is composed, and nobody is told.
    gpu.move_pointer(guest, 0, (5000, 170), true).unwrap();
    gpu.move_pointer(guest, 0, (300, 170), true).unwrap();
    assert_eq!(next().changed, PART);
    assert_eq!(costs(), (4, WHOLE + 3 * BYTES, 3 * BYTES));
}

#[test]
fn a_viewers_keys_reach_the_kernel() {
    let screens = Screens::start();
    let (gpu, guest) = (&screens.gpu, screens.guest);
    gpu.commit_vidpn(guest, &[path(1, 0, 100)]).unwrap();
    let eyes = screens.view(0);
    assert!(eyes.viewer.input(Input::Key { keysym: 0xff0d, down: true }));
    let key =
        Interrupt::DisplayInput { guest, source: 1, kind: InputKind::KEY, value: 0xff0d << 1 | 1 };
    screens.interrupt(|interrupt| (*interrupt == key).then_some(()));
}

#[test]
fn a_screen_that_nobody_watches_wakes_nobody() {
    let screens = Screens::start();
    let (gpu, guest) = (&screens.gpu, screens.guest);
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "display").count()
    };
    let wakeups =
        || gpu.displays().screens().iter().find(|screen| screen.guest == guest).unwrap().wakeups;
    gpu.commit_vidpn(guest, &[path(0, 0, 240)]).unwrap();
    screens.draw(1);
    screens.flip(0, 1, false);
    let first = screens.vsync_of(1);
    assert!(threads() > 0);
    let before = wakeups();
    // A second screen, which is watched, tells that time passes.
    let other = Screens::start();
    other.gpu.commit_vidpn(other.guest, &[path(0, 0, 240)]).unwrap();
    let (vsyncs, passed) = channel();
    other.gpu.set_guest_events(other.guest, Arc::new(Told(vsyncs)));
    other.gpu.control_vsync(other.guest, 0, 0, &[5]).unwrap();
    while passed.recv_timeout(PATIENCE).unwrap().cookie < 24 {}
    // At most the one that was under way.
    assert!(wakeups() <= before + 1, "{before} {}", wakeups());
    screens.draw(2);
    screens.flip(0, 2, false);
    assert!(screens.vsync_of(2) > first + 20, "its VSYNCs were counted all the same");
}

#[test]
fn a_viewer_learns_that_the_guest_has_gone() {
    let screens = Screens::start();
    screens.gpu.commit_vidpn(screens.guest, &[path(0, 0, 100)]).unwrap();
    let mut eyes = screens.view(0);
    eyes.see();
    let display = screens.gpu.displays().get(screens.guest).unwrap();
    let guest = screens.guest.0;
    drop(screens);
    wait(&eyes.viewer);
    assert!(eyes.viewer.take().is_none());
    assert_eq!(display.view(0).unwrap_err(), ScreenError::NoGuest(guest));
}

#[test]
fn an_adapter_without_displays_has_none() {
    let gpu = Gpu::start(GpuConfig::default()).unwrap();
    let guest = gpu.attach_guest(LAYOUT, SEGMENTS, guest_memory(), &Arc::default()).unwrap();
    assert_eq!(gpu.display_caps().sources, 0);
    assert_eq!(gpu.commit_vidpn(guest, &[path(0, 0, 60)]), Err(UnknownId::Guest(guest)));
    assert!(gpu.displays().screens().is_empty());
    gpu.detach_guest(guest);
}
