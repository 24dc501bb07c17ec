// SPDX-License-Identifier: MIT OR Apache-2.0

//! The parts of a row.

use crate::bench::bytes_with_list;
use bellhop_protocol::control::{Handle, Request};
use bellhop_protocol::status::Status;
use zerocopy::{Immutable, IntoBytes};

/// Which values of a field are accepted, and the status that refuses the others.
pub(super) type Rule = Box<dyn Fn(u64) -> Result<(), Status>>;

pub(super) struct Field {
    pub(super) name: &'static str,
    /// Whether it is an address, a size, an offset or another 64-bit number, rather than an object's name.
    pub(super) is_number: bool,
    pub(super) bytes: usize,
    pub(super) rule: Rule,
    /// Values that make another field wrong, with the value of that field, which the reply names instead.
    pub(super) names: Vec<(u64, u64)>,
    /// Its index in a list, if the reply names that.
    pub(super) place: Option<u64>,
}

impl Field {
    /// Adds a value that makes another field's value wrong.
    pub(super) fn naming(mut self, value: u64, other: u64) -> Self {
        self.names.push((value, other));
        self
    }

    /// Makes it a field of the entry at this index of a list.
    pub(super) fn at(self, place: u64) -> Self {
        Self { place: Some(place), ..self }
    }

    /// The detail of the reply that refuses this value.
    pub(super) fn named(&self, value: u64) -> u64 {
        if let Some(place) = self.place {
            return place;
        }
        let other = self.names.iter().find(|(seen, _)| *seen == value);
        other.map_or(value, |(_, other)| *other)
    }
}

pub(super) struct Row {
    pub(super) request: Vec<u8>,
    /// The fields after the header's code, in order.
    pub(super) fields: Vec<Field>,
}

pub(super) fn field(
    name: &'static str,
    bytes: usize,
    rule: impl Fn(u64) -> Result<(), Status> + 'static,
) -> Field {
    let is_number = bytes == size_of::<u64>();
    Field { name, bytes, is_number, rule: Box::new(rule), names: Vec::new(), place: None }
}

/// A field with one valid value.
pub(super) fn only(name: &'static str, bytes: usize, value: u64, refused: Status) -> Field {
    field(name, bytes, move |seen| if seen == value { Ok(()) } else { Err(refused) })
}

pub(super) fn zero(name: &'static str, bytes: usize) -> Field {
    only(name, bytes, 0, Status::INVALID_PARAMETER)
}

pub(super) fn handle(name: &'static str, value: Handle) -> Field {
    let field = only(name, size_of::<Handle>(), value.0, Status::INVALID_HANDLE);
    Field { is_number: false, ..field }
}

/// A field that accepts any value.
pub(super) fn any(name: &'static str, bytes: usize) -> Field {
    field(name, bytes, |_| Ok(()))
}

/// A field that accepts the values for which the predicate holds; others are invalid parameters.
pub(super) fn if_so(
    name: &'static str,
    bytes: usize,
    is_so: impl Fn(u64) -> bool + 'static,
) -> Field {
    field(name, bytes, move |seen| is_so(seen).then_some(()).ok_or(Status::INVALID_PARAMETER))
}

/// The number of entries in a list, which the request's length must match.
pub(super) fn count(name: &'static str, value: u64) -> Field {
    only(name, 4, value, Status::INVALID_BUFFER_SIZE)
}

/// Like [`count`], for a list with a maximum length.
pub(super) fn count_of(name: &'static str, value: u64, most: u32) -> Field {
    field(name, 4, move |seen| match seen {
        _ if seen == value => Ok(()),
        _ if seen > most.into() => Err(Status::INVALID_PARAMETER),
        _ => Err(Status::INVALID_BUFFER_SIZE),
    })
}

pub(super) fn row<T: Request>(process: u32, request: &T, fields: Vec<Field>) -> Row {
    row_with_list::<T, u8>(process, request, &[], fields)
}

pub(super) fn row_with_list<T: Request, E: IntoBytes + Immutable>(
    process: u32,
    request: &T,
    list: &[E],
    fields: Vec<Field>,
) -> Row {
    let body = size_of::<T>() + size_of_val(list);
    let told: usize = fields.iter().map(|field| field.bytes).sum();
    assert_eq!(told, body, "{}: bytes that no field is about", T::CODE);
    let request = bytes_with_list(process, request, list);
    let refused = if process == 0 { Status::INVALID_PARAMETER } else { Status::INVALID_HANDLE };
    let header = [
        only("length", 4, request.len() as u64, Status::INVALID_BUFFER_SIZE),
        only("process", 4, process.into(), refused),
        zero("reserved", 4),
    ];
    Row { request, fields: header.into_iter().chain(fields).collect() }
}
