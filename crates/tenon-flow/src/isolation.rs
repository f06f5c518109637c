//! `options.isolation: worktree`: a step works in a copy of the repository of its own, and its changes become a branch.
//!
//! The copy is a git worktree of the last commit, in a scratch folder, without what is not committed. When the step is over,
//! however it ended, what it changed is committed to a branch named after run and step, and the copy is removed. Nothing is
//! merged: which branches are worth it is for whoever asked. A copy that cannot be committed is left where it is. Other
//! steps start from the same commit; they see each other's results, not each other's files.
//!
//! A judge has a copy too, and begins at the same commit: its prompt says what it judges, and the branches can be read from there.
//! A step that was cut off goes on in the copy that it had: what its agent remembers having done is there.

use std::ffi::OsString;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenon_agent::OwnTools;
use tenon_core::Failure;
use tenon_tools::Permissions;
use tokio::process::Command;

use crate::forget_copies::forget_gone;

/// The value of `options.isolation` that asks for copies.
pub const WORKTREE: &str = "worktree";
/// The same, as version 1 writes it.
pub const WORKTREE_PER_STEP: &str = "worktree-per-step";
/// Asks for nothing, as an absent value does.
pub const NO_ISOLATION: &str = "none";
/// A checkout of a large repository takes a while; a git that waits for a password takes for ever.
const GIT_DEADLINE: Duration = Duration::from_secs(120);
const GONE: &str = "the copy of the repository that the step had worked in is gone, and with it what the step had changed there; its next attempt begins anew, in a new copy";
/// What a step works on is its owner's business.
const PRIVATE: u32 = 0o700;
/// A git that looks at all copies of a repository fails beside one that makes or removes a copy: one at a time.
static COPIES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
/// Other processes may be at it as well. What git then complains about is below this folder.
const RECORDS_OF_COPIES: &str = "worktrees/";
const MAX_TRIES: u32 = 40;
const TRY_AGAIN: Duration = Duration::from_millis(50);
/// What a write that was cut off leaves behind.
const HALF_WRITTEN: &str = ":(glob)**/.tenon-*-*.tmp";
/// A branch of that name may be left of another run.
const MAX_BRANCH_SUFFIX: u32 = 100;

/// What an `options.isolation` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    Nothing,
    Worktree,
    /// Something that only other runners know.
    Unknown,
}

impl Isolation {
    pub fn of(written: Option<&str>) -> Isolation {
        match written {
            None | Some("" | NO_ISOLATION) => Isolation::Nothing,
            Some(WORKTREE | WORKTREE_PER_STEP) => Isolation::Worktree,
            Some(_) => Isolation::Unknown,
        }
    }
}

/// What a caller gives so that steps can work in copies.
#[derive(Clone)]
pub struct Worktrees {
    /// The folder the run works in, inside a repository.
    pub folder: PathBuf,
    /// Copies are made below it. It need not exist.
    pub scratch: PathBuf,
    /// All of git's environment, without secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// Tools and permissions of an agent that works in another folder.
    pub work_in: WorkIn,
}

/// For a folder in a copy, and the copy's top.
pub type WorkIn = Arc<dyn Fn(&Path, &Path) -> Result<FolderTools, Failure> + Send + Sync>;

pub struct FolderTools {
    pub permissions: Permissions,
    pub own_tools: OwnTools,
}

/// A copy while a step works in it.
pub struct Worktree<'a> {
    of: &'a Worktrees,
    /// The top of the repository that was copied.
    top: PathBuf,
    path: PathBuf,
    base: String,
    branch: String,
}

/// What a step that starts now has done before, when its run was cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    Something,
}

/// Whether a repository knew of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Yes,
    No,
}

/// What became of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The step changed nothing.
    Nothing,
    Branch(String),
    /// The changes could not be committed, and are still there.
    Folder {
        path: PathBuf,
        why: String,
    },
}

/// What is in the folder of a run that copies of its last commit will not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncommitted {
    Nothing,
    /// So many files.
    Files(usize),
}

impl Worktrees {
    /// Whether copies can be made at all: a repository, and a commit in it.
    pub async fn check(&self) -> Result<Uncommitted, String> {
        self.git(&self.folder, &["rev-parse", "--show-toplevel"]).await?;
        self.last_commit().await?;
        let changed = self.git(&self.folder, &["status", "--porcelain"]).await?;
        Ok(match changed.lines().count() {
            0 => Uncommitted::Nothing,
            files => Uncommitted::Files(files),
        })
    }

    async fn last_commit(&self) -> Result<String, String> {
        let commit = self.git(&self.folder, &["rev-parse", "--verify", "HEAD^{commit}"]).await;
        commit.map_err(|_| "the repository has no commit".to_owned())
    }

    /// A copy for the step `name` (its key): a new one, or the one that it has worked in.
    pub async fn add(&self, name: &str, before: Before) -> Result<Worktree<'_>, String> {
        let top = PathBuf::from(self.git(&self.folder, &["rev-parse", "--show-toplevel"]).await?);
        let base = self.last_commit().await?;
        let name = legal(name);
        let path = self.scratch.join(&name);
        let shown = path.display().to_string();
        let branch = format!("tenon/{name}");
        let named = format!("refs/heads/{branch}");
        let on_branch = ["rev-parse", "--verify", "--quiet", &named];
        let start = match before {
            Before::Nothing => base.clone(),
            Before::Something if path.exists() => {
                let path = path.canonicalize().map_err(|error| error.to_string())?;
                let here = self.git(&path, &["rev-parse", "--show-toplevel"]).await?;
                if Path::new(&here).canonicalize().is_ok_and(|here| here == path) {
                    self.remove_half_written(&path).await?;
                    let base = self.common(&path, "HEAD", &base).await?;
                    return Ok(Worktree { of: self, top, path, base, branch });
                }
                return Err(GONE.to_owned());
            }
            // It was put away, and the run was cut off before that was kept: what was changed is on the branch.
            Before::Something if path.parent().is_some_and(Path::exists) => {
                match self.git(&top, &on_branch).await {
                    Ok(changed) => changed,
                    // A copy that was put away is forgotten as well. This one is not.
                    Err(_) if self.forget(&top, &path).await? == Known::Yes => return Err(GONE.to_owned()),
                    Err(_) => base.clone(),
                }
            }
            Before::Something => {
                self.forget(&top, &path).await?;
                return Err(GONE.to_owned());
            }
        };
        if path.exists() {
            // Of a run that was cut off before anything was done in it.
            self.on_copies(&top, &["worktree", "remove", "--force", &shown]).await?;
        } else {
            self.forget(&top, &path).await?;
        }
        DirBuilder::new().recursive(true).mode(PRIVATE).create(&self.scratch).map_err(|error| {
            format!("the folder `{}` for copies cannot be made: {error}", self.scratch.display())
        })?;
        // The files come afterwards: many may be copied at a time.
        self.on_copies(&top, &["worktree", "add", "--no-checkout", "--detach", "--quiet", &shown, &start])
            .await?;
        self.git(&path, &["reset", "--hard", "--quiet"]).await?;
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let base = self.common(&path, &start, &base).await?;
        Ok(Worktree { of: self, top, path, base, branch })
    }

    /// A copy that was being made when nobody wanted it any more. What is not there need not be removed.
    pub async fn give_up(&self, name: &str) {
        let path = self.scratch.join(legal(name));
        let shown = path.display().to_string();
        let _ = self.on_copies(&self.folder, &["worktree", "remove", "--force", "--force", &shown]).await;
        let _ = std::fs::remove_dir_all(&path);
        let _ = self.forget(&self.folder, &path).await;
    }

    /// Makes the repository forget a copy whose folder is gone.
    async fn forget(&self, top: &Path, copy: &Path) -> Result<Known, String> {
        let common = self.git(top, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await?;
        let _one_at_a_time = COPIES.lock().await;
        Ok(match forget_gone(Path::new(&common), copy) {
            0 => Known::No,
            _ => Known::Yes,
        })
    }

    async fn remove_half_written(&self, copy: &Path) -> Result<(), String> {
        let left = ["ls-files", "-z", "--others", "--exclude-standard", "--", HALF_WRITTEN];
        for name in self.git(copy, &left).await?.split_terminator('\0') {
            // One that stays is committed with the rest.
            let _ = std::fs::remove_file(copy.join(name));
        }
        Ok(())
    }

    /// The same as [`Self::git`], for what looks at all copies or changes which there are.
    async fn on_copies(&self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        let _one_at_a_time = COPIES.lock().await;
        let mut result = self.git(folder, arguments).await;
        for _ in 1..MAX_TRIES {
            match &result {
                Err(why) if why.contains(RECORDS_OF_COPIES) => tokio::time::sleep(TRY_AGAIN).await,
                _ => break,
            }
            result = self.git(folder, arguments).await;
        }
        result
    }

    /// Where a step began: it may have committed something of its own, and the repository may have moved on.
    async fn common(&self, folder: &Path, head: &str, base: &str) -> Result<String, String> {
        self.git(folder, &["merge-base", head, base]).await
    }

    /// What git wrote, or what it said about what went wrong. No hook of the repository runs.
    async fn git(&self, folder: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .args(["-c", "core.hooksPath=/dev/null", "-c", "commit.gpgSign=false"])
            .args(["-c", "user.name=tenon", "-c", "user.email=tenon@localhost"])
            .args(arguments)
            .current_dir(folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env_remove("GIT_DIR")
            .env_remove("GIT_WORK_TREE")
            .env_remove("GIT_INDEX_FILE")
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = tokio::time::timeout(GIT_DEADLINE, command.output())
            .await
            .map_err(|_| format!("git did not end within {} s", GIT_DEADLINE.as_secs()))?
            .map_err(|error| format!("git cannot be run: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("git failed");
        Err(last.trim().to_owned())
    }
}

impl Worktree<'_> {
    /// Where a folder of the repository is in the copy; the copy's top for one that is elsewhere.
    pub fn place_of(&self, folder: &Path) -> PathBuf {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let top = self.top.canonicalize().unwrap_or_else(|_| self.top.clone());
        let inside = real.strip_prefix(top).map(|rest| self.path.join(rest));
        inside.ok().filter(|place| place.is_dir()).unwrap_or_else(|| self.path.clone())
    }

    /// The top of the copy.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder the step works in.
    pub fn folder(&self) -> PathBuf {
        self.place_of(&self.of.folder)
    }

    /// Keeps what the step changed and removes the copy.
    pub async fn finish(self) -> Kept {
        match self.commit().await {
            Ok(kept) => {
                let shown = self.path.display().to_string();
                // What cannot be removed lies in the scratch folder, which is the caller's to remove.
                let _ = self.of.on_copies(&self.top, &["worktree", "remove", "--force", &shown]).await;
                kept
            }
            Err(why) => Kept::Folder { path: self.path.clone(), why },
        }
    }

    async fn commit(&self) -> Result<Kept, String> {
        let git = |arguments: &'static [&'static str]| self.of.git(&self.path, arguments);
        git(&["add", "--all"]).await?;
        if !git(&["status", "--porcelain"]).await?.is_empty() {
            let message = format!("tenon: {}", self.branch);
            self.of.git(&self.path, &["commit", "--quiet", "--no-verify", "-m", &message]).await?;
        }
        let head = git(&["rev-parse", "HEAD"]).await?;
        if head == self.base {
            return Ok(Kept::Nothing);
        }
        // A run that was cut off may have come this far before.
        if self.of.git(&self.top, &["rev-parse", "--verify", "--quiet", &self.branch]).await.ok().as_ref()
            == Some(&head)
        {
            return Ok(Kept::Branch(self.branch.clone()));
        }
        let mut refused = String::new();
        for n in 1..=MAX_BRANCH_SUFFIX {
            let name = if n == 1 { self.branch.clone() } else { format!("{}-{n}", self.branch) };
            match self.of.on_copies(&self.top, &["branch", &name, &head]).await {
                Ok(_) => return Ok(Kept::Branch(name)),
                Err(why) if why.contains("already exists") => refused = why,
                Err(why) => return Err(why),
            }
        }
        Err(refused)
    }
}

/// A name that is legal for a branch and a folder, another one for each key: `run_1/check#2[7]@1` becomes
/// `run_1/check.2=7@1`. What no key has is written as its bytes.
fn legal(key: &str) -> String {
    let mut legal = String::with_capacity(key.len());
    for c in key.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '@') => legal.push(c),
            '#' => legal.push('.'),
            '[' => legal.push('='),
            '~' => legal.push('+'),
            // An item's number ends where no digit follows.
            ']' => {}
            other => {
                let mut bytes = [0; 4];
                other
                    .encode_utf8(&mut bytes)
                    .bytes()
                    .for_each(|byte| legal.push_str(&format!("%{byte:02X}")));
            }
        }
    }
    legal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worktrees(folder: &Path, scratch: &Path) -> Worktrees {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Worktrees {
            folder: folder.to_owned(),
            scratch: scratch.to_owned(),
            environment: vec![("PATH".into(), path), ("HOME".into(), scratch.into())],
            work_in: Arc::new(|_, _| Err(Failure::new(tenon_core::ErrorClass::Internal, "not here"))),
        }
    }

    #[tokio::test]
    async fn changes_become_a_branch_and_the_copy_is_gone() {
        let home = tempfile::tempdir().unwrap();
        let repository = home.path().join("repo");
        std::fs::create_dir_all(repository.join("sub")).unwrap();
        let given = worktrees(&repository.join("sub"), &home.path().join("scratch"));
        assert!(given.add("run/a@1", Before::Nothing).await.is_err(), "no repository");
        given.git(&repository, &["init", "--quiet"]).await.unwrap();
        let no_commit = given.add("run/a@1", Before::Nothing).await.err().unwrap();
        assert_eq!(no_commit, "the repository has no commit");
        std::fs::write(repository.join("sub/file"), "one").unwrap();
        given.git(&repository, &["add", "--all"]).await.unwrap();
        given.git(&repository, &["commit", "--quiet", "-m", "first"]).await.unwrap();

        let idle = given.add("run/idle@1", Before::Nothing).await.unwrap();
        assert_eq!(idle.finish().await, Kept::Nothing);
        for (text, expected) in [("two", "tenon/run/each=2/inner@1"), ("three", "tenon/run/each=2/inner@1-2")]
        {
            let worktree = given.add("run/each[2]/inner@1", Before::Nothing).await.unwrap();
            let folder = worktree.folder();
            assert!(folder.ends_with("sub"), "{}", folder.display());
            std::fs::write(folder.join("file"), text).unwrap();
            assert_eq!(worktree.finish().await, Kept::Branch(expected.to_owned()));
            assert!(!folder.exists());
        }
        assert_eq!(std::fs::read_to_string(repository.join("sub/file")).unwrap(), "one");
        let kept = given.git(&repository, &["show", "tenon/run/each=2/inner@1:sub/file"]).await.unwrap();
        assert_eq!(kept, "two");
    }

    #[tokio::test]
    async fn a_step_that_was_cut_off_goes_on_in_its_copy() {
        let home = tempfile::tempdir().unwrap();
        let given = worktrees(home.path(), &home.path().join("scratch"));
        given.git(home.path(), &["init", "--quiet"]).await.unwrap();
        given.git(home.path(), &["commit", "--quiet", "--allow-empty", "-m", "first"]).await.unwrap();
        let gone = given.add("r/a@1", Before::Something).await.err().unwrap();
        assert_eq!(gone, GONE);

        let cut_off = given.add("r/a@1", Before::Nothing).await.unwrap();
        std::fs::write(cut_off.folder().join("file"), "half").unwrap();
        drop(cut_off);
        // The repository has moved on since.
        given.git(home.path(), &["commit", "--quiet", "--allow-empty", "-m", "second"]).await.unwrap();
        let again = given.add("r/a@1", Before::Something).await.unwrap();
        assert_eq!(std::fs::read_to_string(again.folder().join("file")).unwrap(), "half");
        assert_eq!(again.finish().await, Kept::Branch("tenon/r/a@1".to_owned()));
        // Cut off again, before the end of the step was kept.
        let again = given.add("r/a@1", Before::Something).await.unwrap();
        assert_eq!(std::fs::read_to_string(again.folder().join("file")).unwrap(), "half");
        assert_eq!(again.finish().await, Kept::Branch("tenon/r/a@1".to_owned()));

        let cut_off = given.add("r/b@1", Before::Nothing).await.unwrap();
        std::fs::write(cut_off.folder().join("file"), "half").unwrap();
        drop(cut_off);
        let anew = given.add("r/b@1", Before::Nothing).await.unwrap();
        assert!(!anew.folder().join("file").exists());
        assert_eq!(anew.finish().await, Kept::Nothing);
    }

    async fn repository(home: &Path) -> Worktrees {
        let given = worktrees(home, &home.join("scratch"));
        given.git(home, &["init", "--quiet"]).await.unwrap();
        std::fs::write(home.join(".gitignore"), "scratch\n").unwrap();
        given.git(home, &["add", "--all"]).await.unwrap();
        given.git(home, &["commit", "--quiet", "-m", "first"]).await.unwrap();
        given
    }

    #[tokio::test]
    async fn many_copies_are_made_and_put_away_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let given = Arc::new(repository(home.path()).await);
        let mut all = tokio::task::JoinSet::new();
        for n in 0..12 {
            let given = Arc::clone(&given);
            all.spawn(async move {
                for round in 0..2 {
                    let copy = given.add(&format!("r/s{n}@{round}"), Before::Nothing).await.unwrap();
                    assert!(copy.folder().join(".gitignore").exists());
                    std::fs::write(copy.folder().join("file"), "x").unwrap();
                    assert_eq!(copy.finish().await, Kept::Branch(format!("tenon/r/s{n}@{round}")));
                }
            });
        }
        while let Some(one) = all.join_next().await {
            one.unwrap();
        }
        let left = given.git(home.path(), &["worktree", "list"]).await.unwrap();
        assert_eq!(left.lines().count(), 1, "{left}");
    }

    #[tokio::test]
    async fn a_copy_that_was_taken_away_is_gone_and_forgotten() {
        let home = tempfile::tempdir().unwrap();
        let given = repository(home.path()).await;
        for taken in ["scratch/r/a@1", "scratch/r", "scratch"] {
            let cut_off = given.add("r/a@1", Before::Nothing).await.unwrap();
            std::fs::write(cut_off.folder().join("file"), "half").unwrap();
            drop(cut_off);
            std::fs::remove_dir_all(home.path().join(taken)).unwrap();
            assert_eq!(given.add("r/a@1", Before::Something).await.err().unwrap(), GONE, "{taken}");
            let anew = given.add("r/a@1", Before::Nothing).await.unwrap();
            let list = given.git(home.path(), &["worktree", "list"]).await.unwrap();
            assert_eq!(list.lines().count(), 2, "{taken}: {list}");
            assert_eq!(anew.finish().await, Kept::Nothing);
        }
    }

    #[tokio::test]
    async fn what_was_half_written_is_not_committed() {
        let home = tempfile::tempdir().unwrap();
        let given = repository(home.path()).await;
        let cut_off = given.add("r/a@1", Before::Nothing).await.unwrap();
        let folder = cut_off.folder();
        std::fs::create_dir(folder.join("sub")).unwrap();
        for name in [".tenon-12-3.tmp", "sub/.tenon-12-4.tmp", "sub/file"] {
            std::fs::write(folder.join(name), "half").unwrap();
        }
        drop(cut_off);
        let again = given.add("r/a@1", Before::Something).await.unwrap();
        let Kept::Branch(branch) = again.finish().await else { panic!("nothing kept") };
        let files = given.git(home.path(), &["ls-tree", "-r", "--name-only", &branch]).await.unwrap();
        assert_eq!(files, ".gitignore\nsub/file");
    }

    #[tokio::test]
    async fn steps_whose_keys_look_alike_have_copies_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let given = worktrees(home.path(), &home.path().join("scratch"));
        given.git(home.path(), &["init", "--quiet"]).await.unwrap();
        given.git(home.path(), &["commit", "--quiet", "--allow-empty", "-m", "first"]).await.unwrap();
        let keys = ["r/b-0@1", "r/b[0]@1", "r/b#0@1", "r/b/0@1", "r/b-0-1@1", "r/b-0@1~judge", "r/b_0@1"];
        let mut copies = Vec::new();
        for key in keys {
            copies.push(given.add(key, Before::Nothing).await.unwrap());
        }
        for (key, copy) in keys.into_iter().zip(copies) {
            std::fs::write(copy.folder().join("file"), key).unwrap();
            assert_eq!(copy.finish().await, Kept::Branch(format!("tenon/{}", legal(key))));
        }
    }
}
