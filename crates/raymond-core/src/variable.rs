//! The names that a worker's variables may have, and what they are called in the environment of its scripts.
//!
//! The text that a fork's attributes come from may be written by a model, and no list of dangerous variables can be
//! complete. So a script's fork may not set a variable that changes which programs run, or how; of a model's fork only
//! harmless names in lower case become variables of that name, and all others get a prefix.

use std::fmt;

use crate::tag::clip;

/// Reserved names, in groups.
const RESERVED_NAMES: &[&str] = &[
    // Which programs are found, and where they find their files.
    "RAYMOND PATH HOME SHELL USER LOGNAME PWD OLDPWD TMPDIR TMP TEMP MANPATH INFOPATH",
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
    "RAYMOND_ ANTHROPIC_ CLAUDE OPENAI_ CODEX_ GEMINI_ MCP_ OPENCODE COPILOT_ PI_",
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

/// The variables that every prompt has; a fork cannot set them.
pub const BUILT_IN: [&str; 9] =
    ["result", "input", "run_id", "workflow_id", "agent_id", "state", "visits", "task_folder", "ask_id"];

/// The names that Raymond sets for workers with a worktree.
pub const OF_WORKTREES: [&str; 2] = ["worktree", "branch"];

/// What shows that a variable holds a secret.
const SECRET_WORDS: [&str; 6] = ["TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL"];

/// Whether a variable holds a secret, by its name.
pub fn looks_secret(name: &str) -> bool {
    let name = name.to_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

/// The beginning of the names that scripts see for variables that a model may not set directly.
const PREFIX: &str = "RAYMOND_VAR_";

/// Which names a fork may give to variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether a model emitted the fork, not a script.
    pub from_model: bool,
    /// Whether names that differ only in case are the same variable, as on Windows.
    pub case_insensitive: bool,
}

/// Why a name cannot be used for a worker's variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableError {
    Invalid { name: String },
    Reserved { name: String },
    BuiltIn { name: String },
}

impl VariableError {
    /// The name that was refused.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Invalid { name } | Self::Reserved { name } | Self::BuiltIn { name } => name,
        }
    }
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { name } => write!(
                f,
                "`{}` is no name for a variable; use letters, digits, `_` and `-`, and begin with a letter or `_`",
                clip(name)
            ),
            Self::Reserved { name } => write!(
                f,
                "the variable `{}` changes how programs run and cannot be set by a fork; use another name",
                clip(name)
            ),
            Self::BuiltIn { name } => write!(
                f,
                "`{}` is a variable that Raymond sets itself and cannot be set by a fork; use another name",
                clip(name)
            ),
        }
    }
}

impl std::error::Error for VariableError {}

/// Checks the name of an attribute that becomes a worker's variable.
///
/// # Errors
///
/// When the name is not valid, when Raymond sets it itself, or when a script may not set it.
pub fn check(name: &str, rules: Rules) -> Result<(), VariableError> {
    let in_scripts = name.replace('-', "_");
    if !is_valid(&in_scripts) || name.starts_with('-') {
        return Err(VariableError::Invalid { name: name.to_owned() });
    }
    if BUILT_IN.contains(&name) {
        return Err(VariableError::BuiltIn { name: name.to_owned() });
    }
    if !rules.from_model && is_reserved(&in_scripts, rules.case_insensitive) {
        return Err(VariableError::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// Checks the name of an environment variable that a workflow sets for all its steps.
///
/// # Errors
///
/// When the name is not that of a variable, or is reserved.
pub fn check_environment(name: &str, case_insensitive: bool) -> Result<(), VariableError> {
    if !is_valid(name) {
        return Err(VariableError::Invalid { name: name.to_owned() });
    }
    if is_reserved(name, case_insensitive) {
        return Err(VariableError::Reserved { name: name.to_owned() });
    }
    Ok(())
}

/// What an attribute is called in the environment of scripts. A name with the prefix is given as written, and also with
/// `_` for each `-`, because shells cannot read the other.
#[must_use]
pub fn environment_names(name: &str, from_model: bool) -> Vec<String> {
    let in_scripts = name.replace('-', "_");
    if !from_model || is_harmless(&in_scripts) {
        return vec![in_scripts];
    }
    let mut names = vec![format!("{PREFIX}{name}")];
    if name != in_scripts {
        names.push(format!("{PREFIX}{in_scripts}"));
    }
    names
}

/// Whether a variable of this name may come from a model.
fn is_harmless(name: &str) -> bool {
    let is_lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(is_lower) && !is_reserved(name, true)
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

    const SCRIPT: Rules = Rules { from_model: false, case_insensitive: false };
    const ON_WINDOWS: Rules = Rules { from_model: false, case_insensitive: true };
    const MODEL: Rules = Rules { from_model: true, case_insensitive: false };

    #[test]
    fn ordinary_names_are_free() {
        for name in [
            "item", "priority", "path", "home", "task", "url", "ITEM_2", "_x", "x", "claude", "issue-id",
            "run-id",
        ] {
            assert_eq!(check(name, SCRIPT), Ok(()), "{name}");
            assert_eq!(check(name, MODEL), Ok(()), "{name}");
        }
        for name in ["item", "priority", "task", "url", "prompt", "file", "name", "index", "os"] {
            assert_eq!(check(name, ON_WINDOWS), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_change_how_programs_run_are_reserved() {
        let names = "PATH HOME SHELL IFS ENV BASH_ENV LD_PRELOAD LD-PRELOAD LD_ DYLD_INSERT_LIBRARIES RAYMOND_RUN_ID \
            ANTHROPIC_API_KEY CLAUDE CLAUDECODE CLAUDE_CONFIG_DIR NODE_OPTIONS PYTHONPATH GIT_DIR SSH_AUTH_SOCK \
            BASHOPTS PERL5LIB RUBYOPT npm_config_registry CARGO CARGO_HOME http_proxy ALL_PROXY LC_ALL TERM \
            AWS_PROFILE OPENCODE_PERMISSION COPILOT_ALLOW_ALL _";
        for name in names.split_ascii_whitespace() {
            let reserved = Err(VariableError::Reserved { name: name.into() });
            assert_eq!(check(name, SCRIPT), reserved, "{name}");
            assert_eq!(check(name, ON_WINDOWS), reserved, "{name}");
            assert_eq!(check(name, MODEL), Ok(()), "{name}");
            if !name.contains('-') {
                assert_eq!(check_environment(name, false), reserved, "{name}");
            }
        }
    }

    #[test]
    fn on_windows_case_does_not_matter() {
        for name in ["Path", "path", "home", "ComSpec", "Http_Proxy", "pythonpath", "raymond_x"] {
            assert_eq!(check(name, ON_WINDOWS), Err(VariableError::Reserved { name: name.into() }), "{name}");
        }
    }

    #[test]
    fn variables_of_raymond_cannot_be_set() {
        for name in BUILT_IN {
            for rules in [SCRIPT, MODEL] {
                assert_eq!(check(name, rules), Err(VariableError::BuiltIn { name: name.into() }));
            }
            assert_eq!(check_environment(name, false), Ok(()), "{name}");
        }
    }

    #[test]
    fn other_names_are_invalid() {
        for name in ["", "1a", "-a", "a.b", "a b", "ä", "a=b", "a\0", "PATH=", "日_PROXY"] {
            let invalid = Err(VariableError::Invalid { name: name.into() });
            assert_eq!(check(name, SCRIPT), invalid, "{name}");
            assert_eq!(check(name, MODEL), invalid, "{name}");
            assert_eq!(check_environment(name, false), invalid, "{name}");
        }
        assert!(check_environment("a-b", false).is_err());
    }

    #[test]
    fn a_model_cannot_choose_any_variable() {
        let cases = [
            ("item", "item", "item"),
            ("issue-id", "issue_id", "issue_id"),
            ("n2_x", "n2_x", "n2_x"),
            ("ITEM", "ITEM", "RAYMOND_VAR_ITEM"),
            ("itemId", "itemId", "RAYMOND_VAR_itemId"),
            ("TAR_OPTIONS", "TAR_OPTIONS", "RAYMOND_VAR_TAR_OPTIONS"),
            ("path", "path", "RAYMOND_VAR_path"),
            ("ld-preload", "ld_preload", "RAYMOND_VAR_ld-preload RAYMOND_VAR_ld_preload"),
            ("http_proxy", "http_proxy", "RAYMOND_VAR_http_proxy"),
            ("my_proxy", "my_proxy", "RAYMOND_VAR_my_proxy"),
            ("npm_config_registry", "npm_config_registry", "RAYMOND_VAR_npm_config_registry"),
            ("raymond_var_x", "raymond_var_x", "RAYMOND_VAR_raymond_var_x"),
        ];
        for (name, of_script, of_model) in cases {
            assert_eq!(environment_names(name, false).join(" "), of_script, "{name}");
            assert_eq!(environment_names(name, true).join(" "), of_model, "{name}");
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
            "`a.b` is no name for a variable; use letters, digits, `_` and `-`, and begin with a letter or `_`",
        );
        check_message(
            "state",
            "`state` is a variable that Raymond sets itself and cannot be set by a fork; use another name",
        );
    }

    fn check_message(name: &str, message: &str) {
        assert_eq!(check(name, SCRIPT).unwrap_err().to_string(), message);
    }
}
