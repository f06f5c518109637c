//! What the crate would otherwise have to ask the system for. The binary fills it in once.

use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Clone)]
pub struct Surroundings {
    pub env: BTreeMap<String, String>,
    pub home: Option<PathBuf>,
    /// Where user settings and trust live. `None` when there is neither `TENON_HOME` nor a home.
    pub tenon_home: Option<PathBuf>,
    /// The folder the run works in (after `-C`).
    pub cwd: PathBuf,
}

impl Surroundings {
    /// `tenon_home` is `TENON_HOME` (against `cwd` when relative), else `.tenon` in the home folder. There
    /// is no fallback below `cwd`: a cloned repository must never pass for the user's own settings.
    pub fn new(env: BTreeMap<String, String>, home: Option<PathBuf>, cwd: PathBuf) -> Surroundings {
        let named = env.get("TENON_HOME").filter(|value| !value.is_empty()).map(|value| cwd.join(value));
        let tenon_home = named.or_else(|| home.as_ref().map(|home| home.join(".tenon")));
        Surroundings { env, home, tenon_home, cwd }
    }

    pub fn user_settings(&self) -> Option<PathBuf> {
        self.tenon_home.as_ref().map(|folder| folder.join("settings.json"))
    }
}

/// The environment holds keys: only the names are shown.
impl std::fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings")
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("home", &self.home)
            .field("tenon_home", &self.tenon_home)
            .field("cwd", &self.cwd)
            .finish()
    }
}
