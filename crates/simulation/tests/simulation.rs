//! The real engine on a simulated host, with fixed seeds.

#[cfg(test)]
mod tests {
    use std::path::Path;

    use simulation::cases::try_cases;
    use simulation::check::report;
    use simulation::explore::{
        every_crash_of_a_change, every_crash_of_a_recovery, every_single_fault, fault_free, several_faults,
    };
    use simulation::generate::generate;
    use simulation::program::Program;
    use simulation::programs;
    use simulation::replayed::replay;

    /// Every `of`th hand-written program, so that the tests share the work.
    fn some(which: usize, of: usize) -> impl Iterator<Item = Program> {
        programs::all().into_iter().skip(which).step_by(of)
    }

    fn single_faults(which: usize) {
        for program in some(which, 4) {
            if let Err(failure) = every_single_fault(&program, 1, true) {
                panic!("{}", report(&program, &failure));
            }
        }
    }

    #[test]
    fn every_single_fault_is_survived_1() {
        single_faults(0);
    }

    #[test]
    fn every_single_fault_is_survived_2() {
        single_faults(1);
    }

    #[test]
    fn every_single_fault_is_survived_3() {
        single_faults(2);
    }

    #[test]
    fn every_single_fault_is_survived_4() {
        single_faults(3);
    }

    /// The same with the store in memory, where every fault can be tried at every point.
    #[test]
    fn every_single_fault_is_survived_in_memory() {
        for mut program in programs::all() {
            program.lives_in_memory = true;
            if let Err(failure) = every_single_fault(&program, 1, false) {
                panic!("{}", report(&program, &failure));
            }
        }
    }

    /// The number of points at which the run of a case folder is crashed; `simulate --every` tries all.
    const POINTS: usize = 8;

    #[test]
    fn every_case_survives_a_crash() {
        let told = try_cases(Path::new(env!("CARGO_BIN_EXE_raymond-to-record")), POINTS);
        println!("{told}");
        assert!(told.failures.is_empty(), "{}", told.failures.join("\n\n"));
        let played = told.played as f64 / (told.played + told.left_out.len()) as f64;
        assert!(played > 0.95, "only {played} of the runs can be replayed: {told}");
    }

    #[test]
    fn crashes_of_a_recovery_are_survived() {
        for program in programs::all() {
            if let Err(failure) = every_crash_of_a_recovery(&program, 1, 67) {
                panic!("{}", report(&program, &failure));
            }
        }
    }

    #[test]
    fn crashes_of_a_rewind_a_branch_a_retry_and_a_jump_are_survived() {
        for mut program in programs::all() {
            for (lives_in_memory, stride) in [(false, 7), (true, 1)] {
                program.lives_in_memory = lives_in_memory;
                if let Err(failure) = every_crash_of_a_change(&program, 1, stride) {
                    panic!("{}", report(&program, &failure));
                }
            }
        }
    }

    #[test]
    fn several_faults_are_survived() {
        for program in programs::all() {
            let (outcome, sites) =
                fault_free(&program, 1).unwrap_or_else(|failure| panic!("{}", report(&program, &failure)));
            for seed in 0..6 {
                if let Err(failure) = several_faults(&program, &outcome, sites.len(), seed) {
                    panic!("{}", report(&program, &failure));
                }
            }
        }
    }

    #[test]
    fn random_programs_survive_random_faults() {
        for number in 0..30 {
            let mut program = generate(number);
            program.lives_in_memory = number % 2 == 1;
            let (outcome, sites) = fault_free(&program, number)
                .unwrap_or_else(|failure| panic!("{}", report(&program, &failure)));
            for seed in 0..5 {
                if let Err(failure) = several_faults(&program, &outcome, sites.len(), number * 1000 + seed) {
                    panic!("{}", report(&program, &failure));
                }
            }
        }
    }

    /// Real processes take their time, so these are few; `simulate --replays N` tries more.
    #[test]
    fn a_replayed_run_takes_the_path_of_the_recorded_one() {
        let raymond = Path::new(env!("CARGO_BIN_EXE_raymond-to-record"));
        for seed in 0..15 {
            replay(&generate(seed), raymond).unwrap_or_else(|difference| panic!("{difference}"));
        }
    }
}
