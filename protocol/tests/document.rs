// SPDX-License-Identifier: MIT OR Apache-2.0

//! `docs/protocol.md` and the code agree on all numbers.
#![cfg(not(loom))]

use bellhop_protocol::bar::AreaKind;
use bellhop_protocol::control::RequestCode;
use bellhop_protocol::control::adapter::EngineType;
use bellhop_protocol::control::agent::{
    AgentResult, AgentTopology, AgentWish, DevicePresence, PowerPolicy, RecoveryKind,
};
use bellhop_protocol::control::allocation::AllocationKind;
use bellhop_protocol::control::display::{ConnectorKind, Constraint, Pivot, Rotation, Scaling};
use bellhop_protocol::control::escape::ObjectList;
use bellhop_protocol::control::kernel::KernelResult;
use bellhop_protocol::control::node_context::SubmissionModel;
use bellhop_protocol::control::present::PresentKind;
use bellhop_protocol::control::video::VideoFormat;
use bellhop_protocol::doorbell::{ConnectionStatus, LoggingLevel};
use bellhop_protocol::event::{EventKind, FaultReason, FlipOutcome, InputKind};
use bellhop_protocol::features::{Features, Version};
use bellhop_protocol::fence_log::{FenceLogOperation, FenceLogType};
use bellhop_protocol::packet::dispatch::Kernel;
use bellhop_protocol::packet::surface::StretchFilter;
use bellhop_protocol::packet::video::VideoResult;
use bellhop_protocol::packet::{MAX_PACKET_SIZE, Opcode};
use bellhop_protocol::pixel_format::PixelFormat;
use bellhop_protocol::security::SecurityOutcome;
use bellhop_protocol::status::Status;
use bellhop_protocol::vulkan::{CommandCode, DescriptorKind};

const DOCUMENT: &str = include_str!("../../docs/protocol.md");

/// Asserts that some table row of the document begins with this number and name.
fn assert_row(number: &str, name: &str) {
    let found = DOCUMENT.lines().any(|line| {
        let mut cells = line.split('|').map(str::trim).skip(1);
        cells.next() == Some(number)
            && cells.next().is_some_and(|cell| cell.split(' ').next() == Some(&format!("`{name}`")))
    });
    assert!(found, "docs/protocol.md has no row `| {number} | `{name}``");
}

macro_rules! assert_rows {
    ($type:ty, $format:literal) => {
        for value in <$type>::ALL {
            assert_row(&format!($format, value.0), value.name().unwrap());
        }
    };
}

#[test]
fn every_named_value_stands_in_the_document_with_its_number() {
    assert_rows!(AreaKind, "{}");
    assert_rows!(ConnectionStatus, "{}");
    assert_rows!(LoggingLevel, "{}");
    assert_rows!(Opcode, "{:#04x}");
    assert_rows!(CommandCode, "{:#04x}");
    assert_rows!(DescriptorKind, "{}");
    assert_rows!(FenceLogType, "{}");
    assert_rows!(FenceLogOperation, "{}");
    assert_rows!(Kernel, "{}");
    assert_rows!(EngineType, "{}");
    assert_rows!(AllocationKind, "{}");
    assert_rows!(ObjectList, "{}");
    assert_rows!(SubmissionModel, "{}");
    assert_rows!(EventKind, "{}");
    assert_rows!(FaultReason, "{}");
    assert_rows!(KernelResult, "{}");
    assert_rows!(PixelFormat, "{}");
    assert_rows!(StretchFilter, "{}");
    assert_rows!(PresentKind, "{}");
    assert_rows!(Scaling, "{}");
    assert_rows!(Rotation, "{}");
    assert_rows!(ConnectorKind, "{}");
    assert_rows!(Constraint, "{}");
    assert_rows!(Pivot, "{}");
    assert_rows!(FlipOutcome, "{}");
    assert_rows!(InputKind, "{}");
    assert_rows!(AgentWish, "{}");
    assert_rows!(AgentTopology, "{}");
    assert_rows!(AgentResult, "{}");
    assert_rows!(PowerPolicy, "{}");
    assert_rows!(DevicePresence, "{}");
    assert_rows!(RecoveryKind, "{}");
    assert_rows!(VideoFormat, "{}");
    assert_rows!(VideoResult, "{}");
    assert_rows!(SecurityOutcome, "{}");
    for code in RequestCode::ALL {
        assert_row(&format!("0x{:02X}", code.0), code.name().unwrap());
    }
    for status in Status::ALL {
        assert_row(&format!("0x{:08X}", status.0), status.name().unwrap());
    }
    for (name, feature) in Features::all().iter_names() {
        assert_row(&feature.bits().trailing_zeros().to_string(), name);
    }
}

#[test]
fn the_document_is_of_this_version() {
    assert!(DOCUMENT.contains(&format!("This is version **{}**", Version::CURRENT)));
    assert!(DOCUMENT.contains(&format!("| 8–{MAX_PACKET_SIZE} |")));
}
