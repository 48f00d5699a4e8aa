//! The examples at the end of each command's help.

pub(super) const RAYMOND: &str = "\
Examples:
  raymond init hello               write a first workflow
  raymond hello                    run it
  raymond                          what needs you, what runs, what has ended
  raymond resume                   continue the latest run that can go on
  raymond status --json | jq .     see its status

RUN is a run's id, the start or the end of one (two characters or more), `@` for the latest that the command
can be used for, `@2` for the one before it, or a workflow's name for its latest.

A workflow whose path is also a command's name is written ./name.";

pub(super) const RUN: &str = "\
Examples:
  raymond review --input 'fix the tests'      hand the first state a text
  git diff | raymond review --input -         the same, from a pipe
  raymond review --set issue=195              give one of its named inputs
  raymond review --budget 5 --max-parallel 2  at most $5, two agents at a time
  raymond review/CHECK.sh                     begin at another state
  raymond nightly --on-ask pause --no-wait    never wait for a person or limit

Exit codes: 0 completed, 1 failed, 2 wrong usage, 3 waits for a person, 4 over budget, 5 usage limit, \
130 and 143 interrupted. Everything but 0 and 2 can be resumed.";

pub(super) const RESUME: &str = "\
Examples:
  raymond resume                     the latest run that can go on
  raymond resume review-2026         the run whose id begins with this
  raymond resume r --budget 20       with another budget
  raymond resume r --budget +5       with $5 more than before

A step that was finished is never run or paid for again. Budget, model, backend and the like stay as they \
were unless you give new values. A completed run prints its result once more.";

pub(super) const LIST: &str = "\
Examples:
  raymond list -n 20
  raymond list --status failed --status over_budget --since 2d
  raymond list --workflow review --label team=docs
  raymond list --json | jq -r '.[] | select(.status == \"failed\").run'";

pub(super) const INBOX: &str = "\
Examples:
  raymond inbox                        questions, failures, oldest first
  raymond inbox --json | jq '.items | length'";

pub(super) const STATUS: &str = "\
Examples:
  raymond status                       the latest run: agents, open questions
  raymond status r --json | jq .cost_usd";

pub(super) const LOG: &str = "\
Examples:
  raymond log                          the latest run, line by line
  raymond log r --follow               and what comes, until the run is over
  raymond log r 7                      all about one step
  raymond log r --json | jq -c 'select(.event == \"step_failed\")'";

pub(super) const SHOW: &str = "\
Examples:
  raymond show                         all steps of the latest run
  raymond show r 7                     prompt, tools, reply and cost of one
  raymond show r 3..7                  of these
  raymond show r 7 --open              talk to that agent, on a branch

Prompts, tool calls and the output of scripts are in debug files; what is gone is said so.";

pub(super) const CLEAN: &str = "\
Examples:
  raymond clean r                          everything of one run
  raymond clean --older-than 30d --dry-run what that would remove
  raymond clean --older-than 30d --waiting also runs that wait for an answer
  raymond clean r --discard-changes        also work that is not committed

Runs that are live, and runs that branches need, are never removed. Branches with commits stay.";

pub(super) const BRANCH: &str = "\
Examples:
  raymond branch r 40                  a new run that continues after step 40
  raymond branch r 40 --run            and go on with it at once
  raymond branch r 40 --id second-try --reset-cost

Nothing up to that step runs again or is paid for again, and `r` stays as it is. Conversations, questions, \
variables and pending returns are as they were then.";

pub(super) const REWIND: &str = "\
Examples:
  raymond rewind r 40                  forget what came after step 40
  raymond rewind r 40 --run            and go on from there at once

What is dropped stays: it becomes a run of its own, whose id is printed.";

pub(super) const RETRY: &str = "\
Examples:
  raymond retry                        the latest run with failed agents
  raymond retry r main_work3           only this one
  raymond retry r main_work3 --no-run  with the next resume

After `retry r main_work3`, a resume lets no other failed agent try again.";

pub(super) const JUMP: &str = "\
Examples:
  raymond jump r main REVIEW
  raymond jump r main REVIEW --input 'look at the tests, too'
  raymond jump r main REVIEW --no-run  and go on with the next resume

Pending returns and the conversation stay as they are.";

pub(super) const ANSWER: &str = "\
Examples:
  raymond answer 'yes, go on'          the only open question of all runs
  raymond answer r 'yes'               the only one of a run
  raymond answer r ask2 'no'           a question that `status r` shows
  raymond answer r 'yes' --no-resume   without going on with the run
  raymond answer r -- '-q'             an answer that begins with a dash
  raymond answer r - < notes.txt       from a file, up to 1 MiB

A run that no process drives goes on here, as with `raymond resume`; with --detach in a process of its own.";

pub(super) const STOP: &str = "\
Examples:
  raymond stop                         the only run that is running
  raymond stop r                       let running steps finish, start none
  raymond stop r --now                 end running steps, too

In both cases `raymond resume r` continues the run.";

pub(super) const CONVERT: &str = "\
Examples:
  raymond convert review -o review.zip     an archive to pass on
  raymond convert review -o review.yaml    everything in one file
  raymond convert review.zip -o review     a folder again

Nothing is lost: the output is read back and compared first. In the one-file form, files that are not states \
go under `files:`, by name: as text, or as `{ base64: … }` for other bytes. So does a state that cannot be \
written in another way.";

pub(super) const INSPECT: &str = "\
Examples:
  raymond inspect review                   scripts, agents, tools, folders, …
  raymond inspect review.zip --json | jq '.may[].what'

It reads the workflow, and those that it extends and names. Nothing of them is run.";

pub(super) const TRUST: &str = "\
Examples:
  raymond trust flows/nightly              show what it may do, and ask
  raymond trust flows/nightly --yes        without a terminal
  raymond trust flows/nightly --revoke     trust it no longer

`raymond serve` starts by itself, at the times of a `schedule`, only what is trusted and as it was then. A changed \
file of the workflow, of one that it extends or names, or of the project's config makes it another one: trust it again. \
What you start yourself needs no trust.";

pub(super) const LINT: &str = "\
Examples:
  raymond lint review                      one workflow
  raymond lint flows/* --level warning     many; no findings of level info
  raymond lint review --fix                make the repairs that are certain
  raymond lint --explain R007              what a rule is about
  raymond lint . --format sarif > lint.sarif";

pub(super) const DIAGRAM: &str = "\
Examples:
  raymond diagram review                  Mermaid, for a README
  raymond diagram review -o review.svg    a picture
  raymond diagram review -o review.html   a page to pan, zoom and click in";

pub(super) const INIT: &str = "\
Examples:
  raymond init hello && raymond hello
  raymond init my-review --template review";

pub(super) const SCHEMA: &str = "\
Examples:
  raymond schema frontmatter > prompt.schema.json   for an editor
  raymond schema events                             what `--json` prints";

pub(super) const SERVE: &str = "\
Examples:
  raymond serve                        print a link that opens the page
  raymond serve --listen 127.0.0.1:0   on any free port
  raymond serve --schedules            also start workflows by their schedules

It runs nothing itself: the runs that it starts go on when it ends.";

pub(super) const DOCTOR: &str = "\
Examples:
  raymond doctor                  what works here, and what does not
  raymond doctor --ping           also asks the model for one word
  raymond doctor --json | jq .ok
  raymond doctor --adopt          runs of a copy, or of an earlier version

The exit code is 1 if the default backend cannot work.";

pub(super) const EXPORT: &str = "\
Examples:
  raymond export review-20260301-120000-5f19 -o review.html
  raymond export > latest.html

The file shows the run as the page of `raymond serve` does, with every prompt, reply and output
that is kept. Read it before you hand it on.";

pub(super) const COMPLETIONS: &str = "\
Add one line to your shell's start-up file:
  bash         source <(raymond completions bash)
  zsh          source <(raymond completions zsh)
  fish         raymond completions fish | source
  PowerShell   raymond completions powershell | Out-String | Invoke-Expression

Ids of runs are completed, too.";

pub(super) const EMIT: &str = "\
Examples:
  raymond emit fork REVIEW file=\"$f\" --next WAIT   a worker with a variable
  raymond emit result < report.md                   a text as the result
  git diff | raymond emit goto REVIEW --input -     hand a text over
  python3 list.py | raymond emit --json             many tags at once

In a script state, the program is on PATH, and $RAYMOND is its path. What a run would refuse is refused \
here, with exit code 2, and nothing is printed.";

pub(super) const TEST: &str = "\
Examples:
  raymond test                             every *.test.yaml below this folder
  raymond test review --filter 'sent back' some of them
  raymond test --coverage --min-coverage 80
  raymond test --format junit > tests.xml  for CI systems

Exit codes: 0 all passed, 1 a test failed or the coverage is too low, 2 a test file is wrong or there is none.";

pub(super) const RECORD: &str = "\
Examples:
  raymond record review-2026 -o happy.rec.jsonl
  raymond run review --replay happy.rec.jsonl    play it again without agents";

pub(super) const WORKER: &str = "\
Examples:
  raymond worker --temporal temporal.internal:7233 --blobs s3://raymond/blobs
  raymond worker --temporal localhost:7233 --slots 2 --work /var/lib/raymond

SIGTERM lets running steps finish, then the worker ends. TLS and API keys are set as for Temporal's own tools, by \
environment variables such as TEMPORAL_TLS and TEMPORAL_API_KEY.";
