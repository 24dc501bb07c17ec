// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests about what a source shows.
//!
//! Source: Windows KMD overview, "Flip/Present".

use crate::ddi::display::DisplayDdi;
use crate::dxgkrnl::display::flip::{Flip, Primary, Surface};
use crate::dxgkrnl::display::primary;
use crate::dxgkrnl::display::source::Source;
use crate::dxgkrnl::fence::waits::{Needed, Owner, Wait};
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::actions::nodes::display_ddi;
use crate::dxgkrnl::kernel::request::{Answer, Handled, zero};
use crate::dxgkrnl::kernel::work::Rule;
use crate::dxgkrnl::memory::allocation::{Allocation, Content};
use crate::dxgkrnl::object::error::RequestError;
use crate::hardware::{HardwareFull, PhysicalAddress, PointerShape};
use bellhop_protocol::control::Handle;
use bellhop_protocol::control::fence::FenceValue;
use bellhop_protocol::control::flip::{
    ControlInterrupt, FlipFlags, GetScanLine, INTERRUPT_VSYNC, MAX_FLIP_FENCES, MAX_POINTER,
    POINTER_VISIBLE, ScanLine, SetPointerPosition, SetPointerShape, SetVidPnSourceAddress,
    SetVidPnSourceOwner, SetVidPnSourceVisibility,
};

/// Bytes of a pixel of a pointer's shape.
const POINTER_PIXEL: u32 = 4;

impl ProcessAccess<'_> {
    /// A source that the process owns, and the driver.
    fn owned(&mut self, source: u32) -> Result<(&mut Source, &dyn DisplayDdi), RequestError> {
        let Self { guest, miniport, process_id, .. } = self;
        let ddi = display_ddi(*miniport)?;
        let found = guest.display.source_mut(source);
        let owned = found.filter(|source| source.owner() == *process_id);
        Ok((owned.ok_or(RequestError::SourceNotInTopology(source))?, ddi))
    }

    /// A source that the process may flip, and the driver.
    fn flippable(&mut self, source: u32) -> Result<(&mut Source, &dyn DisplayDdi), RequestError> {
        let Self { guest, miniport, process_id, .. } = self;
        let ddi = display_ddi(*miniport)?;
        let is_closed = guest.display.is_closed(*process_id);
        let found = guest.display.source_mut(source);
        let may_flip = found.filter(|source| source.may_flip(*process_id) && !is_closed);
        Ok((may_flip.ok_or(RequestError::SourceNotInTopology(source))?, ddi))
    }

    /// `DxgkDdiSetVidPnSourceVisibility`.
    pub(crate) fn set_vidpn_source_visibility(
        &mut self,
        request: SetVidPnSourceVisibility,
    ) -> Handled<()> {
        let SetVidPnSourceVisibility { source: index, visible } = request;
        let guest = self.guest_id;
        let (source, ddi) = self.owned(index)?;
        if visible > 1 {
            return Err(RequestError::parameter("visible", visible.into()));
        }
        source.set_visible(visible != 0);
        ddi.set_vidpn_source_visibility(guest, index, visible != 0);
        Ok(Answer::Done(()))
    }

    /// `DxgkDdiSetVidPnSourceAddress`.
    pub(crate) fn set_vidpn_source_address(
        &mut self,
        request: SetVidPnSourceAddress,
        fences: Vec<FenceValue>,
    ) -> Handled<()> {
        let SetVidPnSourceAddress { source: index, allocation, offset, pitch, .. } = request;
        let (source, _) = self.flippable(index)?;
        let (mode, has_room) = (source.mode(), source.has_room());
        let flags = FlipFlags::from_bits(request.flags)
            .ok_or(RequestError::parameter("flags", request.flags.into()))?;
        if request.fences > MAX_FLIP_FENCES {
            return Err(RequestError::parameter("fences", request.fences.into()));
        }
        if request.flip == 0 {
            return Err(RequestError::parameter("flip", 0));
        }
        let shown = self.get::<Allocation>(allocation)?;
        if !shown.is_primary() {
            return Err(RequestError::NotSupported("showing an allocation that is no primary"));
        }
        let length = primary::check(mode, (offset, pitch), shown.size())?;
        let paged = shown.paged();
        if !has_room {
            return Err(HardwareFull("flip").into());
        }
        let id = self.guest.display.new_flip();
        let mut wait = Wait::new(self.process_id, Owner::Flip(id.0), false);
        for FenceValue { fence: handle, value } in fences {
            wait.add(self.cpu_fence(handle)?, Needed { handle, value });
        }
        let wait = if wait.fences().is_empty() { None } else { self.begin_wait(wait)? };
        let surface = Surface { process: self.process_id, allocation, paged };
        let base = match self.pin_primary(surface, (offset, length)) {
            Ok(base) => base,
            Err(error) => {
                self.drop_waits(wait);
                return Err(error);
            }
        };
        let immediate = flags.contains(FlipFlags::IMMEDIATE);
        let replace = flags.contains(FlipFlags::REPLACE);
        let paging = paged.is_some() && self.waits_for_paging();
        let primary = Primary { id, number: request.flip, surface, base, pitch };
        let (hopeless, promise) = (false, None);
        let (source, _) = self.flippable(index)?;
        source.push(Flip { primary, immediate, replace, paging, wait, hopeless, promise });
        self.work.wake(Rule::Display(self.guest_id));
        Ok(match (paging, immediate) {
            (true, _) => Answer::FlipAfterPaging(id),
            (false, true) => Answer::AfterFlip(id),
            (false, false) => Answer::Done(()),
        })
    }

    /// Makes a primary resident, and keeps it in its place. Returns the address of its first pixel.
    fn pin_primary(
        &mut self,
        surface: Surface,
        (offset, length): (u64, u64),
    ) -> Result<PhysicalAddress, RequestError> {
        let Surface { process, allocation, paged } = surface;
        if let Some(id) = paged {
            // The allocation itself stands for the display, beside the devices that want it.
            self.guest.vidmm.make_resident(process, allocation, &[id])?;
            if let Err(error) = self.guest.vidmm.pin(id) {
                self.guest.vidmm.evict(process, allocation, id)?;
                return Err(error.into());
            }
        }
        let base = self.contiguous(allocation, (offset, length));
        if base.is_err() {
            self.release_surface(surface);
        }
        base
    }

    /// The address of a range of an allocation, if it is one run of memory.
    fn contiguous(
        &self,
        allocation: Handle,
        (offset, length): (u64, u64),
    ) -> Result<PhysicalAddress, RequestError> {
        let memory = self.memory(allocation)?;
        let mut runs = memory.runs(offset, length);
        match (runs.next(), runs.next()) {
            (Some(run), None) if run.length == length => {
                Ok(PhysicalAddress { segment: memory.segment, address: run.address })
            }
            _ => Err(RequestError::Scattered(allocation)),
        }
    }

    /// `DxgkDdiGetScanLine`.
    pub(crate) fn get_scan_line(&mut self, request: GetScanLine) -> Handled<ScanLine> {
        let GetScanLine { source, reserved } = request;
        let ddi = display_ddi(self.miniport)?;
        zero("reserved", reserved)?;
        if self.guest.display.source(source).is_none() {
            return Err(RequestError::SourceNotInTopology(source));
        }
        Ok(Answer::Done(ddi.get_scan_line(self.guest_id, source)))
    }

    /// `DxgkDdiControlInterrupt`.
    pub(crate) fn control_interrupt(&mut self, request: ControlInterrupt) -> Handled<()> {
        let ControlInterrupt { source: index, flags } = request;
        let (guest, process) = (self.guest_id, self.process_id);
        let (source, ddi) = self.flippable(index)?;
        if flags & !INTERRUPT_VSYNC != 0 {
            return Err(RequestError::parameter("flags", flags.into()));
        }
        let wanted = source.want_vsync(process, flags & INTERRUPT_VSYNC != 0);
        ddi.control_interrupt(guest, index, index, &wanted);
        Ok(Answer::Done(()))
    }

    /// `DxgkDdiSetPointerShape`.
    pub(crate) fn set_pointer_shape(&mut self, request: SetPointerShape) -> Handled<()> {
        let SetPointerShape { source, width, height, pitch, hot_x, hot_y, allocation, offset } =
            request;
        self.owned(source)?;
        let shape = if allocation == Handle(0) {
            for (field, value) in [
                ("width", width),
                ("height", height),
                ("pitch", pitch),
                ("hot_x", hot_x),
                ("hot_y", hot_y),
            ] {
                zero(field, value)?;
            }
            zero("offset", offset)?;
            None
        } else {
            let wrong = |field, value: u32| Err(RequestError::parameter(field, value.into()));
            if !(1..=MAX_POINTER).contains(&width) {
                return wrong("width", width);
            }
            if !(1..=MAX_POINTER).contains(&height) {
                return wrong("height", height);
            }
            let line = width * POINTER_PIXEL;
            if !pitch.is_multiple_of(POINTER_PIXEL)
                || !(line..=bellhop_protocol::PAGE_SIZE as u32).contains(&pitch)
            {
                return wrong("pitch", pitch);
            }
            if hot_x >= width {
                return wrong("hot_x", hot_x);
            }
            if hot_y >= height {
                return wrong("hot_y", hot_y);
            }
            let image = self.get::<Allocation>(allocation)?;
            if !matches!(image.content(), Content::Fixed(_, Some(_))) {
                return Err(RequestError::NotSupported("a pointer that is not in local memory"));
            }
            let length = u64::from(pitch) * u64::from(height - 1) + u64::from(line);
            let end = offset.checked_add(length);
            if !offset.is_multiple_of(POINTER_PIXEL.into())
                || end.is_none_or(|end| end > image.size())
            {
                return Err(RequestError::parameter("offset", offset));
            }
            let base = self.contiguous(allocation, (offset, length))?;
            Some(PointerShape { base, pitch, width, height, hot_x, hot_y })
        };
        display_ddi(self.miniport)?.set_pointer_shape(self.guest_id, source, shape);
        Ok(Answer::Done(()))
    }

    /// `DxgkDdiSetPointerPosition`.
    pub(crate) fn set_pointer_position(&mut self, request: SetPointerPosition) -> Handled<()> {
        let SetPointerPosition { source, x, y, flags } = request;
        let guest = self.guest_id;
        let (_, ddi) = self.owned(source)?;
        if flags & !POINTER_VISIBLE != 0 {
            return Err(RequestError::parameter("flags", flags.into()));
        }
        ddi.set_pointer_position(guest, source, (x, y), flags & POINTER_VISIBLE != 0);
        Ok(Answer::Done(()))
    }

    /// Lets another process flip a source.
    pub(crate) fn set_vidpn_source_owner(&mut self, request: SetVidPnSourceOwner) -> Handled<()> {
        let SetVidPnSourceOwner { source: index, process } = request;
        let guest = self.guest_id;
        self.owned(index)?;
        let is_closed = self.guest.display.is_closed(process);
        if process != 0 && (!self.guest.processes.contains_key(&process) || is_closed) {
            return Err(RequestError::NoSuchProcess(process));
        }
        let (source, ddi) = self.owned(index)?;
        let wanted = source.grant((process != 0).then_some(process));
        ddi.control_interrupt(guest, index, index, &wanted);
        self.work.wake(Rule::Display(guest));
        Ok(Answer::Done(()))
    }
}
