//! Raymond's program.

fn main() -> std::process::ExitCode {
    raymond::cli::main(commit_stamp::version!())
}
