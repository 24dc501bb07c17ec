// SPDX-License-Identifier: MIT OR Apache-2.0

//! `D3DKMTPresent`: draws a surface on another, by a DMA buffer of the basic model that the driver fills.
//!
//! Source: "Flip/Present" of the Windows KMD overview.

use crate::ddi::present::PresentArguments;
use crate::dxgkrnl::kernel::access::ProcessAccess;
use crate::dxgkrnl::kernel::request::{Handled, zero};
use crate::dxgkrnl::object::error::RequestError;
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::node::Model;
use bellhop_protocol::control::node_context::{
    ALLOCATION_WRITE, AllocationListEntry, SubmissionReply,
};
use bellhop_protocol::control::present::{MAX_DIRTY_RECTS, Present, PresentKind, Rect};
use zerocopy::IntoBytes;

impl ProcessAccess<'_> {
    /// `D3DKMTPresent`.
    pub(crate) fn present(
        &mut self,
        request: Present,
        dirty: Vec<Rect>,
    ) -> Handled<SubmissionReply> {
        let node = self.node_submission(request.context)?;
        let (model, hw_queue) = (node.model(), node.hw_queue());
        if model != Model::Basic {
            return Err(RequestError::NotSupported("contexts of the basic model present"));
        }
        if request.rects > MAX_DIRTY_RECTS {
            return Err(RequestError::parameter("rects", request.rects.into()));
        }
        if request.kind == PresentKind::COLOR_FILL {
            let unused = [request.source.as_bytes(), request.source_rect.as_bytes()].concat();
            let stray = unused.into_iter().find(|byte| *byte != 0);
            zero("source", stray.unwrap_or(0))?;
        } else {
            zero("color", request.color)?;
        }
        if request.kind != PresentKind::STRETCH {
            zero("filter", request.filter.0)?;
        }
        let entry = |allocation, flags| AllocationListEntry { allocation, flags, reserved: 0 };
        let mut list = vec![entry(request.destination.allocation, ALLOCATION_WRITE)];
        if request.kind != PresentKind::COLOR_FILL {
            list.insert(0, entry(request.source.allocation, 0));
        }
        let listed = self.check_list(request.context, &list)?;
        let arguments = PresentArguments {
            node: self.get::<Context>(request.context)?.node(),
            request: &request,
            dirty: &dirty,
            allocations: &listed,
        };
        let buffer = self.miniport.present(&arguments)?;
        self.reap_submissions(hw_queue)?;
        let mut holds = Vec::with_capacity(list.len() + 1);
        let prepared = self.place_dma_buffer(request.context, &list, buffer, &mut holds);
        self.submit_prepared(request.context, prepared, holds)
    }
}
