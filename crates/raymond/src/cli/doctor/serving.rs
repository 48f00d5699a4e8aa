//! `raymond serve`: whether a server of this project answers, who can read its token, and whether schedules are kept.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use super::Finding;
use crate::advice;
use crate::cli::find::{found_home, project_folder, working_folder};
use crate::paths::shown;
use crate::serve::{
    HeldBack, Presence, ScheduledWorkflow, scheduled_workflows, schedules_that_wait, servers, token_file,
};
use crate::store::FolderStore;
use crate::view::text::local_time;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn findings() -> Vec<Finding> {
    let Ok(cwd) = working_folder() else { return Vec::new() };
    let Ok(state) = found_home(&cwd) else { return Vec::new() };
    let servers = servers(&state);
    let mut findings: Vec<Finding> = servers.iter().map(server).collect();
    if findings.is_empty() {
        findings.push(Finding::good("serve", "no `raymond serve` runs in this project"));
    }
    let mut tokens: Vec<&Path> = servers.iter().map(|server| server.token_file.as_path()).collect();
    let usual = token_file(&state);
    tokens.push(&usual);
    tokens.sort_unstable();
    tokens.dedup();
    findings.extend(tokens.into_iter().filter_map(token));
    let scheduled = scheduled_workflows(vec![project_folder(&cwd)]);
    findings.extend(schedules(&scheduled, servers.iter().any(|server| server.schedules)));
    let store = FolderStore::new(state.clone());
    findings.extend(schedules_that_wait(&store, &state).iter().map(|(run, held)| waits(run, held)));
    findings
}

/// A schedule that is not kept at present.
fn waits(run: &str, held: &HeldBack) -> Finding {
    let (workflow, since) = (shown(&held.workflow).display(), local_time(held.since));
    let message = format!("the schedule of {workflow} waits since {since}: its run {run} has not ended");
    Finding::warning(
        "schedules",
        message,
        format!("see what the run waits for: {}", advice::command(&format!("status {run}"))),
    )
}

fn server(server: &Presence) -> Finding {
    let address = server.address;
    match answers(address) {
        true => Finding::good("serve", format!("`raymond serve` answers on http://{address}")),
        false => Finding::warning(
            "serve",
            format!("`raymond serve` runs and does not answer on http://{address}"),
            "end that process and start it again",
        ),
    }
}

fn answers(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else { return false };
    let mut start = [0; 5];
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let asked = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(request.as_bytes()));
    asked.and_then(|()| stream.read_exact(&mut start)).is_ok() && &start == b"HTTP/"
}

/// A token that others can read lets them start workflows.
#[cfg(unix)]
fn token(file: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt;
    let mode = file.metadata().ok()?.permissions().mode() & 0o777;
    let shown = file.display();
    (mode & 0o077 != 0).then(|| {
        let message = format!("other users of this machine may read the token in {shown} (mode {mode:o})");
        Finding::warning("serve", message, format!("chmod 600 {shown}; remove it to get a new token"))
    })
}

#[cfg(not(unix))]
fn token(_file: &Path) -> Option<Finding> {
    None
}

fn schedules(all: &[ScheduledWorkflow], are_kept: bool) -> Vec<Finding> {
    const ABOUT: &str = "schedules";
    let broken = all.iter().filter_map(|workflow| {
        let problem = workflow.problem.as_ref()?;
        let message = format!("the schedule of `{}` cannot be kept: {problem}", workflow.id);
        Some(Finding::warning(ABOUT, message, "correct `schedule` or `schedule_timezone` in its manifest"))
    });
    let held = all.iter().filter_map(|workflow| {
        let message =
            format!("the schedule of `{}` is not kept: {}", workflow.id, workflow.standing.problem()?);
        let advice = format!("look at what it may do: raymond trust {}", workflow.path.display());
        Some(Finding::warning(ABOUT, message, advice))
    });
    let names = |all: &mut dyn Iterator<Item = &ScheduledWorkflow>| {
        all.map(|workflow| format!("`{}`", workflow.id)).collect::<Vec<_>>().join(", ")
    };
    let trusted = names(&mut all.iter().filter(|workflow| workflow.standing.is_trusted()));
    let all_names = names(&mut all.iter());
    let kept = match (all.is_empty(), are_kept) {
        (true, _) => Some(Finding::good(ABOUT, "no workflow of this project has one")),
        (false, true) if trusted.is_empty() => None,
        (false, true) => Some(Finding::good(ABOUT, format!("{trusted}: kept by `raymond serve`"))),
        (false, false) => Some(Finding::warning(
            ABOUT,
            format!("{all_names}: no `raymond serve --schedules` runs, so that nothing is started"),
            "run `raymond serve --schedules`, best as a service of your system",
        )),
    };
    broken.chain(kept).chain(held).collect()
}
