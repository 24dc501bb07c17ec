// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "programs are told by functions of C")]

//! What the driver tells a program: by its messengers, and on standard error if it asks for that.

use crate::{attached, debug};
use ash::vk;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What messages are here: errors that are no misuse of Vulkan.
const SEVERITY: vk::DebugUtilsMessageSeverityFlagsEXT =
    vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
const KIND: vk::DebugUtilsMessageTypeFlagsEXT = vk::DebugUtilsMessageTypeFlagsEXT::GENERAL;

/// A message.
pub(crate) struct Message<'m> {
    /// What it is about, always the same.
    pub(crate) id: &'static CStr,
    /// The message.
    pub(crate) text: &'m str,
    /// The object that it is about: what it is, and its handle.
    pub(crate) object: Option<(vk::ObjectType, u64)>,
}

/// A function of a program that messages are passed to.
#[derive(Clone, Copy)]
pub(crate) struct Messenger {
    callback: vk::PFN_vkDebugUtilsMessengerCallbackEXT,
    /// Whether it wants messages as they are here.
    wants: bool,
    user: *mut c_void,
}

// SAFETY: the driver does no more with the pointer than to pass it to the function, which Vulkan may call in any thread that
// finds something to tell.
unsafe impl Send for Messenger {}

impl Messenger {
    /// The messenger that a program asks for.
    ///
    /// # Safety
    /// The function may be called with this pointer as long as there is a messenger.
    pub(crate) unsafe fn new(asked: &vk::DebugUtilsMessengerCreateInfoEXT<'_>) -> Self {
        let wants = asked.message_severity.contains(SEVERITY) && asked.message_type.contains(KIND);
        Self { callback: asked.pfn_user_callback, wants, user: asked.p_user_data }
    }
}

/// The messengers of an instance, by their handles.
#[derive(Default)]
pub(crate) struct Messengers {
    all: Mutex<Vec<(u64, Messenger)>>,
}

impl Messengers {
    /// No code panics while it holds the lock.
    fn all(&self) -> MutexGuard<'_, Vec<(u64, Messenger)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a messenger.
    pub(crate) fn add(&self, handle: u64, messenger: Messenger) {
        self.all().push((handle, messenger));
    }

    /// Forgets a messenger.
    pub(crate) fn remove(&self, handle: u64) {
        self.all().retain(|(known, _)| *known != handle);
    }

    /// Tells all that want to know.
    pub(crate) fn tell(&self, message: &Message<'_>) {
        debug::say(message.text);
        // A function that is called may wait for another thread of its program, which needs the lock.
        let all = self.all().clone();
        let text = CString::new(message.text.replace('\0', " ")).unwrap_or_default();
        let (kind, object) = message.object.unwrap_or_default();
        let name = attached::name(object);
        let objects = [vk::DebugUtilsObjectNameInfoEXT {
            object_type: kind,
            object_handle: object,
            p_object_name: name.as_deref().map_or(std::ptr::null(), CStr::as_ptr),
            ..Default::default()
        }];
        let objects = if message.object.is_some() { &objects[..] } else { &[] };
        let data = vk::DebugUtilsMessengerCallbackDataEXT::default()
            .message_id_name(message.id)
            .message(&text)
            .objects(objects);
        for (_, Messenger { callback, user, .. }) in all.iter().filter(|(_, one)| one.wants) {
            if let Some(callback) = callback {
                // SAFETY: the messenger was there just now, and a program destroys none that may be called. The structures
                // live until the call returns. Vulkan ignores the answer.
                unsafe { callback(SEVERITY, KIND, &raw const data, *user) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    type Heard = RefCell<Vec<(String, String, u64, Option<String>)>>;

    unsafe extern "system" fn hear(
        _severity: vk::DebugUtilsMessageSeverityFlagsEXT,
        _kinds: vk::DebugUtilsMessageTypeFlagsEXT,
        data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
        heard: *mut c_void,
    ) -> vk::Bool32 {
        // SAFETY: the test passes its list, and the driver valid data.
        unsafe {
            let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
            // A list of nothing may be anywhere.
            let object = ((*data).object_count > 0).then(|| &*(*data).p_objects);
            let name = object.map(|object| object.p_object_name).filter(|name| !name.is_null());
            (*heard.cast::<Heard>()).borrow_mut().push((
                text((*data).p_message_id_name),
                text((*data).p_message),
                object.map_or(0, |object| object.object_handle),
                name.map(text),
            ));
        }
        vk::FALSE
    }

    #[test]
    fn messengers_that_want_errors_are_told_with_the_objects_name() {
        let mut heard = Heard::default();
        let all = Messengers::default();
        let mut asked = vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(SEVERITY)
            .message_type(KIND)
            .pfn_user_callback(Some(hear));
        asked.p_user_data = (&raw mut heard).cast();
        // SAFETY: the list lives as long as the messengers.
        let add = |handle, asked: &_| all.add(handle, unsafe { Messenger::new(asked) });
        add(1, &asked);
        add(2, &asked.message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION));
        attached::set_name(0xFFFF_0005, c"physics".into());
        let object = Some((vk::ObjectType::DEVICE, 0xFFFF_0005));
        all.tell(&Message { id: c"device-lost", text: "why", object });
        all.tell(&Message { id: c"no-device", text: "nothing\0there", object: None });
        all.remove(1);
        all.tell(&Message { id: c"no-device", text: "again", object: None });
        let said = |id: &str, text: &str, object, name: Option<&str>| {
            (id.to_owned(), text.to_owned(), object, name.map(str::to_owned))
        };
        let expected = [
            said("device-lost", "why", 0xFFFF_0005, Some("physics")),
            said("no-device", "nothing there", 0, None),
        ];
        assert_eq!(*heard.borrow(), expected);
    }
}
