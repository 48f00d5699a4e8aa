//! A child process outside of its parent's process group, like those of the real program's Bash tool.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

/// The flag that makes this program the child.
pub(crate) const FLAG: &str = "--fake-sleep";

/// Starts the child and returns its pid once it is in its own session.
pub(crate) fn start(seconds: f64) -> Result<u32, Box<dyn Error>> {
    let mut child = Command::new(std::env::current_exe()?)
        .args([FLAG, &seconds.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut String::new())?;
    }
    Ok(child.id())
}

pub(crate) fn sleep(seconds: &str) -> Result<ExitCode, Box<dyn Error>> {
    #[cfg(unix)]
    rustix::process::setsid()?;
    println!("ready");
    std::io::stdout().flush()?;
    std::thread::sleep(Duration::try_from_secs_f64(seconds.parse()?)?);
    Ok(ExitCode::SUCCESS)
}
