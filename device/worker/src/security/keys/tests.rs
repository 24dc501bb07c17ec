// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use ed25519_dalek::{Signature, VerifyingKey};

fn about() -> About {
    About {
        adapter: digest(b""),
        daemon: [b'v'; 32],
        configuration: [7; 32],
        lasting: 1,
        reserved: 0,
    }
}

fn keys(root: u8, salt: u8) -> Keys {
    Keys::new(Zeroizing::new([root; 32]), about(), [salt; 32])
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
}

const GUEST: Identity = [1; 32];

/// "The Galois/Counter Mode of Operation" (McGrew, Viega), the revised specification submitted to NIST: appendix B,
/// AES-256, test cases 13, 14 and 16: key, nonce, plaintext, associated data, ciphertext, tag.
#[test]
fn the_cipher_is_the_one_of_the_specification() {
    let plain = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525\
                 b16aedf5aa0de657ba637b39";
    let cases = [
        (
            "0000000000000000000000000000000000000000000000000000000000000000",
            "000000000000000000000000",
            "",
            "",
            "",
            "530f8afbc74536b9a963b4f1c4cb738b",
        ),
        (
            "0000000000000000000000000000000000000000000000000000000000000000",
            "000000000000000000000000",
            "00000000000000000000000000000000",
            "",
            "cea7403d4d606b6e074ec5d3baf39d18",
            "d0d1c8a799996bf0265b98b5d48ab919",
        ),
        (
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            plain,
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838\
             c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        ),
    ];
    for (key, nonce, plain, associated, expected, tag) in cases {
        let key: [u8; 32] = hex(key).try_into().unwrap();
        let nonce: [u8; 12] = hex(nonce).try_into().unwrap();
        let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from(key));
        let mut data = hex(plain);
        let seen = cipher
            .encrypt_inout_detached(&nonce.into(), &hex(associated), data.as_mut_slice().into())
            .unwrap();
        assert_eq!((data, seen.to_vec()), (hex(expected), hex(tag)));
    }
}

/// RFC 5869, appendix A.1 and A.3.
#[test]
fn keys_are_derived_as_rfc_5869_says() {
    let input = [0x0b; 22];
    let salt = hex("000102030405060708090a0b0c");
    let mut key = [0; 42];
    let info = hex("f0f1f2f3f4f5f6f7f8f9");
    Hkdf::<Sha256>::new(Some(&salt), &input).expand_multi_info(&[&info], &mut key).unwrap();
    let expected =
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(key.to_vec(), hex(expected));
    Hkdf::<Sha256>::new(None, &input).expand_multi_info(&[], &mut key).unwrap();
    let expected =
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
    assert_eq!(key.to_vec(), hex(expected));
}

/// RFC 8032, section 7.1, test 2.
#[test]
fn signatures_are_those_of_rfc_8032() {
    let seed = hex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
    let public = hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c");
    let signature = "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c\
                     387b2eaeb4302aeeb00d291612bb0c00";
    let key = SigningKey::from_bytes(&seed.try_into().unwrap());
    assert_eq!(key.verifying_key().to_bytes().to_vec(), public);
    assert_eq!(key.sign(&[0x72]).to_bytes().to_vec(), hex(signature));
}

fn sealed(keys: &mut Keys, protected: bool, associated: &[u8], text: &[u8]) -> Vec<u8> {
    let mut data = text.to_vec();
    keys.seal(&GUEST, protected, associated, &mut data).unwrap();
    data
}

#[test]
fn what_was_sealed_opens_and_says_where_it_came_from() {
    let mut keys = keys(1, 2);
    for (length, is_protected) in [(0, false), (1, true), (1 << 20, false)] {
        let text = vec![0x41; length];
        let mut data = sealed(&mut keys, is_protected, b"page 7", &text);
        assert_eq!(data.len(), length + 80);
        assert!(length < 16 || !data.windows(16).any(|part| part == &text[..16]));
        let header = SealedHeader::read_from_prefix(&data).unwrap().0;
        assert_eq!((header.is_protected(), header.length), (is_protected, length as u64));
        keys.open(&GUEST, b"page 7", &mut data).unwrap();
        assert_eq!(data, text);
    }
}

#[test]
fn it_opens_after_a_restart_with_the_same_root_key_and_with_no_other() {
    let data = sealed(&mut keys(1, 2), true, b"", b"secret");
    let mut again = data.clone();
    keys(1, 3).open(&GUEST, b"", &mut again).unwrap();
    assert_eq!(again, b"secret");
    let mut other = data;
    assert_eq!(keys(4, 2).open(&GUEST, b"", &mut other), Err(NotOpened::NotAuthentic));
    assert!(other.is_empty(), "nothing is left of what was not opened");
}

#[test]
fn no_other_guest_adapter_or_associated_data_opens_it() {
    let data = sealed(&mut keys(1, 2), false, b"page 7", b"secret");
    let keys = keys(1, 2);
    let refused = |keys: &Keys, guest: &Identity, associated: &[u8]| {
        keys.open(guest, associated, &mut data.clone()).unwrap_err()
    };
    assert_eq!(refused(&keys, &[2; 32], b"page 7"), NotOpened::NotAuthentic);
    for associated in [&b""[..], b"page 8", b"page 77"] {
        assert_eq!(refused(&keys, &GUEST, associated), NotOpened::NotAuthentic);
    }
    let about = About { adapter: digest(b"other"), ..about() };
    let other = Keys::new(Zeroizing::new([1; 32]), about, [2; 32]);
    assert_eq!(refused(&other, &GUEST, b"page 7"), NotOpened::NotAuthentic);
    // Bytes cannot move between the header's end and the associated data.
    assert_eq!(refused(&keys, &GUEST, &[0; 6]), NotOpened::NotAuthentic);
}

#[test]
fn a_changed_byte_is_noticed_wherever_it_is() {
    let mut keys = keys(1, 2);
    let data = sealed(&mut keys, true, b"", b"secret");
    for index in 0..data.len() {
        let mut changed = data.clone();
        changed[index] ^= 1;
        let expected = match index {
            0..6 | 8..16 | 56..64 => NotOpened::NotSealed,
            // A flag that does not exist comes of no change of the lowest bit: it is the protection that went.
            _ => NotOpened::NotAuthentic,
        };
        let seen = keys.open(&GUEST, b"", &mut changed);
        let is_flags = (6..8).contains(&index);
        assert!(seen == Err(expected) || is_flags && seen.is_err(), "byte {index}: {seen:?}");
    }
    for length in 0..data.len() {
        let mut cut = data[..length].to_vec();
        assert_eq!(keys.open(&GUEST, b"", &mut cut), Err(NotOpened::NotSealed), "{length}");
    }
}

#[test]
fn no_message_has_the_nonce_and_key_of_another() {
    let mut keys = keys(1, 2);
    let mut number = |guest: u8| {
        let mut data = b"text".to_vec();
        keys.seal(&[guest; 32], false, b"", &mut data).unwrap();
        let header = SealedHeader::read_from_prefix(&data).unwrap().0;
        (header.number, data)
    };
    let all: Vec<_> = [1, 1, 2, 1].map(&mut number).into();
    assert_eq!(all.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_ne!(all[0].1[64..], all[1].1[64..]);
    keys.next = MESSAGES - 1;
    let mut data = Vec::new();
    assert_eq!(keys.seal(&GUEST, false, b"", &mut data), Ok(()));
    assert_eq!(keys.seal(&GUEST, false, b"", &mut data), Err(WornOut));
    assert_eq!(keys.seal(&GUEST, false, b"", &mut data), Err(WornOut));
}

#[test]
fn a_statement_says_what_it_is_about_and_is_signed() {
    let keys = keys(1, 2);
    let statement = keys.attest(&GUEST, [9; 32]);
    assert_eq!((&statement.magic, statement.nonce), (b"bellhop attest 1", [9; 32]));
    assert_eq!((statement.daemon, statement.configuration), ([b'v'; 32], [7; 32]));
    assert_eq!((statement.guest, statement.flags), (GUEST, 1));
    // SHA-256 of nothing, FIPS 180-4.
    let nothing = hex("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(statement.adapter.to_vec(), nothing);
    let key = VerifyingKey::from_bytes(&statement.public_key).unwrap();
    let signature = Signature::from_bytes(&statement.signature);
    key.verify_strict(statement.signed(), &signature).unwrap();
    let other = keys.attest(&GUEST, [8; 32]);
    assert!(key.verify_strict(other.signed(), &signature).is_err());
    // It is the same key after a restart, and another for another adapter.
    assert_eq!(self::keys(1, 3).public_key(), statement.public_key);
    let about = About { adapter: digest(b"other"), ..about() };
    let other = Keys::new(Zeroizing::new([1; 32]), about, [2; 32]);
    assert_ne!(other.public_key(), statement.public_key);
}
