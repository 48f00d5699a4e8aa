//! Compares the core with a model of agents and stacks, on random programs with random faults.

use proptest::prelude::*;
use raymond_core::payload::Payload;

use crate::play::{Play, check_journal, moves, told};
use crate::program::{Life, first_agent};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn agents_do_what_their_programs_say(main in first_agent(), moves in moves()) {
        let expected = Life::of(&main, "/dir");
        let mut play = Play::new(&main);
        play.play_out(&moves);
        let run = &play.rig.run;
        check_journal(&play.rig.journal);
        prop_assert_eq!(run.steps_completed, expected.steps());
        prop_assert_eq!(run.result.clone(), expected.result.clone().map(Payload::from));
        prop_assert_eq!(told(&play.rig.journal), expected);
    }
}
