// SPDX-License-Identifier: MIT OR Apache-2.0

//! The thread of a monitor, which shows windows on it: a frame for each VSYNC at which something has changed.

use super::window::{Event, Picture, Window};
use super::{Flips, Options};
use anyhow::{Context as _, ensure};
use bellhop_guest_umd::display::{
    Display, DisplayError, Flip, FlipOutcome, PresentMode, Primary, Surface, SwapChain,
};
use bellhop_guest_umd::{CommandBuffer, Device, UserModeQueue};
use bellhop_protocol::compositor::FromCompositor;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The longest that a flip may take: far longer than the slowest monitor scans.
const LONGEST: Duration = Duration::from_secs(10);
/// Most events between two frames: a few of each window.
const EVENTS: usize = 256;
/// Bytes of the commands of a frame: a copy for each window.
const COMMANDS: usize = 16 << 10;

/// What a monitor shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Showing {
    /// All windows, on a primary of the compositor's.
    Composed,
    /// The picture of one window, flipped to by the compositor.
    Alone(u64),
    /// The pictures of one window, whose program flips by itself.
    Lent(u64),
}

/// A monitor, and the windows on it, from the lowest to the highest.
pub(super) struct Screen {
    display: Display,
    source: u32,
    surface: Surface,
    flips: Flips,
    ground: u32,
    queue: UserModeQueue,
    commands: CommandBuffer,
    images: SwapChain,
    windows: Vec<Window>,
    showing: Showing,
}

impl Screen {
    /// The monitor of a source of this process's.
    pub(super) fn new(
        display: &Display,
        device: &Device,
        source: u32,
        surface: Surface,
        options: &Options,
    ) -> anyhow::Result<Self> {
        let queue = device.create_context(0)?.create_user_mode_queue(4096)?;
        let commands = CommandBuffer::new(device, COMMANDS)?;
        let images = SwapChain::new(display, device, source, surface, 2)?;
        let Options { flips, ground, .. } = *options;
        let (display, windows, showing) = (display.clone(), Vec::new(), Showing::Composed);
        let mut screen = Self {
            display,
            source,
            surface,
            flips,
            ground,
            queue,
            commands,
            images,
            windows,
            showing,
        };
        screen.compose()?;
        Ok(screen)
    }

    /// Shows windows until nobody can open one any more.
    ///
    /// # Errors
    /// When the monitor or the device is gone.
    pub(super) fn run(mut self, events: &Receiver<Event>) -> anyhow::Result<()> {
        while let Ok(first) = events.recv() {
            self.take(first);
            events.try_iter().take(EVENTS).for_each(|event| self.take(event));
            self.refresh()?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Opened(window) => self.windows.push(window),
            Event::Drawn { window, picture, is_shown } => {
                if let Some(window) = self.find(window) {
                    window.take(picture, is_shown);
                }
            }
            Event::Closed(window) => {
                if let Some(window) = self.find(window) {
                    window.is_closed = true;
                }
            }
        }
    }

    fn find(&mut self, number: u64) -> Option<&mut Window> {
        self.windows.iter_mut().find(|window| window.number == number)
    }

    /// Shows what has changed, and tells programs that their pictures are shown.
    fn refresh(&mut self) -> anyhow::Result<()> {
        let top = self.windows.iter().rposition(|window| window.seen().is_some());
        let alone = top
            .filter(|top| self.flips >= Flips::Direct && self.windows[*top].covers(self.surface));
        match alone {
            Some(top) => self.show_alone(top)?,
            None => self.compose()?,
        }
        self.windows.iter_mut().for_each(Window::answer);
        for window in self.windows.extract_if(.., |window| window.is_closed) {
            crate::output::note(window);
        }
        Ok(())
    }

    /// Nobody else flips the source any more.
    fn take_back(&mut self) -> Result<(), DisplayError> {
        if matches!(self.showing, Showing::Lent(_)) {
            self.display.lend(self.source, None)?;
        }
        Ok(())
    }

    /// Shows the window of this place, which covers all others, without a copy.
    fn show_alone(&mut self, top: usize) -> anyhow::Result<()> {
        let window = &self.windows[top];
        let number = window.number;
        let shows_it = [Showing::Alone(number), Showing::Lent(number)].contains(&self.showing);
        if shows_it && !window.waits {
            // The picture stays, or its program has flipped. Those that are not seen still come one for each VSYNC.
            let are_waiting = self.windows.iter().any(|window| window.waits);
            return if are_waiting { self.await_vsync() } else { Ok(()) };
        }
        let picture = window.seen().cloned().context("a window without a picture")?;
        self.take_back()?;
        self.flip_to(&picture.primary)?;
        self.showing = Showing::Alone(number);
        let (is_lending, process) = (self.flips == Flips::Independent, self.windows[top].process);
        let window = &mut self.windows[top];
        window.counts.direct += 1;
        // There may be no such process: the number is the program's word.
        if is_lending && self.display.lend_to(self.source, process).is_ok() {
            self.showing = Showing::Lent(number);
            window.say(FromCompositor::LENT, self.source);
        }
        Ok(())
    }

    fn flip_to(&self, primary: &Primary) -> anyhow::Result<()> {
        let flip = self.display.flip(self.source, Flip::to(primary))?;
        let ended = self.display.wait_for_flip(self.source, flip, LONGEST)?;
        ensure!(ended.outcome == FlipOutcome::SHOWN, "a flip ended {}", ended.outcome);
        Ok(())
    }

    /// Waits until the monitor has scanned another frame.
    fn await_vsync(&self) -> anyhow::Result<()> {
        self.display.set_vsync_events(self.source, true)?;
        self.display.skip_vsyncs(self.source)?;
        self.display.wait_for_vsync(self.source, LONGEST)?;
        Ok(self.display.set_vsync_events(self.source, false)?)
    }

    /// Copies all windows onto a primary of the compositor's, and shows that.
    fn compose(&mut self) -> anyhow::Result<()> {
        self.take_back()?;
        let image = self.images.acquire(LONGEST)?;
        let primary = self.images.primary(&image);
        let (pitch, Surface { width, height, .. }) = (primary.pitch()?, self.surface);
        let all = (primary.gpu_va(), pitch);
        self.commands.reset();
        self.commands.fill_rect(all, width * 4, height, self.ground)?;
        for window in &mut self.windows {
            let place = window.place(self.surface);
            let Some(Picture { primary, .. }) = window.seen() else { continue };
            let first = u64::from(place.top) * u64::from(pitch) + u64::from(place.left) * 4;
            let (from, row) = ((primary.gpu_va(), primary.pitch()?), place.width() * 4);
            self.commands.copy_rect(from, (all.0 + first, pitch), row, place.height())?;
            window.counts.copied += u64::from(row) * u64::from(place.height());
            window.counts.composed += u64::from(window.waits);
        }
        let drawn = self.queue.submit(&mut self.commands)?;
        let fence = self.queue.progress_fence();
        self.images.present(image, PresentMode::Vsync, &[(fence, drawn)])?;
        self.images.finish(LONGEST)?;
        self.showing = Showing::Composed;
        Ok(())
    }
}
