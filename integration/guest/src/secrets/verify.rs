// SPDX-License-Identifier: MIT OR Apache-2.0

//! Verifies statements. Needs no device.

use anyhow::{Context, bail, ensure};
use bellhop_protocol::control::kernel::unpadded;
use bellhop_protocol::security::{STATEMENT_LASTING_KEY, STATEMENT_MAGIC, Statement};
use ed25519_dalek::{Signature, SignatureError, VerifyingKey};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::PathBuf;
use zerocopy::FromBytes;

/// What a statement must say.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The file with the statement.
    pub statement: PathBuf,
    /// The nonce.
    pub nonce: [u8; 32],
    /// The key, known from elsewhere.
    pub public_key: [u8; 32],
    /// The guest's identity: the path of its socket.
    pub guest: Option<String>,
    /// The adapter's name.
    pub adapter: Option<String>,
}

/// Checks that this key signed a statement.
///
/// # Errors
/// When it did not.
pub fn signature(statement: &Statement, key: &[u8; 32]) -> Result<(), SignatureError> {
    let key = VerifyingKey::from_bytes(key)?;
    key.verify_strict(statement.signed(), &Signature::from_bytes(&statement.signature))
}

/// Hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// 32 bytes of 64 hexadecimal digits.
///
/// # Errors
/// When they are others.
pub fn of_hex(text: &str) -> Result<[u8; 32], String> {
    let wrong = || "give 64 hexadecimal digits".to_owned();
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| Some((digit(*high)? << 4 | digit(*low)?) as u8);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let bytes = bytes.filter(|_| rest.is_empty()).ok_or_else(wrong)?;
    bytes.try_into().map_err(|_| wrong())
}

/// Reads a statement and checks all that is expected of it. Returns what it says, for people.
///
/// # Errors
/// When it is no statement, or anything of it is not as expected.
pub fn verify(expected: &Expected) -> anyhow::Result<String> {
    let path = expected.statement.display();
    let bytes =
        std::fs::read(&expected.statement).with_context(|| format!("cannot read {path}"))?;
    check(&bytes, expected).with_context(|| path.to_string())
}

fn check(bytes: &[u8], expected: &Expected) -> anyhow::Result<String> {
    let Ok(statement) = Statement::read_from_bytes(bytes) else {
        bail!("a statement has {} bytes, not {}", size_of::<Statement>(), bytes.len());
    };
    ensure!(statement.magic == STATEMENT_MAGIC, "it is no statement of this version");
    // Before anything of it is believed.
    signature(&statement, &expected.public_key).map_err(|_| {
        anyhow::anyhow!("the signature is not of this key, or the statement was changed")
    })?;
    ensure!(statement.nonce == expected.nonce, "it is about another nonce: it is not fresh");
    ensure!(statement.public_key == expected.public_key, "it names another key");
    let is = |name: &Option<String>, digest: &[u8; 32]| {
        name.as_ref().is_none_or(|name| Sha256::digest(name.as_bytes()).as_slice() == digest)
    };
    ensure!(is(&expected.guest, &statement.guest), "it is about another guest");
    ensure!(is(&expected.adapter, &statement.adapter), "it is about another adapter");
    Ok(describe(&statement))
}

/// What a statement says.
#[must_use]
pub fn describe(statement: &Statement) -> String {
    let lasting = statement.flags & STATEMENT_LASTING_KEY != 0;
    let root = if lasting { "from the host's file" } else { "drawn when the daemon started" };
    format!(
        "daemon         {}\nconfiguration  {}\nadapter        {}\nguest          {}\nroot key       {root}\nsigned by      {}\n",
        unpadded(&statement.daemon),
        hex(&statement.configuration),
        hex(&statement.adapter),
        hex(&statement.guest),
        hex(&statement.public_key),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer, SigningKey};
    use zerocopy::IntoBytes;

    fn signed(change: impl Fn(&mut Statement)) -> (Statement, Expected) {
        let key = SigningKey::from_bytes(&[5; 32]);
        let public_key = key.verifying_key().to_bytes();
        let mut statement = Statement {
            magic: STATEMENT_MAGIC,
            nonce: [1; 32],
            daemon: [b'v'; 32],
            configuration: [2; 32],
            adapter: Sha256::digest(b"").into(),
            guest: Sha256::digest(b"/run/gpu.sock").into(),
            flags: 1,
            reserved: 0,
            public_key,
            signature: [0; 64],
        };
        change(&mut statement);
        statement.signature = key.sign(statement.signed()).to_bytes();
        let guest = Some("/run/gpu.sock".to_owned());
        let (nonce, adapter) = ([1; 32], Some(String::new()));
        (statement, Expected { statement: "x".into(), nonce, public_key, guest, adapter })
    }

    #[test]
    fn a_statement_must_be_signed_fresh_and_about_the_guest() {
        let (statement, expected) = signed(|_| ());
        let said = check(statement.as_bytes(), &expected).unwrap();
        assert!(said.contains("from the host's file"), "{said}");
        let refused = |statement: &Statement, expected: &Expected| {
            check(statement.as_bytes(), expected).unwrap_err().to_string()
        };
        let other = Expected { nonce: [9; 32], ..expected.clone() };
        assert!(refused(&statement, &other).contains("not fresh"));
        let other = Expected { guest: Some("/run/other.sock".into()), ..expected.clone() };
        assert!(refused(&statement, &other).contains("another guest"));
        let other = Expected { adapter: Some("fast".into()), ..expected.clone() };
        assert!(refused(&statement, &other).contains("another adapter"));
        let key = SigningKey::from_bytes(&[6; 32]).verifying_key().to_bytes();
        let other = Expected { public_key: key, ..expected.clone() };
        assert!(refused(&statement, &other).contains("not of this key"));
        for index in 0..size_of::<Statement>() {
            let mut bytes = statement.as_bytes().to_vec();
            bytes[index] ^= 1;
            assert!(check(&bytes, &expected).is_err(), "byte {index}");
        }
        let (other, _) = signed(|statement| statement.magic[15] = b'2');
        assert!(refused(&other, &expected).contains("of this version"));
        assert!(check(&statement.as_bytes()[1..], &expected).is_err());
    }

    #[test]
    fn digits_are_64() {
        assert_eq!(of_hex(&"0f".repeat(32)), Ok([15; 32]));
        assert_eq!(of_hex(&hex(&[0xa9; 32])), Ok([0xa9; 32]));
        for wrong in ["", "0", &"0f".repeat(31), &"0f".repeat(33), &"0g".repeat(32)] {
            assert!(of_hex(wrong).is_err(), "{wrong}");
        }
    }
}
