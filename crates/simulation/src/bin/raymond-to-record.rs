//! Raymond's program, which runs the case folders while they are recorded. It is part of this package, so that Cargo
//! rebuilds it together with the simulation.

fn main() -> std::process::ExitCode {
    raymond::cli::main(env!("CARGO_PKG_VERSION"))
}
