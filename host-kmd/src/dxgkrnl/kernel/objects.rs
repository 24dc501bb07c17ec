// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kinds of objects that have handles.

use crate::dxgkrnl::compute::guest_kernel::GuestKernel;
use crate::dxgkrnl::doorbell::object::Doorbell;
use crate::dxgkrnl::fence::state::NativeFence;
use crate::dxgkrnl::memory::allocation::Allocation;
use crate::dxgkrnl::object::device::Device;
use crate::dxgkrnl::object::handles::{AnyObject, Object, ObjectKind};
use crate::dxgkrnl::queue::context::Context;
use crate::dxgkrnl::queue::hw_queue::HwQueue;
use crate::dxgkrnl::video::session::VideoSession;

/// Declares the kinds of objects.
macro_rules! objects {
    ($($kind:ident),* $(,)?) => {
        /// An object of any kind that a handle names.
        #[derive(Debug)]
        pub(crate) enum KernelObject {
            $(#[doc = concat!("A [`", stringify!($kind), "`].")] $kind($kind),)*
        }

        impl AnyObject for KernelObject {
            fn kind(&self) -> ObjectKind {
                match self {
                    $(Self::$kind(_) => ObjectKind::$kind,)*
                }
            }
        }

        $(impl Object<KernelObject> for $kind {
            const KIND: ObjectKind = ObjectKind::$kind;

            fn wrap(self) -> KernelObject {
                KernelObject::$kind(self)
            }

            fn of(object: &KernelObject) -> Option<&Self> {
                match object {
                    KernelObject::$kind(object) => Some(object),
                    _ => None,
                }
            }

            fn of_mut(object: &mut KernelObject) -> Option<&mut Self> {
                match object {
                    KernelObject::$kind(object) => Some(object),
                    _ => None,
                }
            }

            fn unwrap(object: KernelObject) -> Option<Self> {
                match object {
                    KernelObject::$kind(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}

objects!(Device, Context, HwQueue, Doorbell, Allocation, NativeFence, GuestKernel, VideoSession);
