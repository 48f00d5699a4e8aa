//! The live view: on a terminal, the bottom of the screen shows what every agent is doing.
//!
//! [`model`] is folded from events, [`render`](mod@render) makes lines of it, and [`screen`] draws them, on the thread
//! that writes stderr anyway. The run only ever changes the model, so it never waits for a terminal.

mod fit;
mod model;
mod render;
mod screen;
mod tty;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use raymond_core::event::Event;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

use self::model::Model;
use self::screen::Screen;
use self::tty::Tty;
use super::Observer;
use crate::run::driver::Stop;
use crate::view::output::Output;

/// How long a program that fails waits for its screen to be put in order.
const LAST_DRAWING: Duration = Duration::from_secs(1);
/// How often it looks whether that has happened.
const LOOK: Duration = Duration::from_millis(1);

/// Whether there is a terminal that can show the view, and nobody said no.
pub fn is_wanted() -> bool {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    // Knows of `NO_COLOR` and of terminals that can do nothing.
    let shows_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    !is_ci && shows_colours && Tty.can_be_drawn_on()
}

/// The watcher that keeps the view's model. Clones share it.
#[derive(Clone)]
pub struct LiveView(Arc<Mutex<Model>>);

impl LiveView {
    /// A view of a run that is about to go on, and stderr with the view below whatever is written to it.
    pub fn open(run: &Run) -> (Self, Output) {
        let model = Arc::new(Mutex::new(Model::of(run)));
        let output = Output::to(Screen::new(std::io::stderr(), Tty, Arc::clone(&model)));
        close_on_panic(output.clone());
        (Self(model), output)
    }

    /// A piece of a step's output. Only the end of it is kept, and only until the next.
    pub fn glimpse(&self, agent: &AgentId, bytes: &[u8]) {
        self.model().output(agent, bytes);
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        lock(&self.0)
    }
}

impl Observer for LiveView {
    fn event(&mut self, event: &Event) {
        self.model().apply(event);
    }

    fn stopping(&mut self, _how: Stop, _running: usize) {
        self.model().stopping();
    }
}

/// A view that panicked has shown something wrong at worst, so that its model is still good enough.
fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A panic is told on a screen that is in order.
fn close_on_panic(output: Output) {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let mut output = output.clone();
        if !output.is_written_here() {
            output.close();
            let started = Instant::now();
            while !output.is_empty() && started.elapsed() < LAST_DRAWING {
                std::thread::sleep(LOOK);
            }
        }
        tell(panic);
    }));
}

/// Whoever comes back after Ctrl-Z finds the screen changed.
#[cfg(unix)]
pub fn draw_again_after_a_pause(mut output: Output) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut continued) = signal(SignalKind::from_raw(libc::SIGCONT)) else { return };
    tokio::task::spawn_local(async move {
        while continued.recv().await.is_some() {
            output.draw_again();
        }
    });
}

#[cfg(not(unix))]
pub fn draw_again_after_a_pause(_output: Output) {}
