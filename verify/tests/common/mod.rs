//! What the random tests share: how many cases, and where a failure is kept.

use proptest::test_runner::{Config, FileFailurePersistence};

/// `cases` unless `PROPTEST_CASES` says otherwise. A failing case is printed in its smallest form,
/// and its seed is kept in `<test>.regressions` beside the test: running the test again replays it
/// before anything else.
pub(crate) fn cases(cases: u32) -> Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(cases);
    let failure_persistence: Option<Box<dyn proptest::test_runner::FailurePersistence>> =
        if cfg!(miri) {
            None
        } else {
            Some(Box::new(FileFailurePersistence::WithSource("regressions")))
        };
    Config { cases, failure_persistence, ..Config::default() }
}
