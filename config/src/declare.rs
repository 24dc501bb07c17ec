// SPDX-License-Identifier: MIT OR Apache-2.0

//! Declaring sections: each key once, with its description, type, range and default.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A key of a section.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The lines of its description.
    pub about: &'static [&'static str],
    /// The values that it may hold.
    pub kind: Kind,
}

/// The values that a key may hold.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// One value.
    Value {
        /// Its range, for a table; empty if any value is allowed.
        range: fn() -> String,
        /// The requirement, for a message; empty if any value of its type is allowed.
        expected: fn() -> String,
    },
    /// A section.
    Section(&'static [Key]),
    /// Entries of one kind, by user-chosen names or by position.
    Map(&'static Kind),
}

/// A type of configuration keys.
pub trait Setting {
    /// The values that such a key may hold.
    const KIND: Kind;
}

impl Setting for bool {
    const KIND: Kind = Kind::value(|| "true or false".into());
}

impl Setting for String {
    const KIND: Kind = Kind::PLAIN;
}

impl Setting for PathBuf {
    const KIND: Kind = Kind::PLAIN;
}

impl<T: Setting> Setting for Option<T> {
    const KIND: Kind = T::KIND;
}

impl<T: Setting> Setting for Vec<T> {
    const KIND: Kind = Kind::Map(&T::KIND);
}

impl<T: Setting, const N: usize> Setting for [T; N] {
    const KIND: Kind = Kind::Map(&T::KIND);
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    const KIND: Kind = Kind::Map(&T::KIND);
}

impl Kind {
    /// Any value of the key's type.
    pub const PLAIN: Self = Self::value(String::new);

    /// A value with the same description in messages and in tables.
    #[must_use]
    pub const fn value(range: fn() -> String) -> Self {
        Self::Value { range, expected: range }
    }

    /// The kind of the key with these names.
    #[must_use]
    pub fn find(self, names: &[&str]) -> Option<Self> {
        names.iter().try_fold(self, |kind, name| match kind {
            Self::Value { .. } => None,
            Self::Section(keys) => keys.iter().find(|key| key.name == *name).map(|key| key.kind),
            Self::Map(entry) => Some(*entry),
        })
    }
}

/// The names of an enumeration's values, as a range.
#[must_use]
pub fn choices<T: clap::ValueEnum>() -> String {
    let values = T::value_variants().iter().filter_map(clap::ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect::<Vec<_>>().join(" or ")
}

/// The key name for an identifier.
#[must_use]
pub const fn key_name(identifier: &'static str) -> &'static str {
    match identifier.as_bytes() {
        [b'r', b'#', name @ ..] => match str::from_utf8(name) {
            Ok(name) => name,
            Err(_) => identifier,
        },
        _ => identifier,
    }
}

/// Declares a section as a structure with a field for each key: `name: type = default`. Without a default the type's
/// own default applies. `as plain` is for a type that describes its own values.
#[macro_export]
macro_rules! section {
    (
        $(#[doc = $about:literal])*
        pub struct $section:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $type:ty $(as $plain:ident)? $(= $default:expr)?;
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $section {
            $(
                $(#[doc = $doc])*
                pub $key: $type,
            )*
        }

        impl Default for $section {
            fn default() -> Self {
                Self { $($key: $crate::section!(@default $($default)?),)* }
            }
        }

        impl $crate::Setting for $section {
            const KIND: $crate::Kind =
                $crate::Kind::Section(&[
                    $($crate::Key {
                        name: $crate::key_name(stringify!($key)),
                        about: &[$($doc),*],
                        kind: $crate::section!(@kind $type $(, $plain)?),
                    },)*
                ]);
        }
    };
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (@kind $type:ty) => { <$type as $crate::Setting>::KIND };
    (@kind $type:ty, plain) => { $crate::Kind::PLAIN };
}
