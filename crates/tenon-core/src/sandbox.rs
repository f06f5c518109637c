//! How far shell commands are confined: what was asked for, and what is in force.

/// What is asked for, from free to strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxMode {
    Off,
    /// What the kernel can do.
    #[default]
    Auto,
    /// Everything, or the run fails.
    Require,
}

impl SandboxMode {
    pub const NAMES: [&'static str; 3] = ["auto", "off", "require"];

    pub fn parse(name: &str) -> Option<SandboxMode> {
        match name {
            "auto" => Some(SandboxMode::Auto),
            "off" => Some(SandboxMode::Off),
            "require" => Some(SandboxMode::Require),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            SandboxMode::Off => "off",
            SandboxMode::Auto => "auto",
            SandboxMode::Require => "require",
        }
    }
}

/// Whether commands reach the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkAccess {
    #[default]
    Allowed,
    Denied,
}

impl NetworkAccess {
    pub const NAMES: [&'static str; 2] = ["allow", "deny"];

    pub fn parse(name: &str) -> Option<NetworkAccess> {
        match name {
            "allow" => Some(NetworkAccess::Allowed),
            "deny" => Some(NetworkAccess::Denied),
            _ => None,
        }
    }
}

/// What binds the commands of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxState {
    /// Nothing, as asked for.
    #[default]
    Off,
    /// Nothing: this system cannot.
    Unavailable,
    /// Files are confined.
    Files,
    /// Files are confined, and there is no network.
    FilesAndNetwork,
}

impl SandboxState {
    pub fn name(self) -> &'static str {
        match self {
            SandboxState::Off => "off",
            SandboxState::Unavailable => "unavailable",
            SandboxState::Files => "files",
            SandboxState::FilesAndNetwork => "files+network",
        }
    }
}
