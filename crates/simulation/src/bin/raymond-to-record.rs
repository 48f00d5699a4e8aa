//! Raymond's program, which runs the case folders while they are recorded. It is a program of this package, so that Cargo builds
//! it anew together with the simulation.

fn main() -> std::process::ExitCode {
    raymond::cli::main()
}
