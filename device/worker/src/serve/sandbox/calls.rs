// SPDX-License-Identifier: MIT OR Apache-2.0

//! The system calls that a confined process may make, and with which arguments. The table in `docs/threat-model.md` says
//! of each why it is needed, and what it is good for to somebody who has taken the process over; a test compares the two.

use super::Confined;
use anyhow::Context;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use std::collections::BTreeMap;

/// A system call, with the arguments that some processes may give it.
struct Call {
    name: &'static str,
    number: i64,
    whose: &'static [Confined],
    /// Any arguments, or those that all conditions of one of these lists allow.
    any_of: &'static [&'static [Argument]],
}

/// What an argument must be.
#[derive(Clone, Copy)]
enum Argument {
    /// The argument of this index, of which Linux takes 32 bits, is this number.
    Is(u8, i32),
    /// Of the argument of this index, of which Linux takes 64 bits, these bits are set and no others but those which may be.
    Has { index: u8, bits: i32, and_may: i32 },
    /// The argument of this index is the process's own ID.
    IsItself(u8),
}

use Argument::{Has, Is, IsItself};

const ALL: &[Confined] = &[Confined::Kernels, Confined::Gpu, Confined::Video, Confined::Keys];
const KERNELS: &[Confined] = &[Confined::Kernels, Confined::Gpu];
const GPU: &[Confined] = &[Confined::Gpu];
const VIDEO: &[Confined] = &[Confined::Video];
const KEYS: &[Confined] = &[Confined::Keys];
/// Those that have a guest's memory.
const GUESTS: &[Confined] = &[Confined::Kernels, Confined::Gpu, Confined::Video];

/// Memory that may be loaded and stored, and no code.
const DATA: i32 = libc::PROT_READ | libc::PROT_WRITE;
const CODE: i32 = DATA | libc::PROT_EXEC;
/// Memory of the process's own, which its limit counts.
const OWN: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
/// How an allocator may ask for it: without reserving it, or as a stack that does not grow.
const AS_WELL: i32 = libc::MAP_NORESERVE | libc::MAP_STACK;

const fn protection(most: i32) -> Argument {
    Has { index: 2, bits: 0, and_may: most }
}

const OWN_MEMORY: Argument = Has { index: 3, bits: OWN, and_may: AS_WELL };
/// A file that the process has. An address is given for the window alone, which nothing else is in.
const FILES: Argument = Has { index: 3, bits: libc::MAP_SHARED, and_may: libc::MAP_FIXED };

/// A request of NVIDIA's driver: its type, the second byte, is `F`. Direction, length and number may be any.
const OF_NVIDIA: Argument = Has { index: 1, bits: 0x4600, and_may: !0xFF00 };

const fn futex(operation: i32) -> [Argument; 1] {
    [Has {
        index: 1,
        bits: operation,
        and_may: libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME,
    }]
}

const CALLS: &[Call] = &[
    any("recvmsg", libc::SYS_recvmsg, ALL),
    any("sendmsg", libc::SYS_sendmsg, ALL),
    any("close", libc::SYS_close, ALL),
    any("pread64", libc::SYS_pread64, ALL),
    any("pwrite64", libc::SYS_pwrite64, KEYS),
    only("write", libc::SYS_write, ALL, &[&[Is(0, 1)], &[Is(0, 2)]]),
    only(
        "mmap",
        libc::SYS_mmap,
        KERNELS,
        &[&[protection(CODE), OWN_MEMORY], &[protection(DATA), FILES]],
    ),
    only(
        "mmap",
        libc::SYS_mmap,
        VIDEO,
        &[&[protection(DATA), OWN_MEMORY], &[protection(DATA), FILES]],
    ),
    only("mmap", libc::SYS_mmap, KEYS, &[&[protection(DATA), OWN_MEMORY]]),
    only("mprotect", libc::SYS_mprotect, KERNELS, &[&[protection(CODE)]]),
    only("mprotect", libc::SYS_mprotect, VIDEO, &[&[protection(DATA)]]),
    any("munmap", libc::SYS_munmap, ALL),
    only("madvise", libc::SYS_madvise, ALL, &[&[Is(2, libc::MADV_DONTNEED)]]),
    any("brk", libc::SYS_brk, ALL),
    only(
        "futex",
        libc::SYS_futex,
        ALL,
        &[
            &futex(libc::FUTEX_WAIT),
            &futex(libc::FUTEX_WAKE),
            &futex(libc::FUTEX_WAIT_BITSET),
            &futex(libc::FUTEX_WAKE_BITSET),
        ],
    ),
    only(
        "openat",
        libc::SYS_openat,
        GPU,
        &[&[Has { index: 2, bits: libc::O_RDWR, and_may: libc::O_CLOEXEC }]],
    ),
    only("ioctl", libc::SYS_ioctl, GPU, &[&[OF_NVIDIA]]),
    only("fcntl", libc::SYS_fcntl, GPU, &[&[Is(1, libc::F_GETFD)]]),
    any("poll", libc::SYS_poll, GUESTS),
    any("sched_yield", libc::SYS_sched_yield, GUESTS),
    any("sched_getaffinity", libc::SYS_sched_getaffinity, GUESTS),
    any("clock_gettime", libc::SYS_clock_gettime, GUESTS),
    any("clock_nanosleep", libc::SYS_clock_nanosleep, GUESTS),
    any("getrandom", libc::SYS_getrandom, GUESTS),
    any("getpid", libc::SYS_getpid, ALL),
    any("gettid", libc::SYS_gettid, ALL),
    only("tgkill", libc::SYS_tgkill, ALL, &[&[IsItself(0), Is(2, libc::SIGABRT)]]),
    any("rt_sigreturn", libc::SYS_rt_sigreturn, ALL),
    any("rt_sigprocmask", libc::SYS_rt_sigprocmask, ALL),
    any("rt_sigaction", libc::SYS_rt_sigaction, ALL),
    any("sigaltstack", libc::SYS_sigaltstack, ALL),
    any("restart_syscall", libc::SYS_restart_syscall, ALL),
    any("exit", libc::SYS_exit, ALL),
    any("exit_group", libc::SYS_exit_group, ALL),
];

const fn any(name: &'static str, number: i64, whose: &'static [Confined]) -> Call {
    only(name, number, whose, &[])
}

const fn only(
    name: &'static str,
    number: i64,
    whose: &'static [Confined],
    any_of: &'static [&'static [Argument]],
) -> Call {
    Call { name, number, whose, any_of }
}

impl Call {
    fn rules(&self) -> anyhow::Result<Vec<SeccompRule>> {
        let rule = |all: &&[Argument]| {
            let conditions: Result<Vec<_>, _> = all.iter().map(|one| one.condition()).collect();
            Ok(SeccompRule::new(conditions?)?)
        };
        self.any_of.iter().map(rule).collect()
    }
}

impl Argument {
    fn condition(self) -> Result<SeccompCondition, seccompiler::BackendError> {
        use SeccompCmpArgLen::{Dword, Qword};
        // A number of C is as wide as Linux takes it, so its sign does not matter.
        let wide = |bits: i32| u64::from(bits.cast_unsigned());
        match self {
            Is(index, number) => {
                SeccompCondition::new(index, Dword, SeccompCmpOp::Eq, wide(number))
            }
            Has { index, bits, and_may } => {
                let rest = SeccompCmpOp::MaskedEq(!wide(and_may));
                SeccompCondition::new(index, Qword, rest, wide(bits))
            }
            IsItself(index) => {
                let own = u64::from(std::process::id());
                SeccompCondition::new(index, Dword, SeccompCmpOp::Eq, own)
            }
        }
    }
}

/// The filter of such a process. What it does not allow fails with `EPERM`.
pub(super) fn filter(confined: Confined) -> anyhow::Result<BpfProgram> {
    let mut rules = BTreeMap::new();
    for call in CALLS.iter().filter(|call| call.whose.contains(&confined)) {
        let of_call = call.rules().with_context(|| format!("cannot filter {}", call.name))?;
        rules.insert(call.number, of_call);
    }
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let target = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, refused, SeccompAction::Allow, target)?.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::BTreeSet;

    const DOCUMENT: &str = include_str!("../../../../../docs/threat-model.md");
    const HEADING: &str = "### The system calls of workers";

    /// The rows of the document's table: name and whose; what each is needed for, and what it can do at worst, are not
    /// empty.
    fn rows() -> BTreeSet<(String, String)> {
        let (_, section) = DOCUMENT.split_once(HEADING).unwrap();
        let section = section.split("\n#").next().unwrap();
        let rows = section.lines().filter(|line| line.starts_with("| `"));
        let rows = rows.map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [name, whose, _arguments, why, worst] = cells[..] else { panic!("{row}") };
            assert!(!why.is_empty() && !worst.is_empty(), "{row}");
            (name.trim_matches('`').to_owned(), whose.to_owned())
        });
        let all: Vec<_> = rows.collect();
        let set: BTreeSet<_> = all.iter().cloned().collect();
        assert_eq!(set.len(), all.len(), "a row stands twice");
        set
    }

    #[test]
    fn the_document_has_a_row_for_each_call_and_no_other() {
        let mut calls = BTreeSet::new();
        for call in CALLS {
            let whose: Vec<_> =
                call.whose.iter().map(|whose| format!("{whose:?}").to_lowercase()).collect();
            calls.insert((call.name.to_owned(), whose.join(", ")));
        }
        let documented = rows();
        assert_eq!(documented, calls);
    }

    #[test]
    fn no_process_has_two_entries_for_a_call() {
        for confined in Confined::value_variants() {
            let numbers: Vec<_> = CALLS
                .iter()
                .filter(|call| call.whose.contains(confined))
                .map(|call| call.number)
                .collect();
            let unique: BTreeSet<_> = numbers.iter().collect();
            assert_eq!(unique.len(), numbers.len(), "{confined:?}");
            filter(*confined).unwrap();
        }
    }
}
