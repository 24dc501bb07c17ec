// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "Vulkan's functions are C functions")]

//! What drivers tell a program: `VK_EXT_debug_utils`.

use super::Outcome;
use ash::ext::debug_utils;
use ash::vk;
use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    /// What it is about.
    pub(crate) id: String,
    /// The message.
    pub(crate) text: String,
    /// The names of the objects that it is about.
    pub(crate) names: Vec<String>,
}

type Heard = Mutex<Vec<Message>>;

/// Hears what drivers tell, as long as it lives.
pub(super) struct Messages {
    raw: vk::DebugUtilsMessengerEXT,
    functions: debug_utils::Instance,
    heard: Box<Heard>,
}

/// # Safety
/// The text is null, or ends with a zero.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller says that it is a text.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

unsafe extern "system" fn hear(
    _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _kinds: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    heard: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: a driver passes valid data, and the list of the messenger, which lives longer.
    unsafe {
        let (data, heard) = (&*data, &*heard.cast::<Heard>());
        let objects = match data.object_count {
            0 => &[],
            count => std::slice::from_raw_parts(data.p_objects, count as usize),
        };
        heard.lock().unwrap_or_else(PoisonError::into_inner).push(Message {
            id: text(data.p_message_id_name),
            text: text(data.p_message),
            names: objects.iter().map(|object| text(object.p_object_name)).collect(),
        });
    }
    vk::FALSE
}

impl Messages {
    /// Hears the errors that are no misuse. The instance has the extension, and lives longer.
    pub(super) fn new(entry: &ash::Entry, instance: &ash::Instance) -> Outcome<Self> {
        let functions = debug_utils::Instance::new(entry, instance);
        let heard: Box<Heard> = Box::default();
        let mut information = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::GENERAL)
            .pfn_user_callback(Some(hear));
        information.p_user_data = (&raw const *heard).cast_mut().cast();
        // SAFETY: the structure lives until the call returns, and the list until the messenger is destroyed.
        let raw = unsafe { functions.create_debug_utils_messenger(&information, None) }?;
        Ok(Self { raw, functions, heard })
    }

    /// What was heard about this so far.
    pub(super) fn heard(&self, id: &str) -> Vec<Message> {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.iter().filter(|message| message.id == id).cloned().collect()
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        // SAFETY: the instance is there, and nobody calls a function of it now.
        unsafe { self.functions.destroy_debug_utils_messenger(self.raw, None) };
    }
}
