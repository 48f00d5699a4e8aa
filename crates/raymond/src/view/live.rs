//! The live view: on a terminal, the bottom of the screen shows what every agent is doing.
//!
//! A [`picture`] is made of the run's state after each commit and put into the [`scene`]; [`render`](mod@render) makes
//! lines of it, and [`screen`] draws them, on the thread that writes stderr anyway. The run only replaces the picture, so
//! it never waits for a terminal.

mod fit;
mod picture;
mod render;
mod scene;
mod screen;
mod tty;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use raymond_core::event::Event;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

use self::picture::Picture;
use self::scene::Scene;
use self::screen::Screen;
use self::tty::Tty;
use super::View;
use crate::run::stop::Stop;
use crate::view::output::Output;

/// After a panic, how long to wait until the view has been taken off the screen.
const LAST_DRAWING: Duration = Duration::from_secs(1);
/// How often to check whether that has happened.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Whether stderr is a terminal that can show the view, and the environment does not forbid it.
pub fn is_wanted() -> bool {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    // This respects `NO_COLOR` and `TERM=dumb`.
    let shows_colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    !is_ci && shows_colours && Tty.can_be_drawn_on()
}

/// Keeps what the view shows up to date. Clones share it.
#[derive(Clone)]
pub struct LiveView(Arc<Mutex<Scene>>);

impl LiveView {
    /// A view of a run that is about to start or to be resumed, and stderr with the view below all other lines.
    pub fn open(run: &Run) -> (Self, Output) {
        let scene = Arc::new(Mutex::new(Scene::new(Picture::of(run))));
        let output = Output::to(Screen::new(std::io::stderr(), Tty, Arc::clone(&scene)));
        close_on_panic(output.clone());
        (Self(scene), output)
    }

    /// A piece of a step's output. Only the end of it is kept, until the attempt ends.
    pub fn glimpse(&self, agent: &AgentId, bytes: &[u8]) {
        self.scene().add_output(agent, bytes);
    }

    /// What a running turn has cost so far, by the estimate of its stream. It is forgotten when the attempt ends.
    pub fn spending(&self, agent: &AgentId, so_far: Usd) {
        self.scene().spends(agent, so_far);
    }

    fn scene(&self) -> MutexGuard<'_, Scene> {
        lock(&self.0)
    }
}

impl View for LiveView {
    fn event(&mut self, run: &Run, event: &Event) {
        // The run is as it is after the last event of a commit, so one picture shows the whole commit.
        let picture = (event.seq == run.seq).then(|| Picture::of(run));
        let mut scene = self.scene();
        if let Some(agent) = event.body.ended_attempt_of() {
            scene.forget_attempt(agent);
        }
        if let Some(picture) = picture {
            scene.show(picture);
        }
    }

    fn stopping(&mut self, _how: Stop, _running: usize) {
        self.scene().stopping();
    }
}

/// A panic while the scene was locked may have left it incomplete; that is still good enough to be shown.
fn lock(scene: &Mutex<Scene>) -> MutexGuard<'_, Scene> {
    scene.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the view off the screen before the message of a panic is printed.
fn close_on_panic(output: Output) {
    let print_message = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let mut output = output.clone();
        if !output.is_written_here() {
            output.close();
            let started = Instant::now();
            while !output.is_empty() && started.elapsed() < LAST_DRAWING {
                std::thread::sleep(CHECK_INTERVAL);
            }
        }
        print_message(panic);
    }));
}

/// Draws the view again after Ctrl-Z and `fg`: the shell has written to the terminal in between.
#[cfg(unix)]
pub fn draw_again_after_a_pause(mut output: Output) {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut continued) = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())) else {
        return;
    };
    tokio::task::spawn_local(async move {
        while continued.recv().await.is_some() {
            output.draw_again();
        }
    });
}

#[cfg(not(unix))]
pub fn draw_again_after_a_pause(_output: Output) {}
