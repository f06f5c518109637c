//! How many cases a property test tries.

/// `PROPTEST_CASES` where it is set (the full counts), else the number that keeps a usual run short.
///
/// `ProptestConfig::with_cases(cases(128))`; a bare number there would ignore the variable.
pub fn cases(usual: u32) -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}
