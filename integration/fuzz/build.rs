// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has the linker put the program with libFuzzer between libFuzzer and the code that tells it of counters
//! (`fuzz_targets/counters.rs`).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var_os("CARGO_FEATURE_LIBFUZZER").is_some() {
        for name in ["__sanitizer_cov_8bit_counters_init", "__sanitizer_cov_pcs_init"] {
            println!("cargo::rustc-link-arg-tests=-Wl,--wrap={name}");
        }
    }
}
