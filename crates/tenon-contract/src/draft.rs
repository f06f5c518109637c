//! The drafts of JSON Schema that a contract may be written in, and how `$schema` names them.

/// In the order of their publication, so that `<` means older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draft {
    Draft04,
    Draft06,
    Draft07,
    Draft2019,
    Draft2020,
}

impl Draft {
    pub const ALL: [Draft; 5] =
        [Draft::Draft2020, Draft::Draft2019, Draft::Draft07, Draft::Draft06, Draft::Draft04];

    /// What a schema without `$schema` is written in.
    pub const DEFAULT: Draft = Draft::Draft2020;

    /// The draft a `$schema` value names. Both `http` and `https` are in use, with and without the `#`.
    pub fn from_uri(uri: &str) -> Option<Draft> {
        let uri = uri.trim_end_matches('#').trim_end_matches('/');
        let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"))?;
        Draft::ALL.into_iter().find(|draft| draft.uri().split_once("://").is_some_and(|(_, own)| own == rest))
    }

    pub fn uri(self) -> &'static str {
        match self {
            Draft::Draft04 => "http://json-schema.org/draft-04/schema",
            Draft::Draft06 => "http://json-schema.org/draft-06/schema",
            Draft::Draft07 => "http://json-schema.org/draft-07/schema",
            Draft::Draft2019 => "https://json-schema.org/draft/2019-09/schema",
            Draft::Draft2020 => "https://json-schema.org/draft/2020-12/schema",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Draft::Draft04 => "draft-04",
            Draft::Draft06 => "draft-06",
            Draft::Draft07 => "draft-07",
            Draft::Draft2019 => "2019-09",
            Draft::Draft2020 => "2020-12",
        }
    }

    /// Up to draft-07 a `$ref` makes its neighbours be ignored.
    pub(crate) fn ref_hides_siblings(self) -> bool {
        self <= Draft::Draft07
    }

    pub(crate) fn engine(self) -> jsonschema::Draft {
        match self {
            Draft::Draft04 => jsonschema::Draft::Draft4,
            Draft::Draft06 => jsonschema::Draft::Draft6,
            Draft::Draft07 => jsonschema::Draft::Draft7,
            Draft::Draft2019 => jsonschema::Draft::Draft201909,
            Draft::Draft2020 => jsonschema::Draft::Draft202012,
        }
    }
}
