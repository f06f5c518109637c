//! Chooses the next token from the scores: the best one, or one by chance that a seed makes repeatable.

/// Chance is limited to the best few: the long tail of a small model is noise.
const TOP: usize = 40;

/// How much is left to chance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// Always the best.
    Greedy,
    Chance {
        temperature: f32,
        /// Of the chance there is, how much goes to the best: what is beyond is never chosen.
        top_p: f32,
        seed: u64,
    },
}

pub(crate) struct Sampler {
    sampling: Sampling,
    state: u64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling) -> Sampler {
        let state = match sampling {
            Sampling::Greedy => 0,
            Sampling::Chance { seed, .. } => seed,
        };
        Sampler { sampling, state }
    }

    /// One of the tokens that are `allowed`; `None` when none is.
    pub(crate) fn choose(&mut self, scores: &[f32], allowed: impl Fn(u32) -> bool) -> Option<u32> {
        let candidates = (0..scores.len() as u32).filter(|token| allowed(*token));
        match self.sampling {
            Sampling::Greedy => {
                let mut best: Option<(u32, f32)> = None;
                for token in candidates {
                    let score = scores[token as usize];
                    // Not a number is worse than any.
                    if best.is_none_or(|(_, most)| score > most || most.is_nan()) {
                        best = Some((token, score));
                    }
                }
                best.map(|(token, _)| token)
            }
            Sampling::Chance { temperature, top_p, .. } => {
                self.by_chance(scores, candidates, temperature, top_p)
            }
        }
    }

    fn by_chance(
        &mut self,
        scores: &[f32],
        candidates: impl Iterator<Item = u32>,
        temperature: f32,
        top_p: f32,
    ) -> Option<u32> {
        let mut best: Vec<(f32, u32)> = Vec::with_capacity(TOP + 1);
        for token in candidates {
            let score =
                Some(scores[token as usize]).filter(|score| !score.is_nan()).unwrap_or(f32::NEG_INFINITY);
            if best.len() == TOP && best.last().is_some_and(|(least, _)| score <= *least) {
                continue;
            }
            let place = best.partition_point(|(other, _)| *other >= score);
            best.insert(place, (score, token));
            best.truncate(TOP);
        }
        let most = best.first()?.0;
        let weight =
            |score: f32| if score == most { 1.0 } else { ((score - most) / temperature.max(1e-3)).exp() };
        let total: f32 = best.iter().map(|(score, _)| weight(*score)).sum();
        let mut kept = 0.0;
        let within = best.iter().take_while(|(score, _)| {
            let more = kept < total * top_p;
            kept += weight(*score);
            more
        });
        let count = within.count().max(1);
        best.truncate(count);
        let total: f32 = best.iter().map(|(score, _)| weight(*score)).sum();
        let mut point = self.unit() * total;
        for (score, token) in &best {
            point -= weight(*score);
            if point < 0.0 {
                return Some(*token);
            }
        }
        best.first().map(|(_, token)| *token)
    }

    /// From 0 to 1 (SplitMix64).
    fn unit(&mut self) -> f32 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        (bits >> 40) as f32 / (1_u64 << 24) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_that_is_allowed() {
        let mut greedy = Sampler::new(Sampling::Greedy);
        let scores = [f32::NAN, 1.0, 5.0, 3.0];
        assert_eq!(greedy.choose(&scores, |_| true), Some(2));
        assert_eq!(greedy.choose(&scores, |token| token != 2), Some(3));
        assert_eq!(greedy.choose(&scores, |token| token == 0), Some(0));
        assert_eq!(greedy.choose(&scores, |_| false), None);
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let scores: Vec<f32> = (0..100).map(|token| (token % 7) as f32 * 0.1).collect();
        let draw = |seed| {
            let mut sampler = Sampler::new(Sampling::Chance { temperature: 1.0, top_p: 1.0, seed });
            (0..20).map(|_| sampler.choose(&scores, |token| token % 2 == 0)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut sure = Sampler::new(Sampling::Chance { temperature: 1.0, top_p: 0.0, seed: 4 });
        assert_eq!(sure.choose(&[0.0, 2.0, 1.0], |_| true), Some(1), "only the best is left");
        assert!(draw(3).iter().all(|token| token.is_some_and(|token| token % 2 == 0)));
    }
}
