//! How much may happen without asking.

/// What happens to calls that no rule speaks about, from strict to free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ApprovalMode {
    /// Only reading.
    Plan,
    /// Reading; everything else asks.
    #[default]
    Default,
    /// Reading and editing; commands ask.
    AutoEdit,
    /// Everything.
    Yolo,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an approval mode; there are `plan`, `default`, `auto-edit` and `yolo`")]
pub struct UnknownMode(pub String);

impl ApprovalMode {
    pub const NAMES: [&'static str; 4] = ["plan", "default", "auto-edit", "yolo"];

    /// Reads a mode's name, or the name another system has for it.
    pub fn parse(name: &str) -> Result<ApprovalMode, UnknownMode> {
        match name {
            "plan" => Ok(ApprovalMode::Plan),
            "default" | "dontAsk" => Ok(ApprovalMode::Default),
            "auto-edit" | "auto_edit" | "autoedit" | "autoEdit" | "acceptEdits" => Ok(ApprovalMode::AutoEdit),
            "yolo" | "bypassPermissions" => Ok(ApprovalMode::Yolo),
            other => Err(UnknownMode(other.to_owned())),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            ApprovalMode::Plan => "plan",
            ApprovalMode::Default => "default",
            ApprovalMode::AutoEdit => "auto-edit",
            ApprovalMode::Yolo => "yolo",
        }
    }
}
