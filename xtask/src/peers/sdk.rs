//! An SDK as it is installed drives the binary: one script does all scenarios, each with a model and folders of
//! its own, and says what its user would see.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tenon_testkit::{Reply, Server, Value, Wire, json};

use crate::Failure;
use crate::peers::script::Script;

/// What an SDK is put through, and what must come of it.
pub struct Scenario {
    pub name: &'static str,
    pub replies: Vec<Reply>,
    /// Settings of the user, if any.
    pub settings: Option<Value>,
    pub is_right: fn(&Seen<'_>) -> bool,
}

impl Scenario {
    pub fn new(
        name: &'static str,
        replies: impl IntoIterator<Item = Reply>,
        is_right: fn(&Seen<'_>) -> bool,
    ) -> Scenario {
        Scenario { name, replies: replies.into_iter().collect(), settings: None, is_right }
    }

    pub fn settings(self, settings: Value) -> Scenario {
        Scenario { settings: Some(settings), ..self }
    }
}

/// What there is to judge by.
pub struct Seen<'a> {
    /// What the script said.
    pub saw: &'a Value,
    pub server: &'a Server,
    pub workspace: &'a Path,
}

impl Seen<'_> {
    /// What the model was told of a call, in the request after it.
    pub fn told(&self, call: &str) -> String {
        self.server.requests().get(1).map(|request| request.tool_result(call)).unwrap_or_default()
    }

    /// The tools that the model was offered first.
    pub fn offered(&self) -> Vec<String> {
        let requests = self.server.requests();
        let names = requests.first().map(|request| request.tool_names()).unwrap_or_default();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether a request, counted from 0, has this text in it.
    pub fn was_sent(&self, request: usize, text: &str) -> bool {
        self.server.requests().get(request).is_some_and(|request| request.body.to_string().contains(text))
    }

    /// What a file of the workspace says.
    pub fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.workspace.join(name)).ok()
    }
}

/// The script that drives, in the language of the SDK.
pub struct Driver<'a> {
    pub program: &'a Path,
    pub file: &'a Path,
    pub name: &'static str,
    pub binary: &'a Path,
    /// How the model is reached.
    pub wire: Wire,
}

struct Prepared {
    server: Server,
    workspace: PathBuf,
}

impl Driver<'_> {
    pub fn perform(&self, scenarios: Vec<Scenario>) -> Result<(), Failure> {
        let folder = tempfile::Builder::new().prefix("tenon-sdk-").tempdir()?;
        let mut places = json!({});
        let mut prepared = Vec::new();
        for (number, scenario) in scenarios.iter().enumerate() {
            let server = Server::start(scenario.replies.clone());
            let workspace = self.place(&folder, number, scenario, &server, &mut places)?;
            prepared.push(Prepared { server, workspace });
        }
        let script = Script::start_file(
            self.program,
            self.file,
            self.name,
            [self.binary.as_os_str(), places.to_string().as_ref()],
            [("PYTHONUNBUFFERED", "1")],
        )?;
        let mut failed = Vec::new();
        for _ in &scenarios {
            let line = script.line_after("saw ")?;
            let line: Value = line.parse().map_err(|_| Failure::other(format!("`{line}` is not JSON")))?;
            let saw = &line["saw"];
            let found = scenarios.iter().zip(&prepared).find(|(scenario, _)| line["name"] == scenario.name);
            let Some((scenario, Prepared { server, workspace })) = found else {
                return Err(Failure::other(format!("nobody asked for {}", line["name"])));
            };
            let name = scenario.name;
            if (scenario.is_right)(&Seen { saw, server, workspace }) {
                println!("ok {name}");
            } else {
                println!("FAILED {name}: {saw:#}");
                failed.push(name);
            }
        }
        if failed.is_empty() { Ok(()) } else { Err(Failure::other(failed.join("; "))) }
    }

    /// Folders for a scenario, twice: the second is for what goes on elsewhere.
    fn place(
        &self,
        folder: &TempDir,
        number: usize,
        scenario: &Scenario,
        server: &Server,
        places: &mut Value,
    ) -> Result<PathBuf, Failure> {
        // Not below each other, so that no project is taken for a part of another.
        let workspace = folder.path().join(format!("workspace-{number}"));
        std::fs::create_dir_all(&workspace)?;
        for (suffix, home) in [("", "home"), (" again", "other-home")] {
            let home = folder.path().join(format!("{home}-{number}"));
            std::fs::create_dir_all(home.join(".tenon"))?;
            if let Some(settings) = &scenario.settings {
                std::fs::write(home.join(".tenon").join("settings.json"), settings.to_string())?;
            }
            let mut env = json!({ "HOME": home.display().to_string() });
            for (name, value) in self.wire.env(server) {
                env[name] = value.into();
            }
            places[format!("{}{suffix}", scenario.name)] =
                json!({ "cwd": workspace.display().to_string(), "env": env });
        }
        Ok(workspace)
    }
}
