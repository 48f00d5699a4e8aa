//! The terminal behind stderr: how large it is, whether it is ours, and what it does with what is typed.

use std::io;

use terminal_size::{Height, Width, terminal_size_of};

/// What is assumed of a terminal that does not say.
const USUAL_SIZE: (usize, usize) = (80, 24);

#[derive(Clone, Copy, Debug)]
pub(super) struct Tty;

impl Tty {
    /// Columns and rows.
    pub(super) fn size(self) -> (usize, usize) {
        match terminal_size_of(io::stderr()) {
            Some((Width(columns), Height(rows))) if columns > 0 && rows > 0 => (columns.into(), rows.into()),
            _ => USUAL_SIZE,
        }
    }

    /// Whether a view may be drawn at all. In the background it would be drawn over what others write.
    pub(super) fn can_be_drawn_on(self) -> bool {
        use io::IsTerminal;
        // On Windows the terminal must be told to obey escapes.
        let _ = anstream::AutoStream::always_ansi(io::stderr());
        io::stderr().is_terminal() && self.is_ours()
    }

    /// Whether it has a title. Linux's own console would print what sets it.
    pub(super) fn has_title(self) -> bool {
        std::env::var_os("TERM").is_none_or(|name| name != "linux")
    }
}

#[cfg(unix)]
mod system {
    use std::io;

    use rustix::process::getpgrp;
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

    use super::Tty;

    /// How the terminal was before.
    pub(in super::super) struct Echo(Option<Termios>);

    impl Tty {
        /// Whether this program is in the foreground, as far as the terminal tells one from the other.
        pub(in super::super) fn is_ours(self) -> bool {
            tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
        }

        /// Keeps what is typed from being shown in the middle of the view. It can still be read, and Ctrl-C works.
        pub(in super::super) fn hide_typing(self) -> Echo {
            let Ok(before) = tcgetattr(io::stderr()) else { return Echo(None) };
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
            let _ = tcsetattr(io::stderr(), OptionalActions::Now, &hidden);
            Echo(Some(before))
        }

        /// Shows again what is typed.
        pub(in super::super) fn show_typing(self, echo: Echo) {
            // Whoever took the terminal over has set it up for himself.
            if let Echo(Some(before)) = echo
                && self.is_ours()
            {
                let _ = tcsetattr(io::stderr(), OptionalActions::Now, &before);
            }
        }
    }
}

#[cfg(not(unix))]
mod system {
    use super::Tty;

    pub(in super::super) struct Echo;

    /// A console shows what is typed only to whoever reads it.
    impl Tty {
        pub(in super::super) fn is_ours(self) -> bool {
            true
        }

        pub(in super::super) fn hide_typing(self) -> Echo {
            Echo
        }

        pub(in super::super) fn show_typing(self, _echo: Echo) {}
    }
}

pub(super) use system::Echo;
