// SPDX-License-Identifier: MIT OR Apache-2.0

//! Words that hand over what their writers did.

use super::Bytes;
use bellhop_protocol::handoff::publication;
use bellhop_protocol::handoff::sync::AtomicU64;
use loom::sync::Arc;

#[test]
fn a_reader_that_finds_a_link_finds_the_node_as_it_was_made() {
    loom::model(|| {
        let shared = Arc::new((AtomicU64::new(0), Bytes::new()));
        let writer = spawn!(shared => {
            let (link, node) = &*shared;
            node.write();
            publication::publish(link, 7);
        });
        let (link, node) = &*shared;
        if publication::read(link) == 7 {
            node.read();
        }
        writer.join().unwrap();
        assert_eq!(publication::read(link), 7);
    });
}
