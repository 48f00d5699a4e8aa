//! Draws the view below whatever is written to the same terminal.
//!
//! Lines that stay are written where the view begins, and the view is drawn again below them. Both go out in one write,
//! at most ten times a second. At all other times the screen is whole and the cursor is where it can be seen, so that a
//! program that is killed leaves nothing half done.
//!
//! Bounds: lines that stay are held back for a tenth of a second or up to [`MOST_PENDING`], while a question is being
//! answered for as long as that takes or up to [`MOST_HELD`].

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::fit::clip;
use super::lock;
use super::model::Model;
use super::render::{self, Line, render};
use super::tty::{Echo, Tty};
use crate::cli::panics;
use crate::view::output::{Chunk, Sink};

/// The least time between two drawings, and before the first one: what is over sooner needs no view.
const BETWEEN_DRAWINGS: Duration = Duration::from_millis(100);
/// How often times that are shown have to change.
const CLOCK: Duration = Duration::from_secs(1);
const MOST_PENDING: usize = 64 * 1024;
const MOST_HELD: usize = 1024 * 1024;
const MOST_TITLE: usize = 100;

/// Everything up to the end is shown at once, the cursor hidden meanwhile.
const BEGIN: &str = "\x1b[?2026h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?2026l";
/// A line that turns out to be too long ends at the margin.
const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";
const UP: &str = "\x1b[A";
/// Lines are cleared one by one: where the whole screen is cleared, some terminals keep a copy of it.
const CLEAR_LINE: &str = "\r\x1b[K";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_REST_OF_SCREEN: &str = "\x1b[J";
const SAVE_TITLE: &str = "\x1b[22;0t";
const RESTORE_TITLE: &str = "\x1b[23;0t";

pub(super) struct Screen<W: Write> {
    out: W,
    tty: Tty,
    model: Arc<Mutex<Model>>,
    state: State,
    /// Lines that stay and are not written yet.
    pending: Vec<u8>,
    /// What the view shows at present, and on a terminal of which width.
    drawn: Vec<Line>,
    columns: usize,
    looked: Instant,
    rendered: Option<Instant>,
    /// Set once the old title is saved.
    title: Option<String>,
    /// How the terminal was before typing was hidden.
    echo: Option<Echo>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Drawing,
    /// Somebody is answering a question; nothing may disturb that.
    Held,
    Closed,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(out: W, tty: Tty, model: Arc<Mutex<Model>>) -> Self {
        Self {
            out,
            tty,
            model,
            state: State::Drawing,
            pending: Vec::new(),
            drawn: Vec::new(),
            columns: 0,
            looked: Instant::now(),
            rendered: None,
            title: None,
            echo: None,
        }
    }

    fn text(&mut self, text: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(text);
        match self.state {
            State::Drawing if self.pending.len() > MOST_PENDING => self.draw(),
            State::Drawing => Ok(()),
            State::Held if self.pending.len() <= MOST_HELD => Ok(()),
            State::Held | State::Closed => self.write_pending(),
        }
    }

    fn write_pending(&mut self) -> io::Result<()> {
        self.out.write_all(&std::mem::take(&mut self.pending))?;
        self.out.flush()
    }

    /// Draws what has changed, if anything has.
    fn draw(&mut self) -> io::Result<()> {
        self.looked = Instant::now();
        let (columns, rows) = self.tty.size();
        let is_due = self.rendered.is_none_or(|time| time.elapsed() >= CLOCK) || columns != self.columns;
        let has_changed = lock(&self.model).take_change();
        if !has_changed && !is_due && self.pending.is_empty() {
            return Ok(());
        }
        let rendered = panics::catch(|| {
            let model = lock(&self.model);
            (render(&model, Timestamp::now(), columns, rows), render::title(&model))
        });
        let Some((view, title)) = rendered else {
            // Better no view than no word about the run. What the panic has printed stays.
            self.drawn.clear();
            return self.close();
        };
        self.rendered = Some(self.looked);
        if !self.tty.is_ours() {
            // In the background lines go by, but nothing is drawn.
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

    /// All that goes out for one drawing. Lines of the view are written over, which flickers less than clearing first.
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

    /// From the end of the view to its first line.
    fn back_to_top(&self) -> String {
        UP.repeat(self.drawn.len().saturating_sub(1))
    }

    /// The same, and everything is cleared on the way. A terminal that got narrower has broken the view's lines.
    fn wipe(&self, columns: usize, rows: usize) -> String {
        let broken = |line: &Line| line.width().max(1).div_ceil(columns.max(1));
        let lines: usize = self.drawn.iter().map(broken).sum();
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

    /// Takes the view off the screen and writes what waits to be written.
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
        if self.state == State::Drawing {
            self.state = State::Held;
        }
        self.out.write_all(question)?;
        self.out.flush()
    }

    /// What was typed and not sent goes with the first drawing.
    fn go_on(&mut self) {
        if self.state == State::Held {
            self.state = State::Drawing;
            self.columns = 0;
            self.rendered = None;
        }
    }

    /// Somebody else has written to the terminal.
    fn draw_again(&mut self) {
        self.drawn.clear();
        self.columns = 0;
        self.rendered = None;
        // Whoever had the terminal meanwhile may have set it up anew.
        if self.echo.is_some() && self.tty.is_ours() {
            let _ = self.tty.hide_typing();
        }
    }

    fn close(&mut self) -> io::Result<()> {
        if self.state == State::Closed {
            return Ok(());
        }
        if self.state == State::Held {
            // What is half typed is not sent any more.
            self.out.write_all(CLEAR_LINE.as_bytes())?;
        }
        self.state = State::Closed;
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
            Chunk::Question(question) => self.ask(&question)?,
            Chunk::GoOn => self.go_on(),
            Chunk::DrawAgain => self.draw_again(),
            Chunk::Close => self.close()?,
        }
        if self.patience() == Some(Duration::ZERO) { self.idle() } else { Ok(()) }
    }

    fn patience(&self) -> Option<Duration> {
        match self.state {
            State::Drawing => Some(BETWEEN_DRAWINGS.saturating_sub(self.looked.elapsed())),
            State::Held | State::Closed => None,
        }
    }

    fn idle(&mut self) -> io::Result<()> {
        match self.state {
            State::Drawing => self.draw(),
            State::Held | State::Closed => Ok(()),
        }
    }
}

/// However the thread ends, the terminal is left in order.
impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let _ = self.close();
    }
}
