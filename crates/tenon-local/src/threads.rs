//! How many threads a model gets.

/// More than this gains nothing: the memory is the limit.
const MAX_THREADS: usize = 8;

/// `cores` is what this process may use, `load` how many programs want a core right now: what they use is left to
/// them, but for one.
pub fn choose_threads(cores: usize, load: f64) -> usize {
    let busy = if load.is_finite() && load > 0.0 { load.round() as usize } else { 0 };
    cores.saturating_sub(busy).clamp(1, MAX_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_use_is_left_to_them() {
        for (cores, load, threads) in [
            (2, 0.0, 2),
            (2, 0.4, 2),
            (2, 1.2, 1),
            (2, 30.0, 1),
            (16, 0.0, 8),
            (16, 10.0, 6),
            (1, 0.0, 1),
            (4, f64::NAN, 4),
        ] {
            assert_eq!(choose_threads(cores, load), threads, "{cores} {load}");
        }
    }
}
