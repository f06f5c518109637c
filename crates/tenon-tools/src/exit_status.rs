//! What the end of a command means: which signal, and whether its exit code is a failure.

use crate::command_parse::last_program;

/// Programs that say "no" with exit code 1.
const ANSWER_NO: &[&str] = &["grep", "rg", "diff", "test", "[", "[["];

/// Whether this exit code of this command is a failure.
pub(crate) fn is_failure(command: &str, code: i32) -> bool {
    match code {
        0 => false,
        1 => !last_program(command).is_some_and(|program| ANSWER_NO.contains(&program.as_str())),
        _ => true,
    }
}

pub(crate) fn signal_name(number: i32) -> String {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    known
        .iter()
        .find(|(n, _)| *n == number)
        .map_or_else(|| format!("signal {number}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_1_is_an_answer_for_some_programs() {
        let table = [
            ("grep x file", 1, false),
            ("grep x file", 2, true),
            ("/usr/bin/grep -q x", 1, false),
            ("cat file | grep x", 1, false),
            ("grep x file | wc -l", 1, true),
            ("cd src && rg 'a | b'", 1, false),
            ("LC_ALL=C diff a b;", 1, false),
            ("[ -f x ]", 1, false),
            ("[[ -f x ]]", 1, false),
            ("! test -f x", 1, false),
            ("echo 'grep'; false", 1, true),
            ("echo \"; grep\"", 1, true),
            ("ls", 1, true),
            ("ls", 0, false),
            ("", 1, true),
        ];
        for (command, code, failure) in table {
            assert_eq!(is_failure(command, code), failure, "{command}: {code}");
        }
    }
}
