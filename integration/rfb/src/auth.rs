// SPDX-License-Identifier: MIT OR Apache-2.0

//! VNC authentication: the viewer encrypts a challenge with the password. Source: RFC 6143, section 7.2.2.

use des::Des;
use des::cipher::{BlockEncrypt, KeyInit};
use std::fs::File;
use std::io::{self, Read};

/// Bytes of a challenge and of its answer.
pub const CHALLENGE: usize = 16;
/// Bytes of a password that count.
const KEY: usize = 8;

/// A password.
#[derive(Clone)]
pub struct Password([u8; KEY]);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password")
    }
}

impl Password {
    /// A password, of which the protocol uses the first 8 bytes; `None` for an empty one.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let mut key = [0; KEY];
        // The protocol's DES takes the bits of each byte in the other order.
        key.iter_mut().zip(text.bytes()).for_each(|(byte, of)| *byte = of.reverse_bits());
        (!text.is_empty()).then_some(Self(key))
    }

    /// A challenge that nobody foresees.
    ///
    /// # Errors
    /// If the operating system has no random numbers.
    pub fn challenge() -> io::Result<[u8; CHALLENGE]> {
        let mut challenge = [0; CHALLENGE];
        File::open("/dev/urandom")?.read_exact(&mut challenge)?;
        Ok(challenge)
    }

    /// The right answer to a challenge.
    #[must_use]
    pub fn answer(&self, challenge: &[u8; CHALLENGE]) -> [u8; CHALLENGE] {
        let cipher = Des::new(&self.0.into());
        let mut answer = *challenge;
        for block in answer.as_chunks_mut::<8>().0 {
            cipher.encrypt_block(block.into());
        }
        answer
    }

    /// Whether an answer is right. It takes as long for each wrong one.
    #[must_use]
    pub fn is_answer(&self, challenge: &[u8; CHALLENGE], answer: &[u8; CHALLENGE]) -> bool {
        let right = self.answer(challenge);
        right.iter().zip(answer).fold(0, |differ, (a, b)| differ | a ^ b) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DES with the key 0x0123456789abcdef makes 0xd5d44ff720683d0d of zeroes, a known answer.
    #[test]
    fn a_challenge_is_encrypted_as_des_does() {
        let key = [0x01u8, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let password = Password(key);
        let answer = password.answer(&[0; 16]);
        let expected = [0xd5, 0xd4, 0x4f, 0xf7, 0x20, 0x68, 0x3d, 0x0d];
        assert_eq!((&answer[..8], &answer[8..]), (&expected[..], &expected[..]));
    }

    #[test]
    fn only_the_right_password_answers() {
        let password = Password::new("secret").unwrap();
        let challenge = Password::challenge().unwrap();
        assert!(
            password.is_answer(&challenge, &Password::new("secret").unwrap().answer(&challenge))
        );
        assert!(
            !password.is_answer(&challenge, &Password::new("Secret").unwrap().answer(&challenge))
        );
        assert!(Password::new("").is_none());
        assert_eq!(Password::new("12345678").unwrap().0, Password::new("123456789").unwrap().0);
    }
}
