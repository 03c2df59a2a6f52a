//! The writing end of rings. C reads them with `include/onbeat_ring.h`, without this library.
#![allow(unsafe_code)] // C's pointers.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;
use std::slice;

use onbeat_control::{Channel, RecordType, RingSettings, RingWriter};

use super::last_error::{keep, without_panic};

/// What a type's hash begins with, as ROS 2 writes it.
const HASH_PREFIX: &str = "RIHS01_";

/// `struct onbeat_ring_settings`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PublisherSettings {
    records: u64,
    record_bytes: u64,
    type_name: *const c_char,
    type_hash: *const c_char,
    schema: *const c_char,
    description: *const c_char,
}

/// `struct onbeat_ring_writer`, of which C knows the address only.
#[derive(Debug)]
pub struct Publisher {
    writer: RingWriter,
    record_bytes: usize,
}

/// Creates the ring of a channel such as `walker/planner`; returns NULL if it cannot.
///
/// # Safety
/// `channel` is a string; `settings` points to the structure, whose texts are NULL or strings.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_ring_create(
    channel: *const c_char,
    settings: *const PublisherSettings,
) -> *mut Publisher {
    without_panic(null_mut(), || {
        // SAFETY: as the caller vouches; checked for NULL.
        let (channel, settings) = unsafe { (text(channel), settings.as_ref()) };
        let created = match settings {
            Some(settings) => created(&channel, settings),
            None => Err("onbeat_ring_create needs settings, and they are NULL".to_owned()),
        };
        match created {
            Ok(publisher) => Box::into_raw(Box::new(publisher)),
            Err(why) => {
                keep(&why);
                null_mut()
            }
        }
    })
}

fn created(channel: &str, settings: &PublisherSettings) -> Result<Publisher, String> {
    let channel: Channel = channel.parse().map_err(|why| format!("{why}"))?;
    // SAFETY: the caller of onbeat_ring_create vouches that each is NULL or a string.
    let [name, hash, schema, description] = unsafe {
        [
            text(settings.type_name),
            text(settings.type_hash),
            text(settings.schema),
            text(settings.description),
        ]
    };
    let hash = hash_of(&hash)?;

    // A size beyond the machine's is refused as too large.
    let size = |wanted: u64| usize::try_from(wanted).unwrap_or(usize::MAX);
    let record_bytes = size(settings.record_bytes);
    let own = RingSettings {
        records: size(settings.records),
        record_bytes,
        record_type: RecordType { name, hash, schema },
        description,
    };
    let writer = RingWriter::create(&channel, &own).map_err(|why| why.to_string())?;
    Ok(Publisher { writer, record_bytes })
}

/// Publishes a record and returns its number, from 1; 0 if it is longer than `record_bytes`. A fixed
/// number of stores: no allocation, no system call, no waiting.
///
/// # Safety
/// `writer` is of `onbeat_ring_create`, and used by one thread at a time; `bytes` has `length` bytes.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_ring_publish(
    writer: *mut Publisher,
    at_ns: u64,
    bytes: *const u8,
    length: usize,
) -> u64 {
    // SAFETY: as the caller vouches; checked for NULL.
    let Some(publisher) = (unsafe { writer.as_mut() }) else { return 0 };
    if length > publisher.record_bytes || (bytes.is_null() && length > 0) {
        return 0;
    }

    let bytes = if length == 0 {
        &[]
    } else {
        // SAFETY: as the caller vouches.
        unsafe { slice::from_raw_parts(bytes, length) }
    };
    publisher.writer.publish(at_ns, bytes)
}

/// Ends a ring: readers learn of its end, and the channel is free. NULL is ignored.
///
/// # Safety
/// `writer` is NULL or of `onbeat_ring_create`, and is not used afterwards.
// SAFETY: the name belongs to this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn onbeat_ring_end(writer: *mut Publisher) {
    without_panic((), || {
        if !writer.is_null() {
            // SAFETY: it was made by `Box::into_raw`, and the caller gives it back.
            drop(unsafe { Box::from_raw(writer) });
        }
    });
}

/// Returns a text of C; NULL is empty, and bytes that are not UTF-8 are replaced.
///
/// # Safety
/// It is NULL or a string.
unsafe fn text(of: *const c_char) -> String {
    if of.is_null() {
        return String::new();
    }
    // SAFETY: as the caller vouches.
    unsafe { CStr::from_ptr(of) }.to_string_lossy().into_owned()
}

/// Returns the bytes of a hash such as `RIHS01_2f..`; zeros for an empty text.
///
/// # Errors
/// Why the text is no hash.
pub fn hash_of(word: &str) -> Result<[u8; 32], String> {
    let mut hash = [0; 32];
    if word.is_empty() {
        return Ok(hash);
    }

    let digits = word.strip_prefix(HASH_PREFIX).filter(|digits| digits.len() == 64);
    let wrong = || {
        format!("\"{word}\" is not a hash of a type; write {HASH_PREFIX} and 64 hexadecimal digits")
    };
    let digits = digits.filter(|digits| digits.is_ascii()).ok_or_else(wrong)?;
    for (place, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}
