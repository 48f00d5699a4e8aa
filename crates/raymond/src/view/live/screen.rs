//! Draws the view below the other lines that are written to the same terminal.
//!
//! Such lines are written where the view begins, and the view is drawn again below them. Both go out in one write, at
//! most ten times a second. Between two writes the screen is complete and the cursor visible, so that a program that is
//! killed leaves no half-drawn view.
//!
//! Bounds: lines are held back for a tenth of a second or up to [`MOST_PENDING`] bytes; while a person answers a
//! question, until the answer is there or up to [`MOST_HELD`] bytes.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::fit::clip;
use super::lock;
use super::render::{self, Line, render};
use super::scene::Scene;
use super::tty::{Echo, Tty};
use crate::cli::panics;
use crate::view::output::{Chunk, Sink};

/// The shortest time between two drawings, and before the first one: a run that ends sooner needs no view.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
/// How often the view is drawn although nothing has changed, because it shows times.
const CLOCK: Duration = Duration::from_secs(1);
const MOST_PENDING: usize = 64 * 1024;
const MOST_HELD: usize = 1024 * 1024;
const MOST_TITLE: usize = 100;

/// Between these two the terminal shows nothing new and hides the cursor, so that the view does not flicker.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";
/// A line that is too long after all is cut off at the margin.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const UP: &str = "\x1b[A";
/// Lines are cleared one by one: some terminals copy a screen that is cleared at once into their scrollback.
const CLEAR_LINE: &str = "\r\x1b[K";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_REST_OF_SCREEN: &str = "\x1b[J";
const SAVE_TITLE: &str = "\x1b[22;0t";
const RESTORE_TITLE: &str = "\x1b[23;0t";

pub(super) struct Screen<W: Write> {
    out: W,
    tty: Tty,
    scene: Arc<Mutex<Scene>>,
    phase: Phase,
    /// Lines that are not written yet.
    pending: Vec<u8>,
    /// The view as it is on the screen, and the width of the terminal when it was drawn.
    drawn: Vec<Line>,
    columns: usize,
    /// When it was last checked whether there is something to draw.
    checked: Instant,
    rendered: Option<Instant>,
    /// The title that was set last; the one before the first was saved.
    title: Option<String>,
    /// The terminal's settings before typing was hidden.
    echo: Option<Echo>,
}

/// What the screen is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The view is drawn.
    Drawing,
    /// A person is answering a question; nothing else may be written.
    Asking,
    /// Nothing is drawn any more.
    Closed,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, tty: Tty, scene: Arc<Mutex<Scene>>) -> Self {
        Self {
            out,
            tty,
            scene,
            phase: Phase::Drawing,
            pending: Vec::new(),
            drawn: Vec::new(),
            columns: 0,
            checked: Instant::now(),
            rendered: None,
            title: None,
            echo: None,
        }
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(text);
        match self.phase {
            Phase::Drawing if self.pending.len() > MOST_PENDING => self.draw(),
            Phase::Drawing => Ok(()),
            Phase::Asking if self.pending.len() <= MOST_HELD => Ok(()),
            Phase::Asking | Phase::Closed => self.write_pending(),
        }
    }

    fn write_pending(&mut self) -> io::Result<()> {
        self.out.write_all(&std::mem::take(&mut self.pending))?;
        self.out.flush()
    }

    /// Draws what has changed, if anything has.
    fn draw(&mut self) -> io::Result<()> {
        self.checked = Instant::now();
        let (columns, rows) = self.tty.size();
        let is_due = self.rendered.is_none_or(|time| time.elapsed() >= CLOCK) || columns != self.columns;
        let has_changed = lock(&self.scene).take_change();
        if !has_changed && !is_due && self.pending.is_empty() {
            return Ok(());
        }
        let rendered = panics::catch(|| {
            let scene = lock(&self.scene);
            (render(&scene, crate::clock::now(), columns, rows), render::title(&scene.picture))
        });
        if self.tty.size() != (columns, rows) {
            // Drawn for the old size, it would leave lines behind.
            self.rendered = None;
            return self.draw();
        }
        let Some((view, title)) = rendered else {
            // Go on without a view, so that lines still appear. The message of the panic stays on the screen.
            self.drawn.clear();
            return self.close();
        };
        self.rendered = Some(self.checked);
        if !self.tty.is_ours() {
            // In the background only lines are written; drawing would disturb the program in the foreground.
            self.drawn.clear();
            return self.write_pending();
        }
        self.echo.get_or_insert_with(|| self.tty.hide_typing());
        let title = self.new_title(title);
        if view == self.drawn && columns == self.columns && self.pending.is_empty() && title.is_empty() {
            return Ok(());
        }
        let frame = self.frame(&view, columns, rows, &title);
        (self.drawn, self.columns) = (view, columns);
        self.out.write_all(&frame)?;
        self.out.flush()
    }

    /// The bytes of one drawing. Lines of the view are overwritten, which flickers less than clearing them first.
    fn frame(&mut self, view: &[Line], columns: usize, rows: usize, title: &str) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend_from_slice(BEGIN.as_bytes());
        frame.extend_from_slice(title.as_bytes());
        if self.pending.is_empty() && columns == self.columns {
            frame.extend_from_slice(self.back_to_top().as_bytes());
        } else {
            frame.extend_from_slice(self.wipe(columns, rows).as_bytes());
            if self.pending.last().is_some_and(|byte| *byte != b'\n') {
                self.pending.push(b'\n');
            }
            frame.append(&mut self.pending);
        }
        frame.extend_from_slice(NO_WRAP.as_bytes());
        for (index, line) in view.iter().enumerate() {
            let line_break = if index > 0 { "\n" } else { "" };
            frame.extend_from_slice(format!("{line_break}\r{}{CLEAR_REST_OF_LINE}", line.ansi()).as_bytes());
        }
        frame.extend_from_slice(format!("{CLEAR_REST_OF_SCREEN}{WRAP}{END}").as_bytes());
        frame
    }

    /// Moves the cursor from the view's last line to its first.
    fn back_to_top(&self) -> String {
        UP.repeat(self.drawn.len().saturating_sub(1))
    }

    /// The same, and clears all lines of the view. A terminal that became narrower has wrapped them.
    fn wipe(&self, columns: usize, rows: usize) -> String {
        let wrapped = |line: &Line| line.width().max(1).div_ceil(columns.max(1));
        let lines: usize = self.drawn.iter().map(wrapped).sum();
        let more = lines.min(rows).saturating_sub(1);
        format!("{CLEAR_LINE}{}", format!("{UP}{CLEAR_LINE}").repeat(more))
    }

    fn new_title(&mut self, title: String) -> String {
        if !self.tty.has_title() || self.title.as_ref() == Some(&title) {
            return String::new();
        }
        let save = if self.title.is_none() { SAVE_TITLE } else { "" };
        let set = format!("{save}\x1b]0;{}\x1b\\", clip(&title, MOST_TITLE));
        self.title = Some(title);
        set
    }

    /// Takes the view off the screen and writes the lines that are pending.
    fn clear(&mut self) -> io::Result<()> {
        if !self.drawn.is_empty() {
            let (columns, rows) = self.tty.size();
            let clear = self.wipe(columns, rows);
            self.drawn.clear();
            self.out.write_all(clear.as_bytes())?;
        }
        self.write_pending()
    }

    fn show_typing(&mut self) {
        if let Some(echo) = self.echo.take() {
            self.tty.show_typing(echo);
        }
    }

    fn ask(&mut self, question: &[u8]) -> io::Result<()> {
        self.clear()?;
        self.show_typing();
        if self.phase == Phase::Drawing {
            self.phase = Phase::Asking;
        }
        self.out.write_all(question)?;
        self.out.flush()
    }

    /// Draws again after a question. The first drawing overwrites what was typed without pressing Enter.
    fn go_on(&mut self) {
        if self.phase == Phase::Asking {
            self.phase = Phase::Drawing;
            self.columns = 0;
            self.rendered = None;
        }
    }

    /// Draws everything again after another program has written to the terminal.
    fn draw_again(&mut self) {
        self.drawn.clear();
        self.columns = 0;
        self.rendered = None;
        // That program may have changed the terminal's settings.
        if self.echo.is_some() && self.tty.is_ours() {
            let _ = self.tty.hide_typing();
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if self.phase == Phase::Closed {
            return Ok(());
        }
        if self.phase == Phase::Asking {
            // Clear what was typed without pressing Enter.
            self.out.write_all(CLEAR_LINE.as_bytes())?;
        }
        self.phase = Phase::Closed;
        let cleared = self.clear();
        self.show_typing();
        if self.title.take().is_some() {
            self.out.write_all(RESTORE_TITLE.as_bytes())?;
            self.out.flush()?;
        }
        cleared
    }
}

impl<W: Write + Send> Sink for Screen<W> {
    fn take(&mut self, chunk: Chunk) -> io::Result<()> {
        match chunk {
            Chunk::Text(text) => self.text(&text)?,
            Chunk::Question { text, shown: _shown } => self.ask(&text)?,
            Chunk::GoOn => self.go_on(),
            Chunk::DrawAgain => self.draw_again(),
            Chunk::Close => self.close()?,
        }
        if self.patience() == Some(Duration::ZERO) { self.idle() } else { Ok(()) }
    }

    fn patience(&self) -> Option<Duration> {
        match self.phase {
            Phase::Drawing => Some(BETWEEN_DRAWINGS.saturating_sub(self.checked.elapsed())),
            Phase::Asking | Phase::Closed => None,
        }
    }

    fn idle(&mut self) -> io::Result<()> {
        match self.phase {
            Phase::Drawing => self.draw(),
            Phase::Asking | Phase::Closed => Ok(()),
        }
    }
}

/// The terminal is restored however the thread ends.
impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
