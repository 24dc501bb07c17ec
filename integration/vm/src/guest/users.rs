// SPDX-License-Identifier: MIT OR Apache-2.0

//! The people of a guest.

/// The users of a guest with a broker, each of whom may connect to it.
pub const PASSWD: &str = "root:x:0:0::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n\
    user:x:1000:1000::/tmp:/bin/sh\nother:x:1001:1001::/tmp:/bin/sh\n";
/// Their groups.
pub const GROUP: &str = "root:x:0:\nnogroup:x:65534:\nbellhop:x:999:user,other\n\
    user:x:1000:\nother:x:1001:\n";
