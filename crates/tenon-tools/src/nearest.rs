//! Which of these names was probably meant?

/// Below this likeness a suggestion is noise.
const LIKELY: f64 = 0.6;

pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    names
        .into_iter()
        .map(|name| (likeness(wanted, name), name))
        .filter(|(score, _)| *score >= LIKELY)
        .max_by(|(a, left), (b, right)| a.total_cmp(b).then_with(|| right.cmp(left)))
        .map(|(_, name)| name)
}

pub(crate) fn likeness(a: &str, b: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(&a.to_lowercase(), &b.to_lowercase())
}
