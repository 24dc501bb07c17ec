// SPDX-License-Identifier: MIT OR Apache-2.0

//! Enumerations that stay sound when the other side sends an unknown value.

/// Declares a transparent integer newtype with named constants.
///
/// A value without a name is still a value: code can compare, print and refuse it. A Rust `enum` read from shared
/// memory would be undefined behaviour instead.
macro_rules! open_enum {
    (
        $(#[$meta:meta])*
        pub struct $name:ident: $repr:ty {
            $($(#[$vmeta:meta])* $variant:ident = $value:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable,
        )]
        #[repr(transparent)]
        pub struct $name(pub $repr);

        impl $name {
            $($(#[$vmeta])* pub const $variant: Self = Self($value);)*

            /// Every named value, in the order of its declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The value's name, or `None` if this version of the protocol has no name for it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $(value if value == $value => Some(stringify!($variant)),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, concat!(stringify!($name), "({:#x})"), self.0),
                }
            }
        }
    };
}
