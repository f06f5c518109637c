//! Skills that the user or a trusted project wrote: `skills/<name>/SKILL.md` in `$TENON_HOME` and in `.tenon`.
//!
//! A file is front matter (`front_matter.rs`) with `name` and `description`, and a body, which is what the
//! model reads when it asks for the skill. One that is not understood is reported and skipped.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files::{Confine, Found, Size, read_capped};
use crate::front_matter::{FieldValue, read_front_matter};
use crate::problem::{quotable, shown_path};

pub(crate) const SKILLS_FOLDER: &str = "skills";
const SKILL_FILE: &str = "SKILL.md";
/// About 16,000 tokens: more belongs into files that the skill names.
const MAX_SKILL_BYTES: u64 = 64 * 1024;
/// Every description is part of every request.
const MAX_DESCRIPTION_CHARS: usize = 1_000;
const MAX_NAME_CHARS: usize = 64;
/// More than anybody writes by hand.
const MAX_SKILLS: usize = 100;

/// One skill, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFile {
    pub name: String,
    pub description: String,
    pub instructions: String,
    /// Where `SKILL.md` and its other files are.
    pub folder: PathBuf,
}

/// A file that was read and not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RawSkillFile {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// The skills of a folder, by the names of theirs. A folder that is not there has none.
pub(crate) fn read_skill_folder(
    folder: &Path,
    confine: Confine<'_>,
    warnings: &mut Vec<String>,
) -> Vec<RawSkillFile> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut folders: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    if folders.len() > MAX_SKILLS {
        warnings.push(format!(
            "`{}` holds {} skills, and {MAX_SKILLS} are the most; the last ones are skipped",
            shown_path(folder),
            folders.len()
        ));
        folders.truncate(MAX_SKILLS);
    }
    let mut files = Vec::new();
    for folder in folders {
        let path = folder.join(SKILL_FILE);
        match read_capped(&path, MAX_SKILL_BYTES, confine) {
            Ok(Found::Missing) => {}
            Ok(Found::Bytes { bytes, size: Size::Whole }) => files.push(RawSkillFile { folder, bytes }),
            Ok(Found::Bytes { size: Size::Cut { .. }, .. }) => {
                warnings.push(skipped(&path, &format!("it is larger than {} KiB", MAX_SKILL_BYTES / 1024)));
            }
            Err(problem) => warnings.push(skipped(&path, &problem.to_string())),
        }
    }
    files
}

/// Understands what was read; the first skill of a name keeps it.
pub(crate) fn understand_skills(files: &[RawSkillFile], warnings: &mut Vec<String>) -> Vec<SkillFile> {
    let mut skills: Vec<SkillFile> = Vec::new();
    for file in files {
        let path = file.folder.join(SKILL_FILE);
        match understand(file) {
            Ok((skill, _)) if skills.iter().any(|other| other.name == skill.name) => {
                warnings.push(skipped(&path, &format!("another skill is called `{}` too", skill.name)));
            }
            Ok((skill, unused)) => {
                if !unused.is_empty() {
                    let unused: Vec<String> =
                        unused.iter().map(|key| format!("`{}`", quotable(key))).collect();
                    warnings.push(format!(
                        "`{}`: {} of its front matter {} no effect in tenon",
                        shown_path(&path),
                        unused.join(", "),
                        if unused.len() == 1 { "has" } else { "have" }
                    ));
                }
                skills.push(skill);
            }
            Err(why) => warnings.push(skipped(&path, &why)),
        }
    }
    skills
}

/// `higher` over `lower`, by name.
pub(crate) fn overlay_skills(lower: Vec<SkillFile>, higher: Vec<SkillFile>) -> Vec<SkillFile> {
    let mut skills = lower;
    skills.retain(|skill| higher.iter().all(|other| other.name != skill.name));
    skills.extend(higher);
    skills
}

/// The skill, and the keys that mean nothing here.
fn understand(file: &RawSkillFile) -> Result<(SkillFile, Vec<String>), String> {
    let text = std::str::from_utf8(&file.bytes).map_err(|_| "it is not UTF-8")?;
    let matter = read_front_matter(text)
        .map_err(|error| error.to_string())?
        .ok_or("it does not begin with front matter (`---`, then `description:`)")?;
    let mut name = file.folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut description = String::new();
    let mut unused = Vec::new();
    for field in &matter.fields {
        let one = || match &field.value {
            FieldValue::Text(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
            FieldValue::Text(_) | FieldValue::List(_) => {
                Err(format!("line {}: `{}` must be a text", field.line, field.key))
            }
        };
        match field.key {
            "name" => name = one()?,
            "description" => description = one()?,
            other => unused.push(other.to_owned()),
        }
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || !name.chars().all(is_name) || name.chars().count() > MAX_NAME_CHARS {
        return Err(format!(
            "`{}` is no name for a skill: up to {MAX_NAME_CHARS} letters, digits, `-` and `_`",
            quotable(&name)
        ));
    }
    if description.is_empty() {
        return Err("`description` is missing".to_owned());
    }
    if description.chars().count() > MAX_DESCRIPTION_CHARS {
        return Err(format!("`description` is longer than {MAX_DESCRIPTION_CHARS} characters"));
    }
    let instructions = matter.body.trim().to_owned();
    if instructions.is_empty() {
        return Err("nothing follows the front matter".to_owned());
    }
    Ok((SkillFile { name, description, instructions, folder: file.folder.clone() }, unused))
}

fn skipped(path: &Path, why: &str) -> String {
    format!("`{}` is no skill and is skipped: {why}", shown_path(path))
}
