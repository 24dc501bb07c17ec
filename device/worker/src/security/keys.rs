// SPDX-License-Identifier: MIT OR Apache-2.0

//! Keys, and what is done with them.
//!
//! Everything is derived from the root key by HKDF-SHA-256 (RFC 5869), with a label for each use:
//!
//! | key | salt | info |
//! |---|---|---|
//! | to seal and open: AES-256-GCM | the header's | "bellhop seal 1", adapter, guest |
//! | to sign: the seed of Ed25519 | none | "bellhop sign 1", adapter |
//!
//! *No nonce is used twice with a key.* The salt is 256 random bits, drawn when the process starts: two processes never
//! have the same one, and so never the same key. Within a process, one counter numbers the messages of all guests, and is
//! the nonce. It ends at [`MESSAGES`], and the process with it.

use super::ROOT_SIZE;
use super::messages::{About, Identity};
use aes_gcm::{AeadInOut, Aes256Gcm, Key, KeyInit, Nonce, Tag};
use bellhop_protocol::security::{
    NONCE_SIZE, SEALED_MAGIC, SEALED_PROTECTED, SEALED_VERSION, STATEMENT_LASTING_KEY,
    STATEMENT_MAGIC, SealedHeader, Statement, TAG_SIZE,
};
use ed25519_dalek::{Signer, SigningKey};
use hkdf::Hkdf;
use sha2::{Digest, Sha256};
use zerocopy::{FromBytes, IntoBytes};
use zeroize::{Zeroize, Zeroizing};

const HEADER: usize = size_of::<SealedHeader>();
/// Most messages of a process. A key of AES-GCM then encrypts at most 2^32 messages of 2^16 blocks, so that nobody tells
/// its output from noise with a probability above 2^-32.
const MESSAGES: u64 = 1 << 32;

/// SHA-256 of a name, by which keys and statements know it.
#[must_use]
pub fn digest(name: &[u8]) -> Identity {
    Sha256::digest(name).into()
}

/// Why bytes were not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// They do not begin with a header of this version and length.
    NotSealed,
    /// The tag does not fit.
    NotAuthentic,
}

/// The process has sealed as much as it may.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key has encrypted as many messages as it may")]
pub(super) struct WornOut;

/// The keys of a process.
pub(super) struct Keys {
    root: Zeroizing<[u8; ROOT_SIZE]>,
    about: About,
    salt: [u8; 32],
    /// The number of the next message.
    next: u64,
    signing: SigningKey,
}

impl Keys {
    /// The keys that follow from a root key, with a salt that no other process has.
    pub(super) fn new(root: Zeroizing<[u8; ROOT_SIZE]>, about: About, salt: [u8; 32]) -> Self {
        let mut seed = Zeroizing::new([0; 32]);
        derive(&root, None, &[b"bellhop sign 1", &about.adapter], &mut seed);
        let signing = SigningKey::from_bytes(&seed);
        Self { root, about, salt, next: 0, signing }
    }

    /// The key that verifies statements.
    pub(super) fn public_key(&self) -> [u8; 32] {
        self.signing.verifying_key().to_bytes()
    }

    /// The cipher of a guest.
    fn cipher(&self, salt: &[u8; 32], guest: &Identity) -> Aes256Gcm {
        let mut key = Zeroizing::new([0; 32]);
        let info: [&[u8]; 3] = [b"bellhop seal 1", &self.about.adapter, guest];
        derive(&self.root, Some(salt), &info, &mut key);
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(*key))
    }

    /// Seals `data`: puts a header before it, and a tag behind it.
    pub(super) fn seal(
        &mut self,
        guest: &Identity,
        is_protected: bool,
        associated: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(), WornOut> {
        if self.next >= MESSAGES {
            return Err(WornOut);
        }
        let number = self.next;
        // Before it is used: whatever happens below, this number is gone.
        self.next += 1;
        let header = SealedHeader {
            magic: SEALED_MAGIC,
            version: SEALED_VERSION,
            flags: if is_protected { SEALED_PROTECTED } else { 0 },
            length: data.len() as u64,
            salt: self.salt,
            number,
            reserved: 0,
        };
        let cipher = self.cipher(&header.salt, guest);
        let authenticated = [header.as_bytes(), associated].concat();
        let sealed = cipher.encrypt_inout_detached(
            &nonce(number),
            &authenticated,
            data.as_mut_slice().into(),
        );
        // No length that fits a buffer is too long for the cipher.
        let tag = sealed.map_err(|_| WornOut)?;
        data.splice(..0, header.as_bytes().iter().copied());
        data.extend_from_slice(&tag);
        Ok(())
    }

    /// Opens `data`, of which only the plaintext is left then. On failure nothing is left of it.
    pub(super) fn open(
        &self,
        guest: &Identity,
        associated: &[u8],
        data: &mut Vec<u8>,
    ) -> Result<(), NotOpened> {
        let opened = self.open_in_place(guest, associated, data);
        match opened {
            Ok(length) => {
                data.copy_within(HEADER..HEADER + length, 0);
                data[length..].zeroize();
                data.truncate(length);
                Ok(())
            }
            Err(why) => {
                data.zeroize();
                data.clear();
                Err(why)
            }
        }
    }

    fn open_in_place(
        &self,
        guest: &Identity,
        associated: &[u8],
        data: &mut [u8],
    ) -> Result<usize, NotOpened> {
        let sealed = data.len();
        let (header, rest) =
            SealedHeader::read_from_prefix(data).map_err(|_| NotOpened::NotSealed)?;
        let _ = rest;
        let length = header.plaintext(sealed).ok_or(NotOpened::NotSealed)?;
        let (text, tag) = data[HEADER..].split_at_mut(length);
        let tag: [u8; TAG_SIZE] = (&*tag).try_into().map_err(|_| NotOpened::NotSealed)?;
        let cipher = self.cipher(&header.salt, guest);
        let authenticated = [header.as_bytes(), associated].concat();
        let opened = cipher.decrypt_inout_detached(
            &nonce(header.number),
            &authenticated,
            text.into(),
            &Tag::from(tag),
        );
        opened.map(|()| length).map_err(|_| NotOpened::NotAuthentic)
    }

    /// A statement for a guest.
    pub(super) fn attest(&self, guest: &Identity, nonce: [u8; NONCE_SIZE]) -> Statement {
        let mut statement = Statement {
            magic: STATEMENT_MAGIC,
            nonce,
            daemon: self.about.daemon,
            configuration: self.about.configuration,
            adapter: self.about.adapter,
            guest: *guest,
            flags: if self.about.lasting == 0 { 0 } else { STATEMENT_LASTING_KEY },
            reserved: 0,
            public_key: self.public_key(),
            signature: [0; 64],
        };
        statement.signature = self.signing.sign(statement.signed()).to_bytes();
        statement
    }
}

/// The nonce of a message: 4 bytes of zeroes, and its number.
fn nonce(number: u64) -> Nonce<aes_gcm::aead::consts::U12> {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce.into()
}

/// Derives a key: RFC 5869.
fn derive(root: &[u8; ROOT_SIZE], salt: Option<&[u8]>, info: &[&[u8]], key: &mut [u8; 32]) {
    let extracted = Hkdf::<Sha256>::new(salt, root);
    // HKDF-SHA-256 gives up to 255 times 32 bytes.
    if extracted.expand_multi_info(info, key).is_err() {
        unreachable!("32 bytes are not too many");
    }
}

#[cfg(test)]
mod tests;
