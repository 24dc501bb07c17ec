// SPDX-License-Identifier: MIT OR Apache-2.0

//! The vertex buffers and the index buffer that are bound, and which of them the host was not told yet.

use bellhop_protocol::vulkan::{MAX_VERTEX_BINDINGS, VertexBuffer};
use zerocopy::IntoBytes;

/// An index buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Indices {
    /// `VkIndexType`.
    pub(in super::super) kind: u32,
    pub(in super::super) address: u64,
    pub(in super::super) length: u64,
}

/// The vertex buffers.
#[derive(Default)]
pub(in super::super) struct Vertices {
    buffers: [VertexBuffer; MAX_VERTEX_BINDINGS as usize],
    /// How many may be bound.
    count: usize,
    /// The first and the end of those that the host was not told.
    first: usize,
    end: usize,
}

impl Vertices {
    /// Forgets all of them.
    pub(in super::super) fn forget(&mut self) {
        if let Some(bound) = self.buffers.get_mut(..self.count) {
            bound.fill(VertexBuffer::default());
        }
        (self.count, self.first, self.end) = (0, 0, 0);
    }

    /// The host knows none of them any more.
    pub(in super::super) const fn renew(&mut self) {
        (self.first, self.end) = (0, self.count);
    }

    /// Binds one. Without a stride it keeps the one that the binding has.
    pub(in super::super) fn bind(
        &mut self,
        binding: u32,
        address: u64,
        length: u64,
        stride: Option<u64>,
    ) {
        let at = binding as usize;
        let Some(buffer) = self.buffers.get_mut(at) else { return };
        *buffer = VertexBuffer { address, length, stride: stride.unwrap_or(buffer.stride) };
        self.first = if self.first == self.end { at } else { self.first.min(at) };
        self.end = self.end.max(at + 1);
        self.count = self.count.max(at + 1);
    }

    /// Takes those that the host was not told: the number of the first, and all of them.
    pub(in super::super) fn take_new(&mut self) -> Option<(u32, u32, &[u8])> {
        let new = self.first..self.end;
        (self.first, self.end) = (0, 0);
        let buffers = self.buffers.get(new.clone()).filter(|new| !new.is_empty())?;
        Some((new.start as u32, buffers.len() as u32, buffers.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first binding, and address, length and stride of each.
    type Told = (u32, Vec<(u64, u64, u64)>);

    fn told(vertices: &mut Vertices) -> Option<Told> {
        let (first, count, bytes) = vertices.take_new()?;
        let (buffers, _) = bytes.as_chunks::<24>();
        assert_eq!(buffers.len(), count as usize);
        let read = buffers.iter().map(|bytes| {
            let buffer: VertexBuffer = zerocopy::transmute!(*bytes);
            (buffer.address, buffer.length, buffer.stride)
        });
        Some((first, read.collect()))
    }

    #[test]
    fn the_host_is_told_a_range_of_what_is_new() {
        let mut vertices = Vertices::default();
        assert_eq!(told(&mut vertices), None);
        vertices.bind(3, 64, 8, Some(4));
        vertices.bind(1, 128, 16, None);
        vertices.bind(32, 1, 1, None);
        assert_eq!(told(&mut vertices), Some((1, vec![(128, 16, 0), (0, 0, 0), (64, 8, 4)])));
        vertices.bind(3, 96, 8, None);
        assert_eq!(told(&mut vertices), Some((3, vec![(96, 8, 4)])));
        vertices.renew();
        assert_eq!(told(&mut vertices).map(|(first, all)| (first, all.len())), Some((0, 4)));
        vertices.forget();
        vertices.renew();
        assert_eq!(told(&mut vertices), None);
    }
}
