//! Which folders shell commands may write and which they may not read: flags, settings and this machine
//! put together for `tenon_tools::Sandbox`.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tenon_config::{SandboxSettings, Surroundings};
use tenon_core::{ErrorClass, Failure, NetworkAccess, SandboxMode, SandboxState};
use tenon_tools::{KernelSupport, Sandbox, SandboxOptions, ShellOptions};

use crate::args::RunArgs;

/// Where keys and tokens are usually kept, below the user's folder.
const SECRET: &[&str] = &[".ssh", ".aws", ".gnupg", ".config/gcloud", ".kube", ".docker", ".netrc"];

const PRIVATE: u32 = 0o700;

/// What the run works on.
pub struct Folders<'a> {
    pub here: &'a Surroundings,
    pub cwd: &'a Path,
    pub add_dirs: &'a [PathBuf],
    /// Kept outputs, which commands may read.
    pub outputs: Option<&'a Path>,
    /// A folder of this run's own, not made yet.
    pub private_temp: PathBuf,
}

/// Binds the commands of `shell`. Also returns the temporary folder that was made for them, if one was.
pub fn confine(
    args: &RunArgs,
    settings: &SandboxSettings,
    folders: Folders<'_>,
    shell: &mut ShellOptions,
    warnings: &mut Vec<String>,
) -> Result<(SandboxState, Option<PathBuf>), Failure> {
    let mode = args.sandbox.or(settings.mode).unwrap_or_default();
    let network = settings.network.unwrap_or_default();
    if mode == SandboxMode::Off {
        if args.sandbox.is_none() && network == NetworkAccess::Denied {
            let message =
                "`sandbox.mode` is `off` and `sandbox.network` is `deny`, which contradict each other";
            return Err(
                Failure::new(ErrorClass::Config, message).hint("`sandbox.mode` may be `auto` or `require`")
            );
        }
        return Ok((SandboxState::Off, None));
    }
    let home = folders.here.home.as_deref();
    let place = |path: &String| match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => folders.cwd.join(path),
    };
    let below_home = home.into_iter().flat_map(|home| SECRET.iter().map(|name| home.join(name)));
    let secret: Vec<PathBuf> = below_home
        .chain(folders.here.tenon_home.clone())
        .chain(settings.secret_folders.iter().map(place))
        .collect();
    let temp = temp_folder(&secret, folders.private_temp, shell)?;
    let mut writable = vec![folders.cwd.to_owned()];
    writable.extend(folders.add_dirs.iter().cloned());
    writable.push(temp.path);
    writable.extend(settings.writable.iter().map(place));
    let options = SandboxOptions {
        mode,
        network,
        writable,
        secret,
        readable: folders.outputs.map(Path::to_owned).into_iter().collect(),
    };
    let sandbox = Sandbox::prepare(&options, KernelSupport::here()).map_err(|error| {
        Failure::new(ErrorClass::Sandbox, error.to_string())
            .hint("`--sandbox=auto` goes without where the kernel cannot; `tenon doctor` says what it can")
    })?;
    let state = match sandbox.as_ref().map(Sandbox::network) {
        None => SandboxState::Unavailable,
        Some(NetworkAccess::Allowed) => SandboxState::Files,
        Some(NetworkAccess::Denied) => SandboxState::FilesAndNetwork,
    };
    let asked_for = args.sandbox.or(settings.mode).is_some();
    match &sandbox {
        None if asked_for => warnings
            .push("this kernel cannot confine shell commands, so they run without a sandbox".to_owned()),
        Some(sandbox) if asked_for && sandbox.is_partial() => warnings.push(
            "this kernel cannot keep shell commands from emptying files outside the workspace".to_owned(),
        ),
        _ => {}
    }
    shell.sandbox = sandbox;
    Ok((state, temp.made))
}

struct Temp {
    path: PathBuf,
    made: Option<PathBuf>,
}

/// Commands share the system's folder, unless something secret lies in it: then they get one of their own.
fn temp_folder(secret: &[PathBuf], private: PathBuf, shell: &mut ShellOptions) -> Result<Temp, Failure> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let shared = real(&std::env::temp_dir());
    if !secret.iter().any(|secret| real(secret).starts_with(&shared)) {
        return Ok(Temp { path: shared, made: None });
    }
    // Not somebody else's folder of that name: it must be new.
    DirBuilder::new().mode(PRIVATE).create(&private).map_err(|error| {
        let message = format!("the temporary folder `{}` cannot be made: {error}", private.display());
        Failure::new(ErrorClass::Sandbox, message)
    })?;
    shell.environment.retain(|(name, _)| name != "TMPDIR");
    shell.environment.push(("TMPDIR".into(), private.clone().into()));
    Ok(Temp { path: private.clone(), made: Some(private) })
}
