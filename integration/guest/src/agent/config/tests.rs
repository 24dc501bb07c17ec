// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of what an administrator declares.

use super::*;

#[test]
fn what_is_declared_becomes_the_policies_and_by_default_there_are_none() {
    let text = "[lid]\nclosed = \"others\"\nconnector = 3\n[power]\non_battery = \"saving\"\n\
                on_ac = \"balanced\"\n[session]\naway = \"off\"\n";
    let config: AgentConfig = bellhop_config::read(text).unwrap();
    let expected = Policies {
        lid: LidPolicy::Others,
        lid_connector: 3,
        on_battery: PowerChoice::Saving,
        on_ac: PowerChoice::Balanced,
        away: AwayPolicy::Off,
    };
    assert_eq!(config.policies(), expected);
    assert_eq!(AgentConfig::default().policies(), Policies::default());
    let printed = toml::to_string(&config).unwrap();
    assert_eq!(bellhop_config::read::<AgentConfig>(&printed).unwrap(), config);
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (text, why) in [
        ("[lid]\nclosed = \"single\"\n", "nothing or others or off"),
        ("[lid]\nconnector = 64\n", "0 to 63"),
        ("[power]\non_ac = \"fast\"\n", "nothing or balanced or performance or saving"),
        ("[session]\naway = true\n", "nothing or off"),
        ("[agent]\nhook_timeout = \"9s\"\n", "1s to 8s"),
        ("[agent]\nlisten = true\n", "unknown field `listen`"),
    ] {
        let flaw = bellhop_config::read::<AgentConfig>(text).unwrap_err().to_string();
        assert!(flaw.contains(why) && flaw.contains("line 2"), "{flaw}");
    }
}
