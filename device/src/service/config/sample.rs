// SPDX-License-Identifier: MIT OR Apache-2.0

//! Arbitrary configurations, for tests.

use super::{
    Config, ConfigFile, Connector, DoorbellModel, KernelSupport, LinkPower, ModeSetting,
    Processors, Rotation, Size,
};
use crate::monitor::Mode;
use bellhop_config::{Bounded, Unit};
use proptest::prelude::*;
use proptest::test_runner::TestRng;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A type with a generator of arbitrary values.
pub trait Sample: Sized {
    /// Generates a value.
    fn sample(random: &mut TestRng) -> Self;
}

/// Generates arbitrary values of a section, which stands here as it is declared.
macro_rules! sampled {
    (
        $(#[doc = $about:literal])*
        pub struct $section:ident {
            $(
                $(#[doc = $doc:literal])*
                $key:ident: $type:ty $(as $plain:ident)? $(= $default:expr)?;
            )*
        }
    ) => {
        impl $crate::service::config::sample::Sample for $section {
            fn sample(random: &mut proptest::test_runner::TestRng) -> Self {
                Self { $($key: $crate::service::config::sample::Sample::sample(random),)* }
            }
        }
    };
}

fn samples<T: Sample>(random: &mut TestRng) -> Vec<T> {
    (0..random.random_range(0..4)).map(|_| T::sample(random)).collect()
}

impl Sample for bool {
    fn sample(random: &mut TestRng) -> Self {
        random.random()
    }
}

impl Sample for String {
    fn sample(random: &mut TestRng) -> Self {
        (0..random.random_range(0..8)).map(|_| random.random::<char>()).collect()
    }
}

impl Sample for PathBuf {
    fn sample(random: &mut TestRng) -> Self {
        String::sample(random).into()
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut TestRng) -> Self {
        samples(random)
    }
}

impl<T: Sample> Sample for BTreeMap<String, T> {
    fn sample(random: &mut TestRng) -> Self {
        let names: Vec<_> = samples(random);
        names.into_iter().map(|name| (name, T::sample(random))).collect()
    }
}

impl<U: Unit, const MIN: u64, const MAX: u64> Sample for Bounded<U, MIN, MAX> {
    fn sample(random: &mut TestRng) -> Self {
        Self::new(random.random_range(MIN..=MAX)).unwrap()
    }
}

impl Sample for Processors {
    fn sample(random: &mut TestRng) -> Self {
        let numbers: Vec<_> =
            (0..random.random_range(0..4)).map(|_| random.random_range(0..1024)).collect();
        Self::from(&*numbers)
    }
}

impl Sample for DoorbellModel {
    fn sample(random: &mut TestRng) -> Self {
        if random.random() { Self::Dedicated } else { Self::Global }
    }
}

impl Sample for Connector {
    fn sample(random: &mut TestRng) -> Self {
        [Self::Virtual, Self::Hdmi, Self::DisplayPort][random.random_range(0..3)]
    }
}

impl Sample for ModeSetting {
    fn sample(random: &mut TestRng) -> Self {
        let [width, height] = [(); 2].map(|()| random.random_range(16..=16_384));
        let rate = random.random_range(23_000..=1_000_000);
        let text = format!("{width}x{height}@{}.{:03}", rate / 1000, rate % 1000);
        Self(Mode::parse(&text).unwrap())
    }
}

impl Sample for Size {
    fn sample(random: &mut TestRng) -> Self {
        let [width, height] = [(); 2].map(|()| random.random_range(1..=2550));
        if random.random() { Self { width, height } } else { Self::default() }
    }
}

impl Sample for Rotation {
    fn sample(random: &mut TestRng) -> Self {
        if random.random() { Self::Watch } else { Self::Remap }
    }
}

impl Sample for LinkPower {
    fn sample(random: &mut TestRng) -> Self {
        if random.random() { Self::Always } else { Self::WhenNeeded }
    }
}

impl Sample for KernelSupport {
    fn sample(random: &mut TestRng) -> Self {
        [Self::Auto, Self::Gpu, Self::Off][random.random_range(0..3)]
    }
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(config in Just(()).prop_perturb(|(), mut random| Config::sample(&mut random))) {
        let mut file = ConfigFile::default();
        file.config = config;
        let printed = file.to_toml().unwrap();
        prop_assert_eq!(toml::from_str::<Config>(&printed).unwrap(), file.config, "{}", printed);
    }
}
