//! Batch files and PowerShell scripts.

use super::Reader;

/// Commands of PowerShell that print their arguments.
const PRINTING: [&str; 4] = ["write-output", "write-host", "echo", "write"];

/// What comes after one of these words is a command of its own.
const RESERVED: [&str; 3] = ["return", "else", "do"];

impl Reader<'_> {
    // Batch files: `echo TEXT` to the end of the line.

    pub(super) fn read_batch(&mut self) {
        while self.peek().is_some() {
            self.read_batch_line();
        }
    }

    fn read_batch_line(&mut self) {
        let mut depth = 0_usize;
        let mut is_first = true;
        loop {
            while self.rest().starts_with([' ', '\t', '@']) {
                self.next();
            }
            match self.peek() {
                None => return,
                Some('\n') => {
                    self.next();
                    return;
                }
                Some('(') => {
                    depth += 1;
                    self.next();
                }
                Some('&' | '|' | ')') => {
                    self.next();
                }
                Some('"') => self.skip_past('"'),
                Some(':') if is_first => self.skip_to("\n"),
                Some(_) => {
                    let word = self.batch_word();
                    if word.eq_ignore_ascii_case("rem") {
                        self.skip_to("\n");
                    } else if word.eq_ignore_ascii_case("echo") {
                        self.read_echo(depth > 0);
                    }
                }
            }
            is_first = false;
        }
    }

    fn batch_word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|letter| !" \t\r\n()&|\".:/".contains(letter)) {
            self.next();
        }
        if self.at == start {
            self.next();
        }
        self.script.get(start..self.at).unwrap_or_default().to_owned()
    }

    /// The text of an `echo`. Quotes are printed, and `^` escapes only outside of them.
    fn read_echo(&mut self, is_in_block: bool) {
        let before = self.printed.text.len();
        if self.rest().starts_with([' ', '\t', '.', ':', '(', '/']) {
            self.next();
        }
        let (mut is_quoted, mut goes_elsewhere) = (false, false);
        while let Some(letter) = self.peek().filter(|letter| *letter != '\n') {
            let place = self.at;
            match letter {
                '"' => is_quoted = !is_quoted,
                '&' | '|' if !is_quoted => break,
                ')' if !is_quoted && is_in_block => break,
                '>' if !is_quoted => {
                    goes_elsewhere |= !self.script.get(..place).is_some_and(|text| text.ends_with('2'));
                }
                _ => {}
            }
            match letter {
                '^' if !is_quoted => {
                    self.next();
                    if let Some(escaped) = self.next() {
                        self.printed.push(escaped, place);
                    }
                }
                '%' | '!' if self.skip_batch_variable(letter) => self.printed.push_computed(place, false),
                _ => {
                    self.printed.push(letter, place);
                    self.next();
                }
            }
        }
        let text = self.printed.text.get(before..).unwrap_or_default().trim();
        if goes_elsewhere || text.eq_ignore_ascii_case("on") || text.eq_ignore_ascii_case("off") {
            self.printed.truncate(before);
        } else {
            self.printed.push('\n', self.at);
        }
    }

    /// Skips `%name%`, `!name!`, `%%x`, `%1` or `%~dp0`; returns whether there is one.
    fn skip_batch_variable(&mut self, mark: char) -> bool {
        let rest = self.rest().get(1..).unwrap_or_default();
        let line = rest.lines().next().unwrap_or_default();
        let is_name = |text: &str| !text.is_empty() && !text.contains([' ', '<', '>', '^', '"']);
        let named = line.split_once(mark).map(|(name, _)| name).filter(|name| is_name(name));
        let length = match named {
            Some(name) => name.len() + 1,
            None if mark == '!' => return false,
            None => {
                let skipped = rest.trim_start_matches(['%', '~']);
                let letters = skipped.chars().take_while(char::is_ascii_alphanumeric).count();
                let tilde = rest.len() - skipped.len();
                // `%~dp0` has several letters, `%1` and `%%x` have one; a `%` alone is printed.
                match rest.starts_with('~') || rest.starts_with("%~") {
                    true => tilde + letters,
                    false => tilde + letters.min(1),
                }
            }
        };
        if length == 0 {
            return false;
        }
        self.at += 1 + length;
        true
    }

    fn skip_past(&mut self, quote: char) {
        self.next();
        while self.peek().is_some_and(|letter| letter != '\n') {
            if self.next() == Some(quote) {
                return;
            }
        }
    }

    // PowerShell: strings that are a statement of their own, and those that are given to a command that prints.

    pub(super) fn read_powershell(&mut self) {
        while let Some(letter) = self.peek() {
            match letter {
                '#' => self.skip_to("\n"),
                '<' if self.rest().starts_with("<#") => {
                    self.skip_to("#>");
                    self.next();
                }
                _ if letter.is_whitespace() || ";{}()|,=&".contains(letter) => {
                    self.next();
                }
                _ => self.read_statement(),
            }
        }
    }

    /// Reads a statement up to its end, or up to a block that has statements of its own.
    fn read_statement(&mut self) {
        let before = self.printed.text.len();
        if self.is_at_string() {
            self.read_printed_arguments(before);
            return;
        }
        let word = self.powershell_word().to_ascii_lowercase();
        if RESERVED.contains(&word.as_str()) {
            return;
        }
        if PRINTING.contains(&word.as_str()) || word.starts_with("[console]::") {
            self.read_printed_arguments(before);
            return;
        }
        let is_variable = word.starts_with('$');
        let mut is_assigned = false;
        while let Some(letter) = self.peek() {
            match letter {
                '\n' | ';' | '}' => return,
                '{' if !is_assigned => return,
                '{' => self.skip_nested('{', '}'),
                '(' => self.skip_nested('(', ')'),
                '#' => return,
                '=' => {
                    is_assigned |= is_variable;
                    self.next();
                }
                _ if self.is_at_string() => {
                    let before = self.printed.text.len();
                    self.read_powershell_string();
                    self.printed.truncate(before);
                }
                _ => {
                    self.next();
                }
            }
        }
    }

    fn powershell_word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|letter| !letter.is_whitespace() && !"(){};|,='\"".contains(letter)) {
            self.next();
        }
        if self.at == start {
            self.next();
        }
        self.script.get(start..self.at).unwrap_or_default().to_owned()
    }

    /// Reads what is printed: strings, and a placeholder for everything that is computed. What goes through a pipe or
    /// to a file may never be printed.
    fn read_printed_arguments(&mut self, before: usize) {
        let mut goes_elsewhere = false;
        let mut depth = 0_usize;
        while let Some(letter) = self.peek() {
            let place = self.at;
            match letter {
                '\n' | ';' | '}' if depth == 0 => break,
                '|' | '>' => {
                    goes_elsewhere = true;
                    self.next();
                }
                '(' if self.printed.text.len() == before && depth == 0 => {
                    depth += 1;
                    self.next();
                }
                '(' => {
                    self.skip_nested('(', ')');
                    self.printed.push_computed(place, true);
                }
                ')' => {
                    depth = depth.saturating_sub(1);
                    self.next();
                }
                _ if self.is_at_string() => self.read_powershell_string(),
                '$' => self.read_powershell_variable(true),
                _ if letter.is_whitespace() || ",+".contains(letter) => {
                    self.next();
                }
                _ => {
                    self.powershell_word();
                }
            }
        }
        if goes_elsewhere {
            self.printed.truncate(before);
        } else {
            self.printed.push('\n', self.at);
        }
    }

    fn is_at_string(&self) -> bool {
        self.rest().trim_start_matches('@').starts_with(['\'', '"']) && !self.rest().starts_with("@@")
    }

    /// Reads a string of either kind, or a here-string, and adds what it stands for to the printed text.
    fn read_powershell_string(&mut self) {
        let is_here = self.peek() == Some('@');
        if is_here {
            self.next();
        }
        let Some(quote) = self.next() else { return };
        let end = if is_here { format!("\n{quote}@") } else { quote.to_string() };
        if is_here {
            self.skip_to("\n");
            self.next();
        }
        while let Some(letter) = self.peek() {
            let place = self.at;
            let doubled: String = [quote, quote].iter().collect();
            if !is_here && self.rest().starts_with(&doubled) {
                self.at += doubled.len();
                self.printed.push(quote, place);
            } else if self.rest().starts_with(&end) {
                self.at += end.len();
                return;
            } else if quote == '"' && letter == '`' {
                self.next();
                if let Some(escaped) = self.next() {
                    self.printed.push(if escaped == 'n' { '\n' } else { escaped }, place);
                }
            } else if quote == '"' && letter == '$' {
                self.read_powershell_variable(false);
            } else {
                self.printed.push(letter, place);
                self.next();
            }
        }
    }

    /// Skips `$name`, `${…}` or `$(…)`; outside of a string also what is taken from it, such as `$name.Length`.
    fn read_powershell_variable(&mut self, is_code: bool) {
        let place = self.at;
        self.next();
        match self.peek() {
            Some('(') => {
                self.skip_nested('(', ')');
                self.printed.push_computed(place, true);
            }
            Some('{') => {
                self.skip_nested('{', '}');
                self.printed.push_computed(place, false);
            }
            Some(first) if first.is_ascii_alphanumeric() || first == '_' => {
                let more = if is_code { "_:.[]" } else { "_:" };
                while self
                    .peek()
                    .is_some_and(|letter| letter.is_ascii_alphanumeric() || more.contains(letter))
                {
                    self.next();
                }
                self.printed.push_computed(place, is_code);
            }
            _ => self.printed.push('$', place),
        }
    }
}
