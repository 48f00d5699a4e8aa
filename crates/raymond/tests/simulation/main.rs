//! The real engine on a simulated host: see `sim`.

#[cfg(test)]
mod sim;

#[cfg(test)]
mod tests {
    use super::sim::check::{check, report, run};
    use super::sim::programs;

    #[test]
    fn without_faults_every_program_ends_well() {
        for program in programs::all() {
            let ran = run(&program, 1, &[], true);
            let points = ran.sites.len();
            println!(
                "{}: {points} points, {:?}",
                program.name,
                ran.outcome.result.as_deref().map(|t| t.get(..t.len().min(60)))
            );
            if let Some(broken) = ran.broken {
                panic!("{}: {broken}\n{}", program.name, ran.log.join("\n"));
            }
            for seed in 2..5 {
                if let Err(failure) = check(&program, &ran.outcome, seed, &[]) {
                    panic!("{}", report(&program, &failure));
                }
            }
        }
    }
}
