// SPDX-License-Identifier: MIT OR Apache-2.0

//! The rules of rooms on small made-up crates.

use super::edges::{Edges, Graph};
use super::figures::MOST_IN_FOLDER;
use super::*;
use std::fs;

/// A crate of these files, with these floors, if any.
fn crate_of(files: &[(&str, &str)], floors: &str) -> Figures {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let named = if floors.is_empty() { "" } else { "made-up = " };
    let table: Table = toml::from_str(&format!("[crates]\n{named}{floors}")).unwrap();
    let roots = [folder.path().join("lib.rs")];
    Figures::of("made-up", folder.path(), &roots, table.crates.get("made-up"), Vec::new()).unwrap()
}

/// The edges of a crate by imports, as `from -> to: paths`.
fn edges(files: &[(&str, &str)]) -> Vec<String> {
    let graph = crate_of(files, "").graph;
    arrows(&graph, &graph.imports)
}

/// The edges of a crate that are there by calls alone, as `from -> to: methods`.
fn calls(files: &[(&str, &str)]) -> Vec<String> {
    let mut graph = crate_of(files, "").graph;
    graph.calls.values_mut().for_each(|names| names.retain(|name| name.starts_with('.')));
    graph.calls.retain(|_, names| !names.is_empty());
    arrows(&graph, &graph.calls)
}

fn arrows(graph: &Graph, edges: &Edges) -> Vec<String> {
    let arrow = |((from, to), paths): (&(usize, usize), &std::collections::BTreeSet<String>)| {
        let paths: Vec<_> = paths.iter().map(String::as_str).collect();
        let (from, to) = (graph.files[*from].display(), graph.files[*to].display());
        format!("{from} -> {to}: {}", paths.join(" "))
    };
    edges.iter().map(arrow).collect()
}

#[test]
fn an_edge_leads_to_the_file_that_defines_a_name_and_not_to_those_that_pass_it_on() {
    let found = edges(&[
        ("lib.rs", "mod fence; mod queue; pub use fence::Fence;"),
        ("fence/mod.rs", "mod local; pub use local::*; pub use self::local::Slot as Place;"),
        ("fence/local.rs", "pub struct Fence; pub struct Slot; pub(crate) fn signal() {}"),
        (
            "queue.rs",
            "use crate::Fence; use super::fence::{self, Place};
            fn all(_: Fence, _: Place) { fence::signal() }",
        ),
    ]);
    let expected = "queue.rs -> fence/local.rs: Fence Place crate::Fence fence::signal \
                    super::fence::Place";
    assert_eq!(found, [expected]);
}

#[test]
fn what_is_named_in_the_code_alone_is_found() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "pub struct A; impl A { pub fn new() {} } pub enum Kind { One } pub trait T {}"),
        ("b.rs", "fn f() { assert!(matches!(g(), Some(crate::a::Kind::One))); }"),
        (
            "c.rs",
            "use super::*; impl a::T for u8 {} fn f(kind: &a::Kind) { let a::Kind::One = kind; }",
        ),
    ]);
    assert_eq!(
        found,
        ["b.rs -> a.rs: crate::a::Kind::One", "c.rs -> a.rs: a::Kind a::Kind::One a::T"]
    );
}

#[test]
fn a_function_of_a_type_is_defined_by_the_file_that_implements_it() {
    let found = edges(&[
        ("lib.rs", "mod kernel; mod power;"),
        (
            "kernel.rs",
            "pub struct Kernel; impl Kernel { fn run(&mut self) { Self::suspend(self) } }",
        ),
        ("power.rs", "use crate::kernel::Kernel; impl Kernel { pub fn suspend(&mut self) {} }"),
    ]);
    assert_eq!(
        found,
        [
            "kernel.rs -> power.rs: Self::suspend",
            "power.rs -> kernel.rs: Kernel crate::kernel::Kernel"
        ]
    );
}

#[test]
fn declarations_and_tests_are_no_edges() {
    let found = edges(&[
        ("lib.rs", "mod a; mod b; #[cfg(test)] mod tests;"),
        ("a.rs", "pub(in crate::a) struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
        ("b.rs", "pub struct B; #[cfg(test)] impl B { fn f(_: crate::a::A) {} }"),
    ]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_macro_is_defined_by_its_file_and_names_what_its_rules_do() {
    let found = edges(&[
        ("lib.rs", "#[macro_use] mod opened; mod code; mod user;"),
        (
            "opened.rs",
            "macro_rules! opened { ($name:ident) => { struct $name($crate::code::Code); } }",
        ),
        ("code.rs", "pub struct Code;"),
        ("user.rs", "opened! { pub struct Value } fn f(_: Value) {}"),
    ]);
    assert_eq!(found, ["opened.rs -> code.rs: crate::code::Code", "user.rs -> opened.rs: opened!"]);
}

/// Files `a` to `e`, where each names the next and the last one the first.
const ROUND: [(&str, &str); 6] = [
    ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
    ("a.rs", "pub struct A; use crate::b::B;"),
    ("b.rs", "pub struct B; use crate::c::C;"),
    ("c.rs", "pub struct C; use crate::d::D;"),
    ("d.rs", "pub struct D; use crate::e::E;"),
    ("e.rs", "pub struct E; pub struct F; use crate::a::A;"),
];

#[test]
fn a_circle_is_reported_with_the_cut_that_opens_it() {
    let figures = crate_of(&ROUND, "");
    assert_eq!(figures.largest_circle(), 5);
    let broken = report::broken_rules(&figures);
    assert!(broken.contains("a circle of 5 files: a.rs, b.rs, c.rs, d.rs, e.rs"), "{broken}");
    assert_eq!(broken.matches("  cut ").count(), 1, "{broken}");

    let mut few = ROUND;
    few[3].1 = "pub struct C; use crate::a::A;";
    let figures = crate_of(&few, "");
    assert_eq!(figures.largest_circle(), 3);
    assert!(!report::broken_rules(&figures).contains("circle"));
    assert!(report::all(&figures).contains("a circle of 3 files: a.rs, b.rs, c.rs"));
}

#[test]
fn a_cut_leaves_the_smallest_circles() {
    // One edge each way joins two circles of three: one cut also opens one of those.
    let figures = crate_of(
        &[
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
            ("a.rs", "pub struct A; use crate::b::B;"),
            ("b.rs", "pub struct B; use crate::c::C; use crate::e::E;"),
            ("c.rs", "pub struct C; use crate::a::A;"),
            ("d.rs", "pub struct D; use crate::e::E;"),
            ("e.rs", "pub struct E; use crate::f::F;"),
            ("f.rs", "pub struct F; use crate::d::D; use crate::c::C;"),
        ],
        "",
    );
    assert_eq!(figures.largest_circle(), 6);
    // Without `e -> f` or the like one circle of three is left, and without `b -> e` two.
    let broken = report::broken_rules(&figures);
    assert_eq!(broken.matches("  cut ").count(), 1, "{broken}");
    assert!(!broken.contains("b.rs -> e.rs") && !broken.contains("f.rs -> c.rs"), "{broken}");
}

#[test]
fn a_full_folder_is_reported() {
    let names: Vec<_> = (0..=MOST_IN_FOLDER).map(|number| format!("m{number}")).collect();
    let root: String = names.iter().map(|name| format!("mod {name};")).collect();
    let paths: Vec<_> = names.iter().map(|name| format!("{name}.rs")).collect();
    let mut files = vec![("lib.rs", root.as_str())];
    files.extend(paths.iter().map(|path| (path.as_str(), "")));
    let broken = report::broken_rules(&crate_of(&files, ""));
    assert!(broken.contains("src has 22 files"), "{broken}");
    files.truncate(MOST_IN_FOLDER);
    let declared: String =
        names[..MOST_IN_FOLDER - 1].iter().map(|n| format!("mod {n};")).collect();
    files[0].1 = &declared;
    let figures = crate_of(&files, "");
    assert_eq!(figures.largest_folder(), MOST_IN_FOLDER);
    assert!(!report::broken_rules(&figures).contains("src has"));
}

/// A crate with a room `low` below the rooms `left` and `right/inner`.
fn three_rooms(low: &str, left: &str, inner: &str) -> Vec<String> {
    let files = [
        ("lib.rs", "mod low; mod left; mod right; pub struct Root; use low::Low;"),
        ("low.rs", low),
        ("left.rs", left),
        ("right/mod.rs", "pub mod inner;"),
        ("right/inner.rs", inner),
    ];
    crate_of(&files, "['low', ['left', 'right']]").floors
}

#[test]
fn arrows_go_down_and_neither_up_nor_aside() {
    let (low, left) = ("pub struct Low;", "pub struct Left; use crate::low::Low;");
    assert_eq!(three_rooms(low, left, "use crate::low::Low;"), [""; 0]);
    assert_eq!(
        three_rooms("pub struct Low; fn f(_: super::left::Left) {}", left, ""),
        ["low.rs (low) names super::left::Left of left.rs (left), on a higher floor"]
    );
    assert_eq!(
        three_rooms(low, left, "use crate::left::Left;"),
        [
            "right/inner.rs (right) names crate::left::Left of left.rs (left), beside it on its floor"
        ]
    );
    assert_eq!(
        three_rooms("pub struct Low; use crate::Root;", left, ""),
        ["low.rs (low) names crate::Root of lib.rs (the root), on a higher floor"]
    );
}

#[test]
fn a_file_without_a_room_and_a_room_without_a_file_are_reported() {
    let files = [("lib.rs", "mod a; mod b;"), ("a.rs", ""), ("b.rs", "")];
    let broken = crate_of(&files, "['a', 'c']").floors;
    assert_eq!(broken.len(), 2, "{broken:?}");
    assert!(broken[0].starts_with("b.rs is in no room"), "{broken:?}");
    assert!(broken[1].starts_with("the room c has no file"), "{broken:?}");
}

#[test]
fn a_crate_without_floors_is_reported() {
    let figures = crate_of(&[("lib.rs", "")], "");
    assert!(report::broken_rules(&figures).contains("has no floors"));
}

#[test]
fn a_room_within_a_room_may_have_a_floor_of_its_own() {
    let files = [
        ("lib.rs", "mod kernel;"),
        ("kernel/mod.rs", "pub mod rules; pub struct Kernel; use rules::Rule;"),
        ("kernel/rules.rs", "pub struct Rule;"),
    ];
    assert_eq!(crate_of(&files, "['kernel/rules', 'kernel']").floors, [""; 0]);
    assert_eq!(crate_of(&files, "['kernel', 'kernel/rules']").floors.len(), 1);
}

#[test]
fn a_file_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("lib.rs");
    fs::write(&root, "mod gone;").unwrap();
    let error = Graph::read(&[root]).unwrap_err();
    assert!(error.contains("gone"), "{error}");
}

/// A crate whose types of `kernel.rs` get their methods in `power.rs` alone, with a file that calls.
fn kernel_with(caller: &str) -> Vec<String> {
    calls(&[
        ("lib.rs", "#[macro_use] mod table; mod kernel; mod power; mod caller; mod other;"),
        ("table.rs", "macro_rules! handlers { ($($name:ident)*) => {} }"),
        ("kernel.rs", "pub struct Kernel { pub timer: Timer } pub struct Timer;"),
        (
            "power.rs",
            "use crate::kernel::{Kernel, Timer};
            impl Kernel { pub fn suspend(&mut self) {} pub fn insert(&mut self) {} }
            impl Timer { pub fn stop(&self) {} }",
        ),
        ("other.rs", "pub struct Other; impl Other { pub fn insert(&mut self) {} }"),
        ("caller.rs", caller),
    ])
}

/// `kernel.rs` above adds no methods itself: this makes each type spread.
const ADDS: &str = "use crate::kernel::{Kernel, Timer};
    impl Kernel { fn run(&mut self) {} } impl Timer { fn begin(&self) {} }";

fn calls_of(code: &str) -> Vec<String> {
    kernel_with(&format!("{ADDS} {code}"))
}

#[test]
fn a_call_leads_to_the_file_that_adds_the_method_to_the_type() {
    let found = ["caller.rs -> power.rs: .suspend()"];
    assert_eq!(calls_of("impl Kernel { fn f(&mut self) { self.suspend() } }"), found);
    assert_eq!(calls_of("fn f(state: &mut Kernel) { state.suspend() }"), found);
    assert_eq!(calls_of("fn f() { let all: Box<Kernel> = g(); all.suspend() }"), found);
    assert_eq!(calls_of("fn f() { run(|state: &mut Kernel| state.suspend()) }"), found);
    assert_eq!(
        calls_of("fn f(of: &Kernel) { of.timer.stop() }"),
        ["caller.rs -> power.rs: .stop()"]
    );
    assert_eq!(calls_of("fn f(of: &mut Kernel) { info!(now = of.suspend(), 3) }"), found);
}

#[test]
fn a_type_of_one_file_and_methods_of_the_same_file_make_no_calls() {
    let of_one = "fn f(kernel: &mut Kernel) { kernel.suspend() }";
    assert_eq!(kernel_with(&format!("use crate::kernel::Kernel; {of_one}")), [""; 0]);
    assert_eq!(calls_of("fn f(kernel: &mut Kernel) { kernel.run() }"), [""; 0]);
    assert_eq!(
        calls_of("#[cfg(test)] mod tests { fn f(k: &mut Kernel) { k.suspend() } }"),
        [""; 0]
    );
}

#[test]
fn the_name_of_a_variable_or_of_the_method_tells_the_type_where_no_declaration_does() {
    let found = ["caller.rs -> power.rs: .insert()"];
    assert_eq!(
        calls_of("fn f() { let Some(kernel) = g() else { return }; kernel.insert() }"),
        found
    );
    assert_eq!(calls_of("fn f() { each(|kernel| kernel.insert()) }"), found);
    // Two types have an `insert`.
    assert_eq!(calls_of("fn f() { each(|it| it.insert()) }"), [""; 0]);
    assert_eq!(calls_of("fn f(kernel: &mut BTreeSet<u8>) { kernel.insert() }"), [""; 0]);
    let found = ["caller.rs -> power.rs: .suspend()"];
    assert_eq!(calls_of("fn f() { each(|it| it.suspend()) }"), found);
    assert_eq!(calls_of("fn f() { g()?.suspend() }"), found);
    // A trait may have declared the method of an unknown receiver.
    assert_eq!(calls_of("trait T { fn suspend(&self); } fn f() { g()?.suspend() }"), [""; 0]);
}

#[test]
fn a_table_made_by_a_macro_of_the_crate_calls_the_methods_that_it_lists() {
    let found = ["caller.rs -> power.rs: .suspend()"];
    assert_eq!(
        calls_of("const ALL: &[u8] = handlers! { Suspend => suspend; Insert => insert; stop };"),
        found
    );
    assert_eq!(calls_of("fn f() { info!(suspend) }"), [""; 0]);
}

/// The broken rule of four files in a circle by calls, if a table records circles of these sizes.
fn circle_by_calls(recorded: &[usize]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    file("lib.rs", "mod of; mod a; mod b; mod c; mod d;");
    file("of.rs", "pub struct Of;");
    for (name, next) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")] {
        let text = format!("use crate::of::Of; impl Of {{ fn {name}(&self) {{ self.{next}() }} }}");
        file(&format!("{name}.rs"), &text);
    }
    let table: Table = toml::from_str("[crates]\nmade-up = [['of', 'a', 'b', 'c', 'd']]").unwrap();
    let roots = [folder.path().join("lib.rs")];
    let floors = Some(&table.crates["made-up"]);
    let figures = Figures::of("made-up", folder.path(), &roots, floors, recorded.to_vec()).unwrap();
    assert_eq!((figures.largest_circle(), figures.largest_circle_by_calls()), (1, 4));
    let text = report::broken_rules(&figures);
    text.lines().filter(|line| line.contains("circle")).collect()
}

#[test]
fn a_circle_by_calls_has_the_recorded_size_exactly() {
    assert!(circle_by_calls(&[]).contains("a circle of 4 files: a.rs, b.rs, c.rs, d.rs"));
    assert_eq!(circle_by_calls(&[4]), "");
    assert!(circle_by_calls(&[5]).contains("have shrunk from [5] to [4]"));
    assert!(circle_by_calls(&[4, 4]).contains("have shrunk from [4, 4] to [4]"));
}
