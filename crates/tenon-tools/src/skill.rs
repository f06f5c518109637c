//! `skill`: instructions that the user or the project wrote for work of one kind. Where skills come from is
//! `tenon-config`'s to say; here they are listed to the model and handed out.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};

use crate::args::{ArgReader, Refusal, outcome};
use crate::nearest::nearest;

/// Every description is part of every request.
const LISTED_CHARS: usize = 300;

/// One skill, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    pub name: String,
    /// When it is of use.
    pub description: String,
    pub instructions: String,
    /// Where its other files are.
    pub folder: PathBuf,
}

pub(crate) struct SkillTool {
    spec: Arc<ToolSpec>,
    skills: Vec<Skill>,
}

impl SkillTool {
    pub fn new(skills: Vec<Skill>) -> SkillTool {
        let mut description = "Hands you the instructions for work of one kind. Ask for a skill when its \
                               description fits what you are to do, before you begin. There are:"
            .to_owned();
        for skill in &skills {
            let about = crate::hook_reply::shortened(&skill.description, LISTED_CHARS);
            description.push_str(&format!("\n- {}: {about}", skill.name));
        }
        let names: Vec<&str> = skills.iter().map(|skill| skill.name.as_str()).collect();
        let spec = ToolSpec {
            name: "skill".to_owned(),
            parameters: json!({
                "type": "object",
                "properties": {
                    "skill": { "type": "string", "enum": names, "description": "The skill's name." },
                    "args": { "type": "string", "description": "What to apply it to." }
                },
                "required": ["skill"]
            }),
            description,
            kind: ToolKind::Read,
        };
        SkillTool { spec: Arc::new(spec), skills }
    }

    fn hand_out(&self, args: &Args) -> Result<ToolOutcome, Refusal> {
        let args = ArgReader::new(&self.spec, args);
        let name = args.filled_text("skill")?.trim();
        let given = args.optional_text("args")?.unwrap_or_default().trim();
        let Some(skill) = self.skills.iter().find(|skill| skill.name == name) else {
            let names = self.skills.iter().map(|skill| skill.name.as_str());
            let known =
                self.skills.iter().map(|skill| format!("`{}`", skill.name)).collect::<Vec<_>>().join(", ");
            let meant =
                nearest(name, names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(Refusal::arguments(format!("There is no skill `{name}`{meant} There are: {known}.")));
        };
        let mut text = format!(
            "The skill `{}`. Its files are in {}\n\n{}",
            skill.name,
            skill.folder.display(),
            skill.instructions.replace("$ARGUMENTS", given)
        );
        if !given.is_empty() && !skill.instructions.contains("$ARGUMENTS") {
            text.push_str(&format!("\n\nApply it to: {given}"));
        }
        Ok(ToolOutcome { display: Some(format!("Skill {}", skill.name)), ..ToolOutcome::ok(text) })
    }
}

impl Tool for SkillTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, _ctx: ToolCtx, args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async move { outcome(self.hand_out(&args)) })
    }
}
