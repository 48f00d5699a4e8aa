//! The names that a worker's variables may have.
//!
//! A fork's attributes become environment variables of scripts and agents, and the text they come from may be written
//! by a model. So a name that changes which programs run, or how, is refused.

use std::fmt;

use crate::tag::clip;

/// Reserved names, in groups.
const RESERVED_NAMES: &[&str] = &[
    // Which programs are found, and where they find their files.
    "PATH HOME SHELL USER LOGNAME PWD OLDPWD TMPDIR TMP TEMP MANPATH INFOPATH",
    // How a shell reads a script.
    "IFS ENV BASH BASHOPTS SHELLOPTS PS1 PS2 PS3 PS4 PROMPT_COMMAND CDPATH GLOBIGNORE EXECIGNORE FIGNORE FPATH",
    "FUNCNEST TIMEFORMAT TMOUT HISTFILE INPUTRC ZDOTDIR POSIXLY_CORRECT",
    // Set by bash itself, so that a value from outside would be lost.
    "_ UID EUID PPID SHLVL RANDOM SECONDS LINENO OPTARG OPTERR OPTIND DIRSTACK FUNCNAME GROUPS PIPESTATUS",
    "EPOCHSECONDS EPOCHREALTIME",
    // How the C library behaves.
    "GCONV_PATH GETCONF_DIR HOSTALIASES LOCALDOMAIN LOCPATH NLSPATH RES_OPTIONS RESOLV_HOST_CONF TZ TZDIR LANG",
    "LANGUAGE",
    // The terminal, and the programs that are started for a person.
    "TERM TERMCAP TERMINFO TERMINFO_DIRS COLUMNS LINES EDITOR VISUAL PAGER MANPAGER BROWSER LESS LESSOPEN",
    "LESSCLOSE DISPLAY WAYLAND_DISPLAY DBUS_SESSION_BUS_ADDRESS",
    // Compilers, interpreters and build tools.
    "CC CXX CPP CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH COMPILER_PATH CFLAGS CXXFLAGS CPPFLAGS",
    "LDFLAGS MAKEFLAGS MAKEFILES MFLAGS RUSTFLAGS RUSTDOCFLAGS GOFLAGS GOPATH GOROOT GOPROXY GOENV CLASSPATH",
    "JAVA_HOME JAVA_OPTS JAVA_TOOL_OPTIONS _JAVA_OPTIONS JDK_JAVA_OPTIONS MAVEN_OPTS VIRTUAL_ENV PHPRC",
    "PHP_INI_SCAN_DIR LUA_PATH LUA_CPATH LUA_INIT",
    // Which certificates programs trust and where they connect.
    "OPENSSL_CONF OPENSSL_MODULES REQUESTS_CA_BUNDLE KUBECONFIG GH_TOKEN GITHUB_TOKEN NETRC KRB5_CONFIG",
    // Windows.
    "COMSPEC PATHEXT SYSTEMROOT SYSTEMDRIVE WINDIR PSMODULEPATH USERPROFILE USERNAME HOMEDRIVE HOMEPATH APPDATA",
    "LOCALAPPDATA PROGRAMDATA ALLUSERSPROFILE",
];

/// Every name with one of these prefixes is reserved.
const RESERVED_PREFIXES: &[&str] = &[
    // Raymond and agent programs.
    "RAYMOND_ ANTHROPIC_ CLAUDE OPENAI_ CODEX_ GEMINI_ MCP_",
    // The loader, the C library, shells.
    "LD_ DYLD_ LC_ MALLOC_ GLIBC_ ASAN_ LSAN_ TSAN_ UBSAN_ BASH_ ZSH_ XDG_",
    // Tools that act on a person's behalf.
    "GIT_ SSH_ GPG_ GNUPG SUDO_ SSL_ CURL_ WGET AWS_ AZURE_ GOOGLE_ DOCKER_",
    // Interpreters and build tools.
    "PYTHON PIP_ UV_ CONDA_ PERL RUBY GEM_ BUNDLE_ NODE_ NPM_ npm_ NVM_ YARN_ DENO_ BUN_ CARGO RUSTC RUSTUP_ RUST_",
    "GRADLE_ CMAKE_ PKG_CONFIG CCACHE_ DOTNET_ CORECLR_ COMPLUS_ COR_",
    // Windows.
    "PROGRAMFILES COMMONPROGRAMFILES POWERSHELL_",
];

/// Every name with one of these suffixes is reserved.
const RESERVED_SUFFIXES: &[&str] = &["_PROXY _proxy"];

/// Why a name cannot be used for a worker's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableError {
    Invalid { name: String },
    Reserved { name: String },
}

impl VariableError {
    /// The name that was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Invalid { name } | Self::Reserved { name } => name,
        }
    }
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { name } => write!(
                f,
                "`{}` is no name for a variable; use letters, digits and `_`, and no digit first",
                clip(name)
            ),
            Self::Reserved { name } => write!(
                f,
                "the variable `{}` changes how programs run and cannot be set by a fork; use another name",
                clip(name)
            ),
        }
    }
}

impl std::error::Error for VariableError {}

/// Checks the name of a worker's variable.
///
/// On Windows names differing only in case are the same variable; there `case_insensitive` must be set.
///
/// # Errors
///
/// When the name is not a valid variable name, or is reserved.
pub fn check(name: &str, case_insensitive: bool) -> Result<(), VariableError> {
    if !is_valid(name) {
        return Err(VariableError::Invalid { name: name.to_owned() });
    }
    if is_reserved(name, case_insensitive) {
        return Err(VariableError::Reserved { name: name.to_owned() });
    }
    Ok(())
}

fn is_valid(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_reserved(name: &str, case_insensitive: bool) -> bool {
    let same = |part: Option<&str>, reserved: &str| {
        part.is_some_and(|part| part == reserved || (case_insensitive && part.eq_ignore_ascii_case(reserved)))
    };
    let begins = |reserved: &str| same(name.get(..reserved.len()), reserved);
    let ends = |reserved: &str| {
        let start = name.len().checked_sub(reserved.len());
        same(start.and_then(|start| name.get(start..)), reserved)
    };
    words(RESERVED_NAMES).any(|reserved| same(Some(name), reserved))
        || words(RESERVED_PREFIXES).any(begins)
        || words(RESERVED_SUFFIXES).any(ends)
}

fn words(groups: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    groups.iter().flat_map(|group| group.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_free() {
        for name in
            ["item", "priority", "path", "home", "task", "url", "ITEM_2", "_x", "x", "claude", "proxy"]
        {
            assert_eq!(check(name, false), Ok(()), "{name}");
        }
        for name in ["item", "priority", "task", "url", "prompt", "file", "name", "index", "os", "state"] {
            assert_eq!(check(name, true), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_change_how_programs_run_are_reserved() {
        let names = "PATH HOME SHELL IFS ENV BASH_ENV LD_PRELOAD LD_ DYLD_INSERT_LIBRARIES RAYMOND_RUN_ID \
            ANTHROPIC_API_KEY CLAUDE CLAUDECODE CLAUDE_CONFIG_DIR NODE_OPTIONS PYTHONPATH GIT_DIR SSH_AUTH_SOCK \
            BASHOPTS PERL5LIB RUBYOPT npm_config_registry CARGO CARGO_HOME http_proxy ALL_PROXY LC_ALL TERM \
            AWS_PROFILE _";
        for name in names.split_ascii_whitespace() {
            assert_eq!(check(name, false), Err(VariableError::Reserved { name: name.into() }), "{name}");
            assert_eq!(check(name, true), Err(VariableError::Reserved { name: name.into() }), "{name}");
        }
    }

    #[test]
    fn on_windows_case_does_not_matter() {
        for name in ["Path", "path", "home", "ComSpec", "Http_Proxy", "pythonpath", "raymond_x"] {
            assert_eq!(check(name, true), Err(VariableError::Reserved { name: name.into() }), "{name}");
        }
    }

    #[test]
    fn other_names_are_invalid() {
        for name in ["", "1a", "a-b", "a.b", "a b", "ä", "a=b", "a\0", "PATH=", "日_PROXY"] {
            assert_eq!(check(name, false), Err(VariableError::Invalid { name: name.into() }), "{name}");
        }
    }

    #[test]
    fn errors_name_the_variable() {
        check_message(
            "PATH",
            "the variable `PATH` changes how programs run and cannot be set by a fork; use another name",
        );
        check_message(
            "a.b",
            "`a.b` is no name for a variable; use letters, digits and `_`, and no digit first",
        );
    }

    fn check_message(name: &str, message: &str) {
        assert_eq!(check(name, false).unwrap_err().to_string(), message);
    }
}
