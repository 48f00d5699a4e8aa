#!/usr/bin/env bash
# Builds Raymond for Windows and checks it under Wine: the whole program, then the unit tests.
#
#   scripts/windows.sh            build, check, and report what passed
#   scripts/windows.sh TEXT       only checks that have TEXT in their names, and no unit tests
#
# It installs nothing. Everything it makes is in target/windows, or where $CARGO_TARGET_DIR says.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
only=${1:-}
only=${only// /_}
triple=x86_64-pc-windows-gnu
place=${CARGO_TARGET_DIR:-$root/target}/windows
export CARGO_TARGET_DIR=$place/build

# --- requirements

need() {
    command -v "$1" >/dev/null || { echo "missing: $1. On Debian: apt-get install $2" >&2; exit 2; }
}
need wine 'wine wine64'
need x86_64-w64-mingw32-gcc gcc-mingw-w64-x86-64
need python3 python3

# A toolchain with the target installed, or else Debian's, which has the sources to build the standard library from.
if [ -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$triple/lib" ]; then
    cargo() { command cargo "$@" --target $triple; }
elif [ -d "$(/usr/bin/rustc --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
    export PATH=/usr/bin:$PATH RUSTC_BOOTSTRAP=1
    unset RUSTUP_TOOLCHAIN
    cargo() { /usr/bin/cargo "$@" -Zbuild-std=std,panic_unwind,test --target $triple; }
else
    echo "missing: Rust's library for $triple. Either: rustup target add $triple" >&2
    echo "or, on Debian: apt-get install rustc-web cargo-web rust-web-src" >&2
    exit 2
fi

# --- build

echo "building for $triple"
cargo build --quiet -p raymond -p fake-claude
mkdir -p "$place/bin/shim"
cp "$CARGO_TARGET_DIR/$triple/debug/raymond.exe" "$place/bin/"
cp "$CARGO_TARGET_DIR/$triple/debug/claude.exe" "$place/bin/shim/stand-in.exe"
# As npm installs it.
printf '@ECHO off\r\n"%%~dp0\\stand-in.exe" %%*\r\n' > "$place/bin/shim/claude.cmd"
# Wine 8.0 lacks the library from which Rust programs get random numbers.
cat > "$place/prng.c" <<'C'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T length) {
    return RtlGenRandom(data, (ULONG)length);
}
C
x86_64-w64-mingw32-gcc -shared -O1 -s -o "$place/bin/bcryptprimitives.dll" "$place/prng.c" -ladvapi32
cp "$place/bin/bcryptprimitives.dll" "$place/bin/shim/"

# --- a Wine prefix of its own

export WINEPREFIX=$place/prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree=;mshtml='
unset DISPLAY
echo "preparing $(wine --version)"
wine wineboot -i >/dev/null 2>&1 || true
wine winecfg /v win10 >/dev/null 2>&1 || { echo "Wine does not start; WINEDEBUG= says more" >&2; exit 2; }
work=$place/work
rm -rf "$work"
# Waits for the last program, so that no check sees processes of an earlier one.
finish() { wineserver -k >/dev/null 2>&1 || true; }
trap finish EXIT

# --- the tools of a check

passed=0
failed=0
out=$work/out
err=$work/err
exit=0

windows_path() { printf 'Z:%s' "${1//\//\\}"; }

# A state with the line ends of Windows, in the workflow `wf` of the check's own folder.
state() {
    mkdir -p wf
    sed 's/$/\r/' > "wf/$1"
}

# Runs raymond; its output is in $out and $err, its exit code in $exit.
raymond() {
    exit=0
    timeout 120 wine "$place/bin/raymond.exe" "$@" > "$out" 2> "$err" < /dev/null || exit=$?
}

# Runs raymond on a terminal: terminal TEXT KEYS TEXT KEYS … -- ARGUMENTS, where each KEYS is typed once TEXT has been
# shown. What it shows is in $out.
terminal() {
    exit=0
    timeout 120 python3 - "$place/bin/raymond.exe" "$@" > "$out" 2> "$err" <<'P' || exit=$?
import os, pty, select, sys
split = sys.argv.index("--")
program, script, arguments = sys.argv[1], sys.argv[2:split], sys.argv[split + 1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp("wine", ["wine", program, *arguments])
waiting = [*zip(script[::2], script[1::2])]
shown = b""
while True:
    # Typed after a pause, when the other side has begun to read.
    is_quiet = not select.select([terminal], [], [], 0.5)[0]
    if is_quiet and waiting and waiting[0][0].encode() in shown:
        os.write(terminal, waiting.pop(0)[1].encode().decode("unicode_escape").encode())
    if is_quiet:
        continue
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    shown += piece
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
P
}

# Ends the check, which is a shell of its own.
fail() {
    echo "    $*"
    sed 's/^/    | /' "$out" "$err" | head -40
    exit 1
}
ends() { [ "$exit" = "$1" ] || fail "exit code $exit instead of $1"; }
prints() { [ "$(tr -d '\r' < "$out")" = "$1" ] || fail "not the result: $1"; }
says() { grep -qF -- "$1" "$err" || fail "not on stderr: $1"; }
shows() { grep -qF -- "$1" "$out" || fail "not on stdout: $1"; }

# Programs that only sleep are told apart by how long they sleep; each check uses a number of its own.
sleepers() { pgrep -f -- "-n $1" || true; }
none_left() {
    for _ in $(seq 100); do
        [ -z "$(sleepers "$1")" ] && return
        sleep 0.05
    done
    fail "left running: $(sleepers "$1" | tr '\n' ' ')"
}
wait_for() {
    for _ in $(seq 600); do
        if eval "$1"; then return; fi
        sleep 0.05
    done
    fail "timed out waiting for: $1"
}

# Each check is a function; it runs in a folder of its own.
run_check() {
    local name=$1
    mkdir -p "$work/$name/.git"
    : > "$out"; : > "$err"
    if (cd "$work/$name" && "$name"); then
        passed=$((passed + 1)); echo "ok    ${name//_/ }"
    else
        failed=$((failed + 1)); echo "FAIL  ${name//_/ }"
    fi
}

# --- the checks

a_batch_state_runs_to_its_result() {
    echo '@echo ^<goto^>NEXT^</goto^>' | state START.bat
    printf '@echo off\necho ^<result^>%%RAYMOND_AGENT_ID%% %%RAYMOND_STATE_FILE%%^</result^>\n' | state NEXT.bat
    raymond wf
    ends 0; prints "main $(windows_path "$PWD")\\wf\\NEXT.bat"
}

call_function_and_reset_come_back() {
    echo '@echo ^<call return="SECOND" input="1"^>ADD^</call^>' | state START.bat
    printf '@echo off\nset /a sum=%%RAYMOND_INPUT%%+1 >nul\necho ^<reset input="%%sum%%"^>GIVE^</reset^>\n' | state ADD.bat
    echo '@echo ^<result^>%RAYMOND_INPUT%^</result^>' | state GIVE.bat
    echo '@echo ^<function return="END" input="%RAYMOND_RESULT%"^>ADD^</function^>' | state SECOND.bat
    echo '@echo ^<result^>sum %RAYMOND_RESULT%^</result^>' | state END.bat
    raymond wf
    ends 0; prints 'sum 3'
}

several_workers_are_forked_and_joined() {
    state START.bat <<'B'
@echo off
for %%i in (a b c d) do echo ^<fork item="%%i" next="WAIT"^>WORK^</fork^>
B
    echo '@echo ^<result^>done %item%^</result^>' | state WORK.bat
    echo '@echo ^<join^>END^</join^>' | state WAIT.bat
    # Quotes and other special characters in the joined text would be read as commands if they became part of the line.
    printf '@echo off\necho ^<result^>\ntype "%%RAYMOND_INPUT_FILE%%"\necho ^</result^>\n' | state END.bat
    raymond wf
    ends 0
    for item in a b c d; do shows "\"result\":\"done $item\""; done
}

a_timeout_ends_the_whole_tree() {
    state START.bat <<'B'
@echo off
REM raymond: timeout=2s
start "" /b cmd /c "ping -n 7101 127.0.0.1 >nul"
echo begun
ping -n 7101 127.0.0.1 >nul
B
    raymond wf
    ends 1; says 'START.bat'; none_left 7101
}

a_failure_ends_what_was_left_behind() {
    state START.bat <<'B'
@echo off
start "" /b cmd /c "ping -n 7102 127.0.0.1 >nul"
echo the reason>&2
exit /b 7
B
    raymond wf
    ends 1; says 'ended with exit code 7'; says 'the reason'; none_left 7102
}

a_protocol_error_ends_what_was_left_behind() {
    state START.bat <<'B'
@echo off
start "" /b cmd /c "ping -n 7103 127.0.0.1 >nul 2>nul"
echo no tag at all
B
    raymond wf
    ends 1; says 'START.bat'; none_left 7103
}

a_success_leaves_its_background_child_alone() {
    state START.bat <<'B'
@echo off
start "" /b ping -n 7104 127.0.0.1
echo ^<result^>ok^</result^>
B
    SECONDS=0
    raymond wf
    ends 0; prints ok
    [ $SECONDS -lt 30 ] || fail "took $SECONDS s"
    [ -n "$(sleepers 7104)" ] || fail 'the child was ended'
    kill -9 $(sleepers 7104)
}

# A workflow that continues once there is a file `go`, for the checks that stop it. $1 is how long
# its programs sleep, by which they are found.
waiting_workflow() {
    state START.bat <<B
@echo off
if exist go goto finish
start "" /b cmd /c "ping -n $1 127.0.0.1 >nul"
echo ^<print^>begun^</print^>
echo x>started
ping -n $1 127.0.0.1 >nul
:finish
echo ^<goto^>END^</goto^>
B
    echo '@echo ^<result^>finished^</result^>' | state END.bat
}
start_in_background() {
    # Not through a function or `timeout`: the process id has to be the program's own.
    wine "$place/bin/raymond.exe" wf --id r > background.out 2> background.err < /dev/null &
    background=$!
    wait_for '[ -e started ]'
}
background_ends() {
    local code=0
    wait "$background" 2>/dev/null || code=$?
    [ "$code" = "$1" ] || { cat background.err; fail "the run ended with $code instead of $1"; }
}
goes_on() {
    touch go
    raymond resume r
    ends 0; prints finished
}

stop_now_ends_steps_and_a_resume_goes_on() {
    waiting_workflow 7105
    start_in_background
    raymond stop r --now
    ends 0; background_ends 143; none_left 7105; goes_on
}

a_gentle_stop_lets_the_step_finish() {
    state START.bat <<'B'
@echo off
echo x>started
ping -n 6 127.0.0.1 >nul
echo ^<goto^>END^</goto^>
B
    echo '@echo ^<result^>finished^</result^>' | state END.bat
    start_in_background
    raymond stop r
    ends 0; background_ends 130
    raymond status r --json
    shows '"state": "END.bat"'
    goes_on
}

a_killed_raymond_takes_its_children_along_and_a_resume_goes_on() {
    waiting_workflow 7106
    start_in_background
    wait_for '[ "$(sleepers 7106 | wc -l)" -ge 2 ]'
    kill -9 "$background"
    background_ends 137; none_left 7106
    raymond status r
    shows interrupted
    goes_on
    says 'START.bat'
}

ctrl_c_lets_steps_finish_and_a_second_one_ends_them() {
    waiting_workflow 7108
    terminal begun '\x03' 'press Ctrl-C again' '\x03' -- wf --id r
    ends 130; none_left 7108; goes_on
}

a_question_is_asked_and_answered_on_the_terminal() {
    printf '@echo off\necho ^<ask next="END"^>really?^</ask^>\n' | state START.bat
    echo '@echo ^<result^>you said %RAYMOND_INPUT%^</result^>' | state END.bat
    terminal 'really?' 'of course\r' -- wf --id r
    ends 0; shows 'you said of course'
}

a_second_raymond_is_refused_and_told_who_is_first() {
    waiting_workflow 7107
    start_in_background
    raymond resume r
    ends 2; says 'another Raymond is running r (process'
    raymond status r --json
    ends 0; shows '"status": "running"'
    raymond stop r --now
    background_ends 143; none_left 7107
}

# Which of several files is chosen, one line per case: the files, and the expected message.
names_resolve_as_on_windows() {
    local files expected number=0
    echo '@echo ^<goto^>A^</goto^>' | state START.bat
    while IFS='|' read -r files expected; do
        number=$((number + 1))
        rm -f wf/A.*
        echo 'A: <result>prompt</result>' > wf/replies.yaml
        for file in $files; do
            case $file in
                *.bat) echo '@echo ^<result^>batch^</result^>' | state "$file" ;;
                *.md) echo 'Say something.' | state "$file" ;;
                *) echo 'echo nothing' | state "$file" ;;
            esac
        done
        raymond wf --id "case$number" --backend scripted
        grep -qF -- "$expected" "$out" "$err" || fail "$files: $expected"
    done <<'T'
A.bat|batch
A.bat A.sh|batch
A.sh|`A.sh` exists but runs on Unix only
A.bat A.ps1|ambiguous
A.bat A.md|ambiguous
A.md A.sh|prompt
A.ps1 A.sh|A.ps1
A.txt|there is no state `A`
A.ps1|A.ps1
T
}

an_extension_of_another_platform_is_refused() {
    echo '@echo ^<goto^>A.sh^</goto^>' | state START.bat
    echo 'echo x' | state A.sh
    raymond wf
    ends 1; says 'A.sh'; says 'Unix'
}

lint_knows_both_platforms() {
    echo '@echo ^<goto^>B^</goto^>' | state START.bat
    echo '@echo ^<result^>x^</result^>' | state B.bat
    raymond lint --platform windows wf
    ends 0
    raymond lint --platform unix wf
    [ "$exit" != 0 ] || fail 'nothing found for Unix'
}

every_form_runs_and_converts() {
    # A label is only found in a file with the line ends of Windows, which a one-file workflow does not have.
    printf '@echo off\ngoto there\necho wrong\n:there\necho ^<goto^>END^</goto^>\n' | state START.bat
    echo '@echo ^<result^>%~n0^</result^>' | state END.bat
    raymond convert wf -o wf.zip; ends 0
    raymond convert wf.zip -o wf.yaml; ends 0
    raymond convert wf.yaml -o back; ends 0
    for form in wf wf.zip wf.yaml back 'wf.zip/START' "$(windows_path "$PWD")\\wf.zip"; do
        raymond "$form"
        ends 0; prints END
    done
}

paths_may_have_spaces_and_letters_of_any_language() {
    mkdir -p 'Größe & (Maß) 漢字'
    cd 'Größe & (Maß) 漢字'
    mkdir -p .git
    echo '@echo ^<goto^>"E N D".bat^</goto^>' | tr -d '"' | state START.bat
    printf '@echo off\nif exist "%%RAYMOND_STATE_FILE%%" echo ^<result^>here^</result^>\n' | state 'E N D.bat'
    raymond wf
    ends 0; prints here
}

a_byte_order_mark_and_plain_line_ends_do_no_harm() {
    mkdir -p wf
    printf '\xef\xbb\xbf@echo ^<goto^>END^</goto^>\r\n' > wf/START.bat
    printf '@echo off\necho ^<result^>ok^</result^>\n' > wf/END.bat
    raymond wf
    ends 0; prints ok
}

prompts_go_through_a_shim_as_npm_installs_it() {
    printf -- '---\nallowed_transitions: [ { tag: result } ]\n---\nSay "100%%" & <more> of {{input}}\n' | state START.md
    mkdir -p fake
    echo '[ { "match": "of this | that", "reply": "<result>heard</result>", "cost": 0.25 } ]' > fake/script.json
    export FAKE_CLAUDE_HOME WINEPATH
    FAKE_CLAUDE_HOME=$(windows_path "$PWD/fake") WINEPATH=$(windows_path "$place/bin/shim")
    raymond wf --input 'this | that' --model 'a "quoted" & more'
    ends 0; prints heard; says '$0.25'
    grep -qF 'a \"quoted\" & more' fake/calls.jsonl || fail "an argument was changed: $(cat fake/calls.jsonl)"
}

exit_codes_tell_how_a_run_ended() {
    raymond nothing-here
    ends 2
    printf -- '---\nallowed_transitions: [ { tag: ask, next: END } ]\n---\nAsk.\n' | state START.md
    echo '@echo ^<result^>you said %RAYMOND_INPUT%^</result^>' | state END.bat
    echo 'START: { reply: "<ask next=\"END\">really?</ask>", cost: 0.5 }' > wf/replies.yaml
    echo 'backend: scripted' > wf/workflow.yaml
    raymond wf --id paused
    ends 3
    raymond answer paused yes
    ends 0
    raymond resume paused
    ends 0; prints 'you said yes'
    raymond wf --id poor --budget 0.10
    ends 4
    raymond resume poor --budget 1
    ends 3
}

a_notify_command_runs_in_the_shell_of_windows() {
    echo '@echo ^<result^>ok^</result^>' | state START.bat
    mkdir -p .raymond
    echo "[raymond]" > .raymond/config.toml
    echo "notify = 'if \"a b\"==\"a b\" echo %RAYMOND_EVENT% %RAYMOND_RUN_ID%> told.txt'" >> .raymond/config.toml
    raymond wf --id r
    ends 0
    grep -qF 'run_finished r' told.txt || fail "told: $(cat told.txt)"
}

long_input_is_in_the_file_alone() {
    printf '@echo off\nif defined RAYMOND_INPUT (echo ^<result^>variable^</result^>) else if exist "%%RAYMOND_INPUT_FILE%%" echo ^<result^>file^</result^>\n' | state START.bat
    raymond wf --input "$(head -c 31999 /dev/zero | tr '\0' x)"
    ends 0; prints variable
    head -c 40000 /dev/zero | tr '\0' x > long
    exit=0
    timeout 120 wine "$place/bin/raymond.exe" wf --input - > "$out" 2> "$err" < long || exit=$?
    ends 0; prints file
}

a_variable_cannot_take_over_the_search_path() {
    printf '@echo off\necho ^<fork next="W" path="x"^>W^</fork^>\n' | state START.bat
    echo '@echo ^<result^>x^</result^>' | state W.bat
    raymond wf
    ends 1; says '`path` changes how programs run'
}

a_path_from_a_step_does_not_lead_to_another_machine() {
    state START.bat <<'B'
@echo ^<reset cd="\\evil\share"^>W^</reset^>
B
    echo '@echo ^<result^>x^</result^>' | state W.bat
    raymond wf
    ends 1; says 'leads to another machine'
    state START.bat <<'B'
@echo ^<call-workflow return="W"^>\\evil\share^</call-workflow^>
B
    raymond wf
    ends 1; says 'leads to another machine'
}

names_of_devices_are_no_runs() {
    echo '@echo ^<result^>x^</result^>' | state START.bat
    raymond wf --id nul
    ends 2; says 'Windows does not allow'
}

examples_and_templates_run() {
    raymond "$(windows_path "$root")\\examples\\cross-platform" --no-debug
    ends 0; shows '4 parcels are here for you & yours'
    raymond init hello --template hello
    ends 0
    raymond hello
    ends 0; shows 'welcome to your first workflow'
}

mkdir -p "$work"
checks=$(declare -F | cut -d' ' -f3 | grep '_.*_.*_' || true)
for check in $checks; do
    if [[ $check == *"$only"* ]]; then run_check "$check"; fi
done

# --- the unit tests
# Left out: one with a time limit, for which Wine is too slow.

if [ -z "$only" ]; then
    export INSTA_WORKSPACE_ROOT=$root
    cargo test --quiet --no-run --lib -p raymond -p raymond-core --message-format json > "$place/tests.json"
    python3 -c 'import json, sys
for line in open(sys.argv[1]):
    made = json.loads(line)
    if made.get("executable"):
        print(made["target"]["name"], made["executable"])' "$place/tests.json" > "$place/tests"
    while read -r crate program; do
        cp "$place/bin/bcryptprimitives.dll" "$(dirname "$program")"
        cd "$root/crates/${crate//_/-}"
        if timeout 900 wine "$program" --skip thousands_of_states < /dev/null > "$out" 2>&1; then
            passed=$((passed + 1)); echo "ok    unit tests of $crate: $(grep -o '[0-9]* passed' "$out")"
        else
            failed=$((failed + 1)); echo "FAIL  unit tests of $crate"
            grep -A4 '^---- \|^failures:\|^test result' "$out" | head -60 | sed 's/^/    | /'
        fi
    done < "$place/tests"
fi

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
