// SPDX-License-Identifier: MIT OR Apache-2.0
#![expect(unsafe_code, reason = "rav1d's interface is dav1d's for C")]

//! Decoding, by rav1d, as the crate `re_rav1d` has it.

use crate::obu::begins_sequence;
use crate::picture::{Layout, Picture};
use re_rav1d::Dav1dResult;
use re_rav1d::include::dav1d::data::Dav1dData;
use re_rav1d::include::dav1d::dav1d::{Dav1dContext, Dav1dLogger, Dav1dSettings};
use re_rav1d::include::dav1d::headers::{
    DAV1D_PIXEL_LAYOUT_I400, DAV1D_PIXEL_LAYOUT_I420, DAV1D_PIXEL_LAYOUT_I422,
};
use re_rav1d::include::dav1d::picture::Dav1dPicture;
use re_rav1d::src::lib::{
    dav1d_close, dav1d_data_create, dav1d_data_unref, dav1d_default_settings, dav1d_flush,
    dav1d_get_picture, dav1d_open, dav1d_picture_unref, dav1d_send_data,
};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, copy_nonoverlapping};

/// Linux's number of "try again", which dav1d returns negated.
const AGAIN: i32 = -11;
/// And of "out of memory".
const NO_MEMORY: i32 = -12;
/// And of "result too large": the frame is larger than the limit.
const TOO_LARGE: i32 = -34;

/// Most threads of a decoder.
const MOST_THREADS: u32 = 256;

/// Why data cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The data is no AV1, or breaks its rules. The decoder goes on with the next data.
    #[error("the data is no valid AV1")]
    Invalid,
    /// The stream's pictures are larger than the decoder's limit.
    #[error("the stream's pictures are too large")]
    TooLarge,
    /// There is no memory for another picture.
    #[error("there is no memory for a picture")]
    NoMemory,
}

/// A decoder of one stream.
pub struct Decoder {
    context: Option<Dav1dContext>,
    /// Data that the decoder has not taken yet.
    data: Dav1dData,
}

impl Decoder {
    /// A decoder of pictures of at most so many samples of luma, on the calling thread.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(max_samples: u32) -> Result<Self, DecodeError> {
        Self::with_threads(max_samples, 1)
    }

    /// As [`Self::new`], but with so many threads of its own if they are several. They decode one picture together, so no
    /// picture comes out later. All of them have started when this returns: none makes another system call than for locks
    /// and memory from then on, so a sandbox may be entered that refuses what a C library does when a thread starts.
    ///
    /// # Errors
    /// When there is no memory.
    ///
    /// # Panics
    /// When Linux refuses a thread.
    pub fn with_threads(max_samples: u32, threads: u32) -> Result<Self, DecodeError> {
        let mut settings = MaybeUninit::<Dav1dSettings>::uninit();
        // SAFETY: the pointer is to room for settings, which the call fills in.
        let mut settings = unsafe {
            dav1d_default_settings(NonNull::from(&mut settings).cast());
            settings.assume_init()
        };
        // Beyond what it has at most, it refuses to open.
        settings.n_threads = threads.clamp(1, MOST_THREADS).cast_signed();
        settings.max_frame_delay = 1;
        settings.frame_size_limit = max_samples;
        // Of spatial layers, the highest of the operating point is the picture (AV1, section 7.18): one for each temporal
        // unit, as without layers.
        settings.all_layers = 0;
        // rav1d writes what is wrong with a stream to standard error otherwise, which nobody reads.
        // SAFETY: nothing is called.
        settings.logger = unsafe { Dav1dLogger::new(None, None) };
        let mut context = None;
        // SAFETY: both pointers are to values of these types.
        let opened = unsafe {
            dav1d_open(Some(NonNull::from(&mut context)), Some(NonNull::from(&mut settings)))
        };
        check(opened)?;
        let mut decoder = Self { context, data: Dav1dData::default() };
        // It waits until each thread waits for work. Opening only creates them: they may not have begun by then.
        decoder.flush();
        Ok(decoder)
    }

    /// Gives the decoder data: whole OBUs, such as a temporal unit. Returns whether it took it. If not, it has pictures that
    /// [`Self::picture`] must return first, and has kept nothing of this data.
    ///
    /// # Errors
    /// When the data is wrong; the pictures before it can still be had.
    pub fn send(&mut self, data: &[u8], time: i64) -> Result<bool, DecodeError> {
        let sent = self.give(data, time);
        if sent == Err(DecodeError::Invalid) && begins_sequence(data) {
            // A broken stream can leave a frame header in dav1d with which everything behind it fails. What begins a
            // sequence needs nothing of what was before.
            self.flush();
            return self.give(data, time);
        }
        sent
    }

    fn give(&mut self, data: &[u8], time: i64) -> Result<bool, DecodeError> {
        // dav1d takes empty data for a mistake of its caller.
        if data.is_empty() {
            return Err(DecodeError::Invalid);
        }
        // SAFETY: `self.data` is a value of its type that owns nothing.
        let room = unsafe { dav1d_data_create(Some(NonNull::from(&mut self.data)), data.len()) };
        if room.is_null() {
            return Err(DecodeError::NoMemory);
        }
        // SAFETY: dav1d has allocated this many bytes there, which nothing else reads yet.
        unsafe { copy_nonoverlapping(data.as_ptr(), room, data.len()) };
        self.data.m.timestamp = time;
        // SAFETY: the context is open, and the data one that dav1d made.
        let sent = unsafe { dav1d_send_data(self.context, Some(NonNull::from(&mut self.data))) };
        let taken = self.data.sz == 0;
        // SAFETY: as above; it owns nothing afterwards, as if it were new.
        unsafe { dav1d_data_unref(Some(NonNull::from(&mut self.data))) };
        if sent.0 == AGAIN && !taken {
            return Ok(false);
        }
        if sent.0 != AGAIN {
            check(sent)?;
        }
        Ok(true)
    }

    /// The next picture, of the data so far. `None` if more data is needed.
    ///
    /// # Errors
    /// When the data is wrong. Later data may be right again.
    pub fn picture(&mut self) -> Result<Option<Picture>, DecodeError> {
        let mut got = Got(Dav1dPicture::default());
        // SAFETY: the context is open, and the picture owns nothing.
        let result = unsafe { dav1d_get_picture(self.context, Some(NonNull::from(&mut got.0))) };
        if result.0 == AGAIN {
            return Ok(None);
        }
        check(result)?;
        copy(&got.0).map(Some)
    }

    /// Forgets all data and pictures. The stream goes on with a key frame.
    pub fn flush(&mut self) {
        if let Some(context) = self.context {
            // SAFETY: the context is open.
            unsafe { dav1d_flush(context) };
        }
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: the context is open, and not used again.
        unsafe { dav1d_close(Some(NonNull::from(&mut self.context))) };
    }
}

/// A picture that the decoder was asked for, whether it had one or not.
struct Got(Dav1dPicture);

impl Drop for Got {
    fn drop(&mut self) {
        // SAFETY: the picture is empty, or dav1d has filled it in; nothing points to its planes any more.
        unsafe { dav1d_picture_unref(Some(NonNull::from(&mut self.0))) };
        // rav1d makes a list of metadata for each picture that it hands out, also for the empty one that its "unref" and a
        // failed "get" leave behind, which owns nothing in dav1d.
        if let Some(metadata) = self.0.itut_t35_ref.take() {
            // SAFETY: rav1d has made the reference of a counted pointer, which the picture alone had; it is used once.
            drop(unsafe { metadata.into_arc() });
        }
    }
}

fn check(result: Dav1dResult) -> Result<(), DecodeError> {
    match result.0 {
        0.. => Ok(()),
        NO_MEMORY => Err(DecodeError::NoMemory),
        TOO_LARGE => Err(DecodeError::TooLarge),
        _ => Err(DecodeError::Invalid),
    }
}

/// Copies the planes of a picture that dav1d has filled in.
fn copy(picture: &Dav1dPicture) -> Result<Picture, DecodeError> {
    let layout = match picture.p.layout {
        DAV1D_PIXEL_LAYOUT_I400 => Layout::I400,
        DAV1D_PIXEL_LAYOUT_I420 => Layout::I420,
        DAV1D_PIXEL_LAYOUT_I422 => Layout::I422,
        _ => Layout::I444,
    };
    let number = |number: i32| u32::try_from(number).map_err(|_| DecodeError::Invalid);
    let size = [number(picture.p.w)?, number(picture.p.h)?];
    let bit_depth = number(picture.p.bpc)?;
    let bytes = if bit_depth > 8 { 2 } else { 1 };
    let mut planes = [const { Vec::new() }; 3];
    for (index, plane) in planes.iter_mut().enumerate() {
        let [width, height] = if index == 0 { size } else { layout.chroma(size) };
        let Some(data) = picture.data[index].filter(|_| width > 0 && height > 0) else { continue };
        let (stride, row) = (picture.stride[usize::from(index > 0)], width as usize * bytes);
        plane.resize(row * height as usize, 0);
        for (at, into) in (0_isize..).zip(plane.chunks_exact_mut(row)) {
            // SAFETY: dav1d's plane has `height` rows, `stride` bytes from one to the next, of `width` samples each.
            unsafe {
                copy_nonoverlapping(
                    data.as_ptr().cast::<u8>().offset(at * stride),
                    into.as_mut_ptr(),
                    row,
                );
            }
        }
    }
    let (time, bytes) = (picture.m.timestamp, picture.m.size as u64);
    Ok(Picture { size, bit_depth, layout, planes, time, bytes })
}
