//! What the random tests share: how many cases, and where a failure is kept.

use proptest::test_runner::{Config, FailurePersistence, FileFailurePersistence};

/// `cases` unless `PROPTEST_CASES` says otherwise, and two under Miri, which interprets them.
///
/// A failing case is printed in its smallest form, and its seed is kept in `<test>.regressions`
/// beside the test: running the test again replays it before anything else.
pub(crate) fn cases(cases: u32) -> Config {
    let asked_for = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let cases = asked_for.unwrap_or(if cfg!(miri) { 2 } else { cases });
    let file: Box<dyn FailurePersistence> =
        Box::new(FileFailurePersistence::WithSource("regressions"));
    let failure_persistence = (!cfg!(miri)).then_some(file);
    Config { cases, failure_persistence, ..Config::default() }
}
