//! The arguments, parsed as the real program parses them.

/// Flags that take no value.
const SWITCHES: [&str; 9] = [
    "-p",
    "--print",
    "--verbose",
    "--version",
    "--fork-session",
    "--dangerously-skip-permissions",
    "--include-partial-messages",
    "--strict-mcp-config",
    "--no-session-persistence",
];

const WITH_VALUE: [&str; 14] = [
    "--output-format",
    "--input-format",
    "--session-id",
    "--resume",
    "--model",
    "--effort",
    "--permission-mode",
    "--max-budget-usd",
    "--max-turns",
    "--settings",
    "--append-system-prompt",
    "--fallback-model",
    "--json-schema",
    "--agents",
];

/// Flags that take everything up to the next flag, a prompt included.
const WITH_LIST: [&str; 4] = ["--allowedTools", "--disallowedTools", "--add-dir", "--mcp-config"];

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Args {
    pub(crate) version: bool,
    pub(crate) prompt: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) resume: Option<String>,
    pub(crate) fork: bool,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) budget_usd: Option<f64>,
    print: bool,
    verbose: bool,
    skip_permissions: bool,
    output_format: Option<String>,
}

impl Args {
    /// The error is the text that the real program would print.
    pub(crate) fn parse(argv: &[String]) -> Result<Args, String> {
        let mut args = Args::default();
        let mut rest = argv.iter().map(String::as_str).peekable();
        while let Some(arg) = rest.next() {
            let (flag, joined) = match arg.split_once('=') {
                Some((flag, value)) if arg.starts_with("--") => (flag, Some(value)),
                _ => (arg, None),
            };
            if SWITCHES.contains(&flag) {
                args.switch(flag);
            } else if WITH_VALUE.contains(&flag) {
                let value = joined.or_else(|| rest.next());
                args.value(flag, value.ok_or(format!("error: option '{flag} <value>' argument missing"))?)?;
            } else if WITH_LIST.contains(&flag) {
                let first = joined.or_else(|| rest.next());
                first.ok_or(format!("error: option '{flag} <values...>' argument missing"))?;
                while joined.is_none() && rest.next_if(|value| !value.starts_with('-')).is_some() {}
            } else if arg.starts_with('-') && arg.len() > 1 {
                return Err(format!("error: unknown option '{flag}'"));
            } else {
                args.prompt = Some(arg.to_owned());
            }
        }
        args.check()
    }

    fn switch(&mut self, flag: &str) {
        match flag {
            "-p" | "--print" => self.print = true,
            "--verbose" => self.verbose = true,
            "--version" => self.version = true,
            "--fork-session" => self.fork = true,
            "--dangerously-skip-permissions" => {
                self.skip_permissions = true;
                self.permission_mode = Some("bypassPermissions".to_owned());
            }
            _ => {}
        }
    }

    fn value(&mut self, flag: &str, value: &str) -> Result<(), String> {
        let owned = Some(value.to_owned());
        match flag {
            "--output-format" => self.output_format = owned,
            "--session-id" => self.session = owned,
            "--resume" => self.resume = owned,
            "--model" => self.model = owned,
            "--effort" => self.effort = owned,
            "--permission-mode" => self.permission_mode = owned,
            "--max-budget-usd" => {
                let budget = value.parse().ok().filter(|usd: &f64| *usd > 0.0);
                let refusal = "error: --max-budget-usd must be a positive number greater than 0";
                self.budget_usd = Some(budget.ok_or(refusal)?);
            }
            _ => {}
        }
        Ok(())
    }

    fn check(self) -> Result<Args, String> {
        if self.version {
            return Ok(self);
        }
        let pretends_root = std::env::var_os("FAKE_CLAUDE_ROOT").is_some();
        let sandboxed = std::env::var("IS_SANDBOX").is_ok_and(|value| value == "1");
        if self.skip_permissions && pretends_root && !sandboxed {
            return Err("--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
                .to_owned());
        }
        if !self.print || self.output_format.as_deref() != Some("stream-json") {
            return Err("fake-claude: only -p --output-format stream-json is supported".to_owned());
        }
        if !self.verbose {
            return Err(
                "Error: When using --print, --output-format=stream-json requires --verbose".to_owned()
            );
        }
        if self.session.as_deref().is_some_and(|id| uuid::Uuid::try_parse(id).is_err()) {
            return Err("Error: Invalid session ID. Must be a valid UUID.".to_owned());
        }
        if self.session.is_some() && self.resume.is_some() && !self.fork {
            return Err(
                "Error: --session-id can only be used with --resume if --fork-session is also specified."
                    .to_owned(),
            );
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        let mut argv: Vec<String> =
            ["-p", "--output-format", "stream-json", "--verbose"].map(str::to_owned).to_vec();
        argv.extend(line.split_whitespace().map(str::to_owned));
        Args::parse(&argv)
    }

    #[test]
    fn a_list_flag_takes_a_following_prompt_unless_written_with_an_equals_sign() {
        assert_eq!(parse("--allowedTools Bash hello").unwrap().prompt, None);
        assert_eq!(parse("--allowedTools=Bash hello").unwrap().prompt.as_deref(), Some("hello"));
    }

    #[test]
    fn unknown_options_and_invalid_values_are_refused() {
        assert_eq!(parse("--nope").unwrap_err(), "error: unknown option '--nope'");
        assert!(parse("--session-id 5").unwrap_err().contains("valid UUID"));
        assert!(parse("--max-budget-usd=0").unwrap_err().contains("positive number"));
    }
}
