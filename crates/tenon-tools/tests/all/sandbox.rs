//! The sandbox, on the kernel these tests run on: real programs that try to get out.

#![allow(clippy::print_stderr, reason = "why a test was skipped")]

use std::ffi::OsString;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use tenon_core::{Id, IdSource, NetworkAccess, SandboxMode, ToolOutcome};
use tenon_tools::{
    KernelSupport, OutputStore, Registry, Sandbox, SandboxError, SandboxOptions, ShellOptions, ShellTerminal,
    Tasks, Workspace, WorkspaceOptions, builtin_tools,
};

use crate::support::{object, runtime};

const COMPLETE: KernelSupport = KernelSupport { landlock: 7, seccomp: true };

/// A machine in a folder: `work` and `temp` are writable, `home` holds secrets, `outside` is neither.
struct Cell {
    base: TempDir,
    tools: Registry,
}

#[derive(Clone, Copy, Default)]
struct Wish {
    network: NetworkAccess,
    terminal: ShellTerminal,
}

impl Cell {
    /// `None`, with a word about it, where the kernel cannot.
    fn new(wish: Wish) -> Option<Cell> {
        let kernel = KernelSupport::here();
        if kernel.landlock < 3 || !kernel.seccomp {
            #[expect(clippy::print_stderr, reason = "whoever reads the test's output wants to know")]
            {
                eprintln!("skipped: this kernel offers {kernel:?}");
            }
            return None;
        }
        let base = tempfile::tempdir().unwrap();
        let place = |name: &str| base.path().join(name);
        for folder in [
            "work",
            "temp",
            "outside",
            "home/.ssh",
            "home/.config/gcloud",
            "home/.config/app",
            "home/docs",
            "tenon/outputs",
        ] {
            fs::create_dir_all(place(folder)).unwrap();
        }
        for (file, text) in [
            ("outside/victim", "untouched"),
            ("home/.ssh/key", "SECRET"),
            ("home/.netrc", "SECRET"),
            ("home/.config/gcloud/token", "SECRET"),
            ("home/.config/app/settings", "harmless"),
            ("home/docs/readme", "harmless"),
            ("tenon/settings.json", "SECRET"),
            ("tenon/outputs/kept", "harmless"),
        ] {
            fs::write(place(file), text).unwrap();
        }
        symlink(place("home"), place("home-link")).unwrap();
        let secret = ["home-link/.ssh", "home/.netrc", "home/.config/gcloud", "home/.missing", "tenon"];
        let options = SandboxOptions {
            mode: SandboxMode::Auto,
            network: wish.network,
            writable: vec![place("work"), place("temp")],
            secret: secret.iter().map(|name| place(name)).collect(),
            readable: vec![place("tenon/outputs")],
        };
        let sandbox = Sandbox::prepare(&options, kernel).unwrap();
        assert!(sandbox.is_some());
        let environment = [
            ("PATH", std::env::var_os("PATH").unwrap_or_default()),
            ("HOME", place("home").into()),
            ("TMPDIR", place("temp").into()),
            ("B", base.path().into()),
        ];
        let shell = ShellOptions {
            sandbox,
            terminal: wish.terminal,
            ..ShellOptions::new(environment.map(|(name, value)| (OsString::from(name), value)))
        };
        let workspace = Workspace::new(WorkspaceOptions {
            outputs: OutputStore::at(place("kept")),
            ..WorkspaceOptions::new(place("work"))
        })
        .unwrap();
        let tools = Registry::new();
        let tasks = Tasks::new(Arc::new(IdSource::new(Id::from_random([7; 16]))));
        builtin_tools(workspace, shell, tasks).into_iter().for_each(|tool| tools.add(tool).unwrap());
        Some(Cell { base, tools })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.base.path().join(name)
    }

    fn run(&self, command: &str) -> ToolOutcome {
        self.call(json!({ "command": command }))
    }

    fn call(&self, args: serde_json::Value) -> ToolOutcome {
        let ctx = tenon_core::ToolCtx {
            call_id: "call_1".to_owned(),
            cancel: tenon_core::Cancel::new(),
            client: Arc::new(tenon_core::NoClient),
            sink: Arc::new(tenon_core::NoSink),
            progress: Arc::new(|_| {}),
            tell: Arc::new(|_| {}),
            trace: None,
        };
        runtime().block_on(self.tools.get("run_shell_command").unwrap().call(ctx, object(args)))
    }

    /// Everything outside is as it was.
    fn assert_whole(&self, after: &str) {
        assert_eq!(fs::read_to_string(self.path("outside/victim")).unwrap(), "untouched", "{after}");
        let names = crate::support::names_in(&self.path("outside"));
        assert_eq!(names, ["victim"], "{after}");
        for (file, text) in
            [("home/.ssh/key", "SECRET"), ("home/docs/readme", "harmless"), ("tenon/settings.json", "SECRET")]
        {
            assert_eq!(fs::read_to_string(self.path(file)).unwrap(), text, "{after}");
        }
        assert_eq!(
            crate::support::names_in(&self.path("home")),
            [".config", ".netrc", ".ssh", "docs"],
            "{after}"
        );
    }
}

/// Ways to change what lies outside.
const WRITES: &[&str] = &[
    "echo x > $B/outside/victim",
    "echo x >> $B/outside/victim",
    "echo x > $B/outside/new",
    "echo x > ../outside/victim",
    "rm $B/outside/victim",
    "mv $B/outside/victim $B/work/",
    "mv $B/outside $B/outside2",
    "cp /etc/hostname $B/outside/victim",
    "ln $B/outside/victim here && echo x > here",
    "ln -s $B/outside/victim here && echo x > here",
    "ln -s $B/outside there && echo x > there/victim",
    "mkdir $B/outside/folder",
    "mkfifo $B/outside/pipe",
    "mknod $B/outside/disk b 8 0",
    "truncate -s 0 $B/outside/victim",
    "sed -i s/u/x/ $B/outside/victim",
    "dd if=/dev/zero of=$B/outside/victim bs=1 count=1",
    "tee $B/outside/victim < /etc/hostname",
    "echo x > /proc/self/root$B/outside/victim",
    "echo x > /proc/self/cwd/../outside/victim",
    "echo x > $B/home/.bashrc",
    "echo x >> $B/home/.ssh/key",
    "echo x > $B/tenon/settings.json",
    "echo x > $B/tenon/outputs/kept; cat $B/tenon/outputs/kept | grep -q harmless && false",
    // Interpreters
    "python3 -c \"open('$B/outside/victim','w').write('x')\"",
    "python3 -c \"import os; os.truncate('$B/outside/victim', 0)\"",
    "python3 -c \"import os; os.remove('$B/outside/victim')\"",
    "python3 -c \"import os; os.rename('$B/outside/victim', 'v')\"",
    "python3 -c \"import os; os.symlink('x', '$B/outside/link')\"",
    "perl -e 'open(F, \">\", \"$ENV{B}/outside/victim\") or die; print F 1'",
    "perl -e 'unlink \"$ENV{B}/outside/victim\" or die'",
    "awk 'BEGIN { print 1 > (ENVIRON[\"B\"] \"/outside/victim\") }'",
    // Copied programs, scripts, other names
    "cp \"$(command -v tee)\" mine && ./mine $B/outside/victim < /etc/hostname",
    "printf '#!/bin/sh\\necho x > %s/outside/victim\\n' $B > s.sh; chmod +x s.sh; ./s.sh",
    "printf 'echo x > %s/outside/victim\\n' $B > s.sh; sh s.sh",
    "printf 'echo x > %s/outside/victim' $B | base64 | base64 -d | bash",
    // Children of children
    "(sleep 0.05; echo x > $B/outside/victim) & wait $!",
    "setsid -w sh -c 'setsid -w sh -c \"echo x > $B/outside/victim\"'",
    "nohup sh -c 'echo x > $B/outside/victim' 2>&1",
    "sh -c 'sh -c \"sh -c \\\"echo x > $B/outside/victim\\\"\"'",
    "xargs -I{} sh -c 'echo x > {}' <<< $B/outside/victim",
    "find $B/outside -name victim -exec sh -c 'echo x > \"$1\"' _ {} +",
    "find $B/outside -name victim -delete",
    "env -i /bin/sh -c \"echo x > $B/outside/victim\"",
    // Other views of the same files
    "unshare -rm sh -c \"mount --bind $B/outside $B/work && echo x > $B/work/victim\"",
    "mount --bind $B/outside $B/work && echo x > victim",
    "mount -t tmpfs none $B/outside",
    "unshare -r sh -c \"echo x > $B/outside/victim\"",
    "chroot / sh -c \"echo x > $B/outside/victim\"",
];

const GIT_HOOK: &str = "git init -q repo && cd repo && printf '#!/bin/sh\\necho x > %s/outside/victim\\n' $B > .git/hooks/post-commit && \
     chmod +x .git/hooks/post-commit && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git -c core.fsmonitor=\"echo x > $B/outside/victim; true\" status";

#[test]
fn nothing_outside_is_changed_by_any_program() {
    for terminal in [ShellTerminal::Pipes, ShellTerminal::Pty] {
        let Some(cell) = Cell::new(Wish { terminal, ..Wish::default() }) else { return };
        for command in WRITES {
            let outcome = cell.run(command);
            cell.assert_whole(command);
            assert!(outcome.error.is_some(), "{command}: {}", outcome.content);
            // Whatever was left in the workspace must not help the next one.
            fs::remove_dir_all(cell.path("work")).unwrap();
            fs::create_dir(cell.path("work")).unwrap();
        }
        cell.run(GIT_HOOK);
        cell.assert_whole(GIT_HOOK);
    }
}

#[test]
fn work_goes_on_inside() {
    for terminal in [ShellTerminal::Pipes, ShellTerminal::Pty] {
        let Some(cell) = Cell::new(Wish { terminal, network: NetworkAccess::Denied }) else { return };
        let fine = [
            "echo x > a && cat a && rm a",
            "mkdir -p d/e && mv d/e d/f && rmdir d/f",
            "mkdir x y && echo 1 > x/a && mv x/a y/b && cat y/b",
            "cp /etc/hostname . && chmod 600 hostname",
            "t=$(mktemp) && echo x > \"$t\" && rm \"$t\"",
            "ln -s a b && readlink b",
            "echo x > /dev/null; echo y 2> /dev/null; head -c 4 /dev/urandom > r; head -c 4 /dev/zero > z",
            "echo x > /dev/stdout",
            "cat <<E\nhello\nE",
            "cat <(echo a) <(echo b)",
            "python3 -c \"open('p','w').write('x')\"",
            "python3 -c \"import socket; a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\"",
            "python3 -c \"import multiprocessing as m; q = m.Queue(); q.put(1); assert q.get() == 1\"",
            "git init -q g && cd g && echo a > a && git add a && git -c user.name=a -c user.email=a@b commit -qm x && git log --oneline",
            "cat $B/outside/victim",
            "cat $HOME/docs/readme && cat $HOME/.config/app/settings && cat $B/home-link/docs/readme",
            "cat $B/tenon/outputs/kept",
            "ls $HOME/docs $B/outside /etc /usr",
            "test -e $HOME/.ssh",
            "sleep 60 & kill $!",
            "mkfifo p2 && (echo x > p2 &) && cat p2",
            "id && uname && date && true",
        ];
        for command in fine {
            let outcome = cell.run(command);
            assert_eq!(outcome.error, None, "{command}: {}", outcome.content);
        }
        cell.assert_whole("all of them");
    }
}

#[test]
fn secrets_are_not_read_by_any_program() {
    let reads = [
        "cat $HOME/.ssh/key",
        "cat $B/home-link/.ssh/key",
        "cat $HOME/../home/.ssh/key",
        "cat $HOME/.netrc",
        "cat $HOME/.config/gcloud/token",
        "cat $B/tenon/settings.json",
        "cp $HOME/.ssh/key . && cat key",
        "cp -r $HOME/.ssh . && cat .ssh/key",
        "ln $HOME/.ssh/key here && cat here",
        "ln -s $HOME/.ssh there && cat there/key",
        "mv $HOME/.ssh . && cat .ssh/key",
        "cd $HOME/.ssh && cat key",
        "cat /proc/self/root$HOME/.ssh/key",
        "tar cf - -C $HOME .ssh",
        "grep -r . $HOME/.ssh",
        "ls $HOME/.ssh",
        "find $HOME/.ssh -type f -exec cat {} +",
        "python3 -c \"print(open('$HOME/.ssh/key').read())\"",
        "python3 -c \"import os; print(os.listdir('$HOME/.ssh'))\"",
        "perl -e 'open(F, \"<\", \"$ENV{HOME}/.ssh/key\") or die; print <F>'",
        "cp \"$(command -v cat)\" mine && ./mine $HOME/.ssh/key",
        "sh -c 'setsid -w cat $HOME/.ssh/key'",
        "unshare -rm sh -c \"mount --bind $HOME/.ssh $B/work && cat $B/work/key\"",
        ". $HOME/.ssh/key",
    ];
    for terminal in [ShellTerminal::Pipes, ShellTerminal::Pty] {
        let Some(cell) = Cell::new(Wish { terminal, ..Wish::default() }) else { return };
        for command in reads {
            let outcome = cell.run(command);
            assert!(!outcome.content.contains("SECRET"), "{command}: {}", outcome.content);
            assert!(outcome.error.is_some(), "{command}: {}", outcome.content);
            cell.assert_whole(command);
        }
    }
}

#[test]
fn background_commands_are_bound_too() {
    let Some(cell) = Cell::new(Wish::default()) else { return };
    let pipe = cell.path("work/pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let command =
        "sh -c 'echo x > $B/outside/victim' 2>/dev/null; cat $HOME/.ssh/key 2>/dev/null; echo over > pipe";
    runtime().block_on(async {
        let ctx = tenon_core::ToolCtx {
            call_id: "call_1".to_owned(),
            cancel: tenon_core::Cancel::new(),
            client: Arc::new(tenon_core::NoClient),
            sink: Arc::new(tenon_core::NoSink),
            progress: Arc::new(|_| {}),
            tell: Arc::new(|_| {}),
            trace: None,
        };
        let args = object(json!({ "command": command, "is_background": true }));
        let started = cell.tools.get("run_shell_command").unwrap().call(ctx, args).await;
        assert_eq!(started.error, None, "{}", started.content);
        // Opens when the command has come so far.
        let said = tokio::task::spawn_blocking(move || fs::read_to_string(pipe).unwrap()).await.unwrap();
        assert_eq!(said, "over\n");
    });
    cell.assert_whole(command);
}

#[test]
fn a_denied_network_is_out_of_reach() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("python3 -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5)\"");
    let attempts = [
        connect.clone(),
        format!("echo x > /dev/tcp/127.0.0.1/{port}"),
        format!("perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => \"127.0.0.1:{port}\") or die'"),
        "python3 -c \"import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\"".to_owned(),
        "python3 -c \"import socket; socket.socket(socket.AF_INET6, socket.SOCK_STREAM)\"".to_owned(),
        "python3 -c \"import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)\"".to_owned(),
        "python3 -c \"import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)\"".to_owned(),
        "python3 -c \"import socket; socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)\"".to_owned(),
        // io_uring makes sockets without asking for one.
        "python3 -c \"import ctypes, sys; sys.exit(0 if ctypes.CDLL(None).syscall(425, 1, ctypes.create_string_buffer(120)) >= 0 else 1)\"".to_owned(),
        format!("sh -c 'setsid -w {}'", connect.replace('"', "\\\"").replace('\'', "'\\''")),
        format!("unshare -rn {connect}"),
    ];
    let Some(open) = Cell::new(Wish::default()) else { return };
    let outcome = open.run(&connect);
    assert_eq!(outcome.error, None, "{}", outcome.content);
    listener.accept().unwrap();
    listener.set_nonblocking(true).unwrap();
    for terminal in [ShellTerminal::Pipes, ShellTerminal::Pty] {
        let Some(cell) = Cell::new(Wish { terminal, network: NetworkAccess::Denied }) else { return };
        for command in &attempts {
            let outcome = cell.run(command);
            assert!(outcome.error.is_some(), "{command}: {}", outcome.content);
            assert!(listener.accept().is_err(), "{command} reached the server");
        }
    }
}

#[test]
fn the_model_is_told_what_it_met() {
    let Some(cell) = Cell::new(Wish { network: NetworkAccess::Denied, ..Wish::default() }) else { return };
    let real = |name: &str| fs::canonicalize(cell.path(name)).unwrap().display().to_string();
    let outcome = cell.run("echo x > $B/outside/victim");
    let wanted = format!(
        "Note: commands run in a sandbox that lets them write only in `{}`, `{}`, and it has no network.",
        real("work"),
        real("temp")
    );
    assert!(outcome.content.contains(&wanted), "{}", outcome.content);
    assert!(outcome.content.contains(&format!(" It hides `{}`", real("home/.ssh"))), "{}", outcome.content);
    let outcome = cell.run("echo 'curl: (6) Could not resolve host: example.com'; exit 6");
    assert!(
        outcome.content.ends_with("Note: the sandbox keeps commands off the network."),
        "{}",
        outcome.content
    );
    for command in ["false", "echo Permission denied"] {
        let outcome = cell.run(command);
        assert!(!outcome.content.contains("sandbox"), "{command}: {}", outcome.content);
    }
}

#[test]
fn what_is_asked_for_meets_what_the_kernel_can() {
    let old = KernelSupport { landlock: 1, seccomp: true };
    let none = KernelSupport { landlock: 0, seccomp: false };
    let no_filter = KernelSupport { landlock: 7, seccomp: false };
    let prepare = |mode, network, kernel| {
        let options = SandboxOptions { mode, network, ..SandboxOptions::default() };
        match Sandbox::prepare(&options, kernel) {
            Ok(None) => "none".to_owned(),
            Ok(Some(sandbox)) => {
                let network = if sandbox.network() == NetworkAccess::Denied { "+network" } else { "" };
                format!("{}files{network}", if sandbox.is_partial() { "partly " } else { "" })
            }
            Err(SandboxError::Files { .. }) => "no files".to_owned(),
            Err(SandboxError::Network) => "no network".to_owned(),
            Err(SandboxError::Kernel(why)) => why,
        }
    };
    use NetworkAccess::{Allowed, Denied};
    use SandboxMode::{Auto, Off, Require};
    let table = [
        (Off, Allowed, COMPLETE, "none"),
        (Off, Denied, COMPLETE, "none"),
        (Auto, Allowed, COMPLETE, "files"),
        (Auto, Denied, COMPLETE, "files+network"),
        (Require, Allowed, COMPLETE, "files+network"),
        (Require, Denied, COMPLETE, "files+network"),
        (Auto, Allowed, old, "partly files"),
        (Auto, Denied, old, "no files"),
        (Require, Allowed, old, "no files"),
        (Auto, Allowed, none, "none"),
        (Auto, Denied, none, "no files"),
        (Require, Allowed, none, "no files"),
        (Auto, Allowed, no_filter, "files"),
        (Auto, Denied, no_filter, "no network"),
        (Require, Allowed, no_filter, "no network"),
    ];
    for (mode, network, kernel, wanted) in table {
        assert_eq!(prepare(mode, network, kernel), wanted, "{mode:?} {network:?} {kernel:?}");
    }
}

#[test]
fn a_workspace_that_holds_a_secret_stays_usable() {
    let kernel = KernelSupport::here();
    if kernel.landlock < 3 {
        eprintln!("skipped: this kernel offers {kernel:?}");
        return;
    }
    let base = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(base.path()).unwrap();
    fs::create_dir_all(home.join(".ssh")).unwrap();
    fs::create_dir_all(home.join("project")).unwrap();
    fs::write(home.join(".ssh/key"), "SECRET").unwrap();
    let options = SandboxOptions {
        writable: vec![home.clone()],
        secret: vec![home.join(".ssh")],
        ..SandboxOptions::default()
    };
    let shell = ShellOptions {
        sandbox: Sandbox::prepare(&options, kernel).unwrap(),
        ..ShellOptions::new([(OsString::from("PATH"), std::env::var_os("PATH").unwrap_or_default())])
    };
    let bench = crate::support::Bench::with(crate::support::Setup { shell, ..Default::default() });
    let run = |command: &str| {
        let command = command.replace("$H", &home.display().to_string());
        bench.call("run_shell_command", json!({ "command": command }))
    };
    for command in [
        "ls $H",
        "echo x > $H/project/a && cat $H/project/a",
        "mkdir $H/project/new && echo y > $H/project/new/b",
    ] {
        let outcome = run(command);
        assert_eq!(outcome.error, None, "{command}: {}", outcome.content);
    }
    for command in ["cat $H/.ssh/key", "echo x > $H/.ssh/authorized_keys", "echo x > $H/new", "rm -r $H/.ssh"]
    {
        let outcome = run(command);
        assert!(
            outcome.error.is_some() && !outcome.content.contains("SECRET"),
            "{command}: {}",
            outcome.content
        );
    }
    assert!(Path::new(&home.join(".ssh/key")).exists());
}
