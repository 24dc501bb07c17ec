// SPDX-License-Identifier: MIT OR Apache-2.0

//! The begin of a connection. Source: RFC 6143, sections 7.1 to 7.3, and its appendix on earlier versions.

use super::auth::{CHALLENGE, Password};
use super::{PixelFormat, RfbError};
use std::io::{Read, Write};

const VERSION: &[u8; 12] = b"RFB 003.008\n";
/// Kinds of security.
const NONE: u8 = 1;
const VNC: u8 = 2;
const REFUSED: &str = "wrong password";

/// What a viewer is told of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// Pixels of a row.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// The screen's name.
    pub name: String,
}

/// The minor versions that differ.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    V3,
    V7,
    V8,
}

/// What is said to a viewer that may see the screen, and to one that may not.
const LET_IN: u32 = 0;
const NOT_LET_IN: u32 = 1;

/// Tells a viewer that its password is wrong.
fn refuse(viewer: &mut impl Write, version: Version) -> std::io::Result<()> {
    viewer.write_all(&NOT_LET_IN.to_be_bytes())?;
    if version == Version::V8 {
        viewer.write_all(&(REFUSED.len() as u32).to_be_bytes())?;
        viewer.write_all(REFUSED.as_bytes())?;
    }
    Ok(())
}

/// Agrees on a version, asks for the password if there is one, and tells of the screen.
///
/// # Errors
/// If the viewer does not speak RFB, or does not know the password.
pub fn shake_hands(
    viewer: &mut (impl Read + Write),
    password: Option<&Password>,
    hello: impl FnOnce() -> Hello,
) -> Result<(), RfbError> {
    viewer.write_all(VERSION)?;
    let mut version = [0; VERSION.len()];
    viewer.read_exact(&mut version)?;
    let version = match &version {
        b"RFB 003.003\n" => Version::V3,
        b"RFB 003.007\n" => Version::V7,
        b"RFB 003.008\n" => Version::V8,
        // "any other should be treated as 3.3", as long as it is one of 3.
        [b'R', b'F', b'B', b' ', b'0', b'0', b'3', b'.', ..] => Version::V3,
        _ => return Err(RfbError::Version),
    };
    let security = if password.is_some() { VNC } else { NONE };
    if version == Version::V3 {
        viewer.write_all(&u32::from(security).to_be_bytes())?;
    } else {
        viewer.write_all(&[1, security])?;
        let mut chosen = [0];
        viewer.read_exact(&mut chosen)?;
        if chosen != [security] {
            return Err(RfbError::Security(chosen[0]));
        }
    }
    let mut is_let_in = true;
    if let Some(password) = password {
        let challenge = Password::challenge()?;
        viewer.write_all(&challenge)?;
        let mut answer = [0; CHALLENGE];
        viewer.read_exact(&mut answer)?;
        is_let_in = password.is_answer(&challenge, &answer);
    }
    if !is_let_in {
        // Who goes before it is told has sent a wrong password all the same.
        let _ = refuse(viewer, version);
        return Err(RfbError::Password);
    }
    if password.is_some() || version == Version::V8 {
        viewer.write_all(&LET_IN.to_be_bytes())?;
    }
    // Whether it shares the screen: all viewers do.
    viewer.read_exact(&mut [0])?;
    let Hello { width, height, name } = hello();
    let mut told = Vec::new();
    told.extend(width.to_be_bytes());
    told.extend(height.to_be_bytes());
    told.extend(PixelFormat::OWN.encode());
    told.extend((name.len() as u32).to_be_bytes());
    told.extend(name.as_bytes());
    Ok(viewer.write_all(&told)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// A viewer that says these bytes, whatever it hears.
    struct Says<'a>(&'a [u8], Vec<u8>);

    impl Read for Says<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Says<'_> {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            self.1.extend_from_slice(from);
            Ok(from.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A viewer that says these bytes, and goes when it has heard so many.
    struct Goes<'a>(&'a [u8], &'a mut [u8]);

    impl Read for Goes<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.0.read(to)
        }
    }

    impl Write for Goes<'_> {
        fn write(&mut self, from: &[u8]) -> io::Result<usize> {
            (&mut self.1).write(from)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn hello() -> Hello {
        Hello { width: 3, height: 2, name: "one".into() }
    }

    fn hears(says: &[u8], password: Option<&Password>) -> (Result<(), RfbError>, Vec<u8>) {
        let mut viewer = Says(says, Vec::new());
        (shake_hands(&mut viewer, password, hello), viewer.1)
    }

    const SCREEN: &[u8] =
        b"\0\x03\0\x02\x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\x03one";

    #[test]
    fn each_version_is_let_in_as_it_expects() {
        let (result, heard) = hears(b"RFB 003.008\n\x01\x01", None);
        result.unwrap();
        assert_eq!(heard, [b"RFB 003.008\n\x01\x01\0\0\0\0", SCREEN].concat());
        let (result, heard) = hears(b"RFB 003.007\n\x01\x01", None);
        result.unwrap();
        assert_eq!(heard, [b"RFB 003.008\n\x01\x01", SCREEN].concat());
        let (result, heard) = hears(b"RFB 003.003\n\x01", None);
        result.unwrap();
        assert_eq!(heard, [b"RFB 003.008\n\0\0\0\x01", SCREEN].concat());
    }

    #[test]
    fn nobody_is_let_in_without_the_password() {
        let password = Password::new("secret").unwrap();
        let (result, heard) = hears(b"RFB 003.008\n\x02aaaaaaaaaaaaaaaa\x01", Some(&password));
        assert!(matches!(result, Err(RfbError::Password)));
        assert!(heard.ends_with(b"\0\0\0\x01\0\0\0\x0ewrong password"));
        // It goes as soon as it has sent the password: no room for more than the challenge.
        let mut told = [0; 12 + 2 + CHALLENGE];
        let mut viewer = Goes(b"RFB 003.008\n\x02aaaaaaaaaaaaaaaa", &mut told);
        let result = shake_hands(&mut viewer, Some(&password), hello);
        assert!(matches!(result, Err(RfbError::Password)));
        let (result, _) = hears(b"RFB 003.008\n\x01\x01", Some(&password));
        assert!(matches!(result, Err(RfbError::Security(1))));
        let (result, _) = hears(b"RFB 004.001\n\x01\x01", Some(&password));
        assert!(matches!(result, Err(RfbError::Version)));
    }
}
