//! Random histories of runs that are taken back, with fixed seeds. `simulate --going-back N` plays more.

#[cfg(test)]
mod tests {
    use simulation::going_back::defect::Defect;
    use simulation::going_back::histories::{at_every_point, play, random, report};

    fn survive(seeds: std::ops::Range<u64>) {
        for seed in seeds {
            let history = random(seed);
            if play(&history, None, false).broken.is_some() {
                panic!("{}", report(seed, &history, None));
            }
        }
    }

    #[test]
    fn no_work_is_lost_and_no_folder_has_two_owners() {
        survive(0..600);
    }

    #[test]
    fn nothing_is_lost_by_a_kill_at_any_point() {
        for seed in 1_000_000..1_000_003 {
            at_every_point(seed).unwrap_or_else(|failure| panic!("{failure}"));
        }
    }

    /// So many histories are enough for the monitor to notice that a rule is broken.
    const ENOUGH: u64 = 20_000;

    /// With each broken rule, a history in which that was noticed once. Where the rules have changed since, others are tried.
    const NOTICED: [(Defect, u64); Defect::ALL.len()] = [
        (Defect::TakesOriginsWorktree, 14),
        (Defect::ForgetsItsFolder, 3),
        (Defect::DroppedSharesWorktree, 2),
        (Defect::BranchSharesFolder, 3),
        (Defect::LeavesBranchBehind, 43),
        (Defect::RefusesOwnBranch, 692),
        (Defect::MarksTooLate, 289),
        (Defect::LeavesRewindUnfinished, 591),
        (Defect::UsesNameAgain, 1067),
        (Defect::TrustsNoLock, 90),
        (Defect::OverlooksHidden, 9),
        (Defect::OverwritesIgnored, 200),
        (Defect::KeepsNothing, 10),
        (Defect::TrustsLostSnapshot, 200),
        (Defect::KeepsOnlyTheLast, 585),
        (Defect::OverlooksDetached, 489),
        (Defect::TakesOptionsBack, 43),
        (Defect::DroppedAsks, 23),
        (Defect::RemovesAsking, 19),
        (Defect::RemovesForeign, 9),
        (Defect::RemovesNeeded, 768),
        (Defect::LeavesLocks, 217),
        (Defect::SharesTaskFolder, 2),
        (Defect::LosesTaskFolder, 61),
        (Defect::LeavesFolderLocked, 36_267),
    ];

    #[test]
    fn the_monitor_notices_each_rule_that_is_broken() {
        for (defect, known) in NOTICED {
            let noticed = |seed: u64| Some((seed, play(&random(seed), Some(defect), false).broken?));
            let (seed, what) = noticed(known)
                .or_else(|| (0..ENOUGH).find_map(noticed))
                .unwrap_or_else(|| panic!("{defect:?} is not noticed"));
            println!("(Defect::{defect:?}, {seed}), // {what}");
            assert!(play(&random(seed), None, false).broken.is_none(), "{seed} is broken without {defect:?}");
        }
        assert!(Defect::ALL.iter().all(|defect| NOTICED.iter().any(|(noticed, _)| noticed == defect)));
    }

    #[test]
    #[ignore = "on demand: a million histories take an hour in a debug build; `simulate --going-back` is the same"]
    fn a_million_histories_lose_nothing() {
        survive(0..1_000_000);
    }
}
