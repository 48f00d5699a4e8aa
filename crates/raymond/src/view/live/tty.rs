//! The terminal behind stderr: its size, whether this process is in its foreground, and whether it echoes typing.

use std::io;

use terminal_size::{Height, Width, terminal_size_of};

/// The size that is assumed if the terminal does not tell it.
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

    /// Whether a view may be drawn at all. In the background it would overwrite the output of other programs.
    pub(super) fn can_be_drawn_on(self) -> bool {
        use io::IsTerminal;
        // This makes a Windows console interpret escape sequences.
        let _ = anstream::AutoStream::always_ansi(io::stderr());
        io::stderr().is_terminal() && self.is_ours()
    }

    /// Whether it has a title. Linux's own console would print the sequence that sets it.
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

    /// The terminal's settings before typing was hidden.
    pub(in super::super) struct Echo(Option<Termios>);

    impl Tty {
        /// Whether this process is in the terminal's foreground process group; true if the terminal has none.
        pub(in super::super) fn is_ours(self) -> bool {
            tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
        }

        /// Stops the terminal from showing typed characters in the middle of the view. They can still be read, and
        /// Ctrl-C works.
        pub(in super::super) fn hide_typing(self) -> Echo {
            let Ok(before) = tcgetattr(io::stderr()) else { return Echo(None) };
            let mut hidden = before.clone();
            hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
            let _ = tcsetattr(io::stderr(), OptionalActions::Now, &hidden);
            Echo(Some(before))
        }

        /// Makes the terminal show typed characters again.
        pub(in super::super) fn show_typing(self, echo: Echo) {
            // A program that has taken over the foreground has its own settings.
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

    /// A Windows console shows typed characters only while a program reads them, so there is nothing to hide.
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
