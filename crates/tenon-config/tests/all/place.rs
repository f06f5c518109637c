//! A home and a project in a temporary folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenon_config::{ConfigError, Loaded, ProjectTrust, Settings, Sources, Surroundings, load};

pub struct Place {
    folder: TempDir,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
}

impl Place {
    /// `home/` and `work/` (with a `.git`), the run in `work/`.
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { cwd: folder.path().join("work"), env: BTreeMap::new(), folder };
        fs::create_dir_all(place.path("home")).unwrap();
        fs::create_dir_all(place.path("work/.git")).unwrap();
        place
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        fs::canonicalize(self.folder.path()).unwrap().join(relative)
    }

    pub fn write(&self, relative: &str, text: impl AsRef<[u8]>) {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn user(&self, text: &str) {
        self.write("home/.tenon/settings.json", text);
    }

    pub fn project(&self, text: &str) {
        self.write("work/.tenon/settings.json", text);
    }

    pub fn env(&mut self, name: &str, value: &str) {
        self.env.insert(name.to_owned(), value.to_owned());
    }

    pub fn surroundings(&self) -> Surroundings {
        Surroundings::new(self.env.clone(), Some(self.path("home")), self.cwd.clone())
    }

    pub fn load(&self) -> Loaded {
        self.try_load().unwrap()
    }

    pub fn load_trusted(&self) -> Loaded {
        load(&self.surroundings(), &Sources::all(), ProjectTrust::Granted).unwrap()
    }

    pub fn try_load(&self) -> Result<Loaded, ConfigError> {
        load(&self.surroundings(), &Sources::all(), ProjectTrust::Pinned)
    }

    /// The error, with the temporary folder's name taken out.
    pub fn error(&self) -> String {
        self.relative(&self.try_load().unwrap_err().to_string())
    }

    pub fn relative(&self, message: &str) -> String {
        let folder = fs::canonicalize(self.folder.path()).unwrap();
        message.replace(&format!("{}/", folder.display()), "")
    }
}

/// Settings from text that has no errors and no warnings.
pub fn settings(text: &str) -> Settings {
    let layer = tenon_config::read_settings(text, Path::new("s.json"), tenon_config::Expand::Never);
    assert_eq!((layer.errors, layer.warnings), (vec![], vec![]), "{text}");
    layer.settings
}
