// SPDX-License-Identifier: MIT OR Apache-2.0

//! What draws run on: the commands before them have said it, until the stream ends.

use super::demands::Draws;
use super::states::States;
use ash::vk::DynamicState;
use bellhop_protocol::vulkan::{
    BindGraphics, Command, MAX_VERTEX_BINDINGS, SetIndexBuffer, SetState, SetVertexBuffers,
    VertexBuffer,
};

/// What draws run on, by the command that has said it.
#[derive(Clone, Copy)]
pub struct Bound<'s> {
    /// Where the command begins.
    pub offset: u32,
    /// The command.
    pub command: BindGraphics,
    /// What follows it.
    pub data: &'s [u8],
}

/// What draws run on, after some commands.
#[derive(Clone)]
pub struct Current<'s> {
    /// The pipeline, its sets and its constants.
    pub bound: Option<Bound<'s>>,
    /// The vertex buffers, by binding.
    pub vertices: [VertexBuffer; MAX_VERTEX_BINDINGS as usize],
    /// The index buffer.
    pub indices: Option<SetIndexBuffer>,
    /// The dynamic state.
    pub states: States,
}

impl<'s> Current<'s> {
    /// That of the beginning of a stream.
    pub fn new() -> Self {
        let vertices = [VertexBuffer::default(); MAX_VERTEX_BINDINGS as usize];
        Self { bound: None, vertices, indices: None, states: States::default() }
    }

    /// Goes on with the command at an offset, whose own fields have been checked.
    pub fn follow(&mut self, offset: u32, command: &Command<'s>) {
        match command {
            Command::BindGraphics(command, data) => {
                self.bound = Some(Bound { offset, command: *command, data });
            }
            Command::SetVertexBuffers(set, data) => {
                let first = set.header.argument as usize;
                let buffers = SetVertexBuffers::buffers(data);
                for (to, buffer) in self.vertices.iter_mut().skip(first).zip(buffers) {
                    *to = buffer;
                }
            }
            Command::SetIndexBuffer(set, _) => {
                self.indices = Some(*set).filter(|set| set.length > 0);
            }
            Command::SetState(set, data) => {
                let words: Vec<_> = SetState::words(data).collect();
                self.states.set(set.header.argument, &words);
            }
            _ => {}
        }
    }

    /// The vertex buffer of a binding, if there is one.
    pub fn vertices_of(&self, binding: u32) -> Option<&VertexBuffer> {
        let buffer = self.vertices.get(binding as usize)?;
        Some(buffer).filter(|buffer| buffer.address != 0 && buffer.length > 0)
    }

    /// The words that a dynamic state has for a pipeline.
    pub fn words(&self, state: u32, of: &Draws) -> Vec<u32> {
        match DynamicState::from_raw(state as i32) {
            DynamicState::VIEWPORT => self.states.get_several(state, of.viewports),
            DynamicState::SCISSOR => self.states.get_several(state, of.scissors),
            DynamicState::PRIMITIVE_TOPOLOGY => vec![self.topology(of)],
            _ => self.states.get(state),
        }
    }

    /// The topology of draws with a pipeline in which it is dynamic. While nobody sets it, it is what the pipeline has.
    pub fn topology(&self, of: &Draws) -> u32 {
        self.states.topology().unwrap_or(of.topology)
    }
}
