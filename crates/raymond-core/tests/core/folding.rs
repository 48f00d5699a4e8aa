//! The journal is the whole state: any part of it can be folded, and the run can continue from there.

use proptest::prelude::*;
use raymond_core::payload::Payload;
use raymond_core::run::RunStatus;

use crate::play::{Play, ask_everything, check_journal, moves, through_snapshot, told};
use crate::program::{Life, first_agent};
use crate::rig::{Rig, fold, through_json};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// A run that is killed after any batch and resumed does the rest, and nothing twice.
    #[test]
    fn a_run_can_be_cut_after_any_batch(main in first_agent(), moves in moves()) {
        let mut play = Play::new(&main);
        play.play_out(&moves);
        let expected = Life::of(&main, "/dir");
        let whole = &play.rig;
        for &length in &whole.batches {
            let journal = through_json(&whole.journal[..length]);
            let mut rest = Play::go_on(&main, Rig::take_up(journal, whole.now));
            if rest.rig.run.status != RunStatus::Completed {
                rest.rig.resume();
                rest = Play::go_on(&main, rest.rig);
            }
            rest.play_out(&[]);
            check_journal(&rest.rig.journal);
            prop_assert_eq!(told(&rest.rig.journal), expected.clone());
        }
    }

    /// A journal that is cut anywhere, even inside a batch, can be folded, and no query of the run panics.
    #[test]
    fn any_prefix_folds(main in first_agent(), moves in moves()) {
        let mut play = Play::new(&main);
        play.play_out(&moves);
        prop_assert!(fold(&play.rig.journal[..0]).is_none());
        for length in 1..play.rig.journal.len() {
            let run = fold(&play.rig.journal[..length]).unwrap();
            ask_everything(&run);
            prop_assert_eq!(through_snapshot(&run), run);
        }
    }

    /// If events are missing at the front or in the middle, folding ignores the events that do not fit.
    #[test]
    fn a_journal_with_holes_folds(main in first_agent(), moves in moves(), holes in any::<u64>()) {
        let mut play = Play::new(&main);
        play.play_out(&moves);
        let mut random = holes;
        let kept: Vec<_> = play
            .rig
            .journal
            .iter()
            .filter(|_| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                random >> 61 != 0
            })
            .cloned()
            .collect();
        if let Some(run) = fold(&kept) {
            ask_everything(&run);
        }
    }

    /// A run that continues from a snapshot decides the same later events.
    #[test]
    fn a_snapshot_changes_nothing(main in first_agent(), moves in moves(), at in 0..60_usize) {
        let at = at.min(moves.len());
        let mut play = Play::new(&main);
        for &(pick, next) in &moves[..at] {
            if play.is_over() {
                break;
            }
            play.step(pick, next);
        }
        let mut other = play.clone();
        other.rig.run = through_snapshot(&other.rig.run);
        prop_assert_eq!(&other.rig.run, &play.rig.run);
        play.play_out(&moves[at..]);
        other.play_out(&moves[at..]);
        prop_assert_eq!(&other.rig.journal, &play.rig.journal);
        prop_assert_eq!(&other.rig.run, &play.rig.run);
    }
}

/// What is decided does not depend on where texts are.
#[test]
fn every_text_of_a_state_can_be_replaced_by_a_reference() {
    let mut rig = Rig::new("START")
        .waiting()
        .prompt("P", "allowed_transitions: [{tag: goto, target: A}, {tag: goto, target: B}]");
    rig.emits(
        "main",
        "<fork input=\"said\" next=\"N\">ASK</fork><fork input=\"said\">LATE</fork><fork>DONE</fork><fork>P</fork>",
    );
    rig.emits("main_ask1", "<ask next=\"A\">said</ask>");
    rig.emits("main_late2", "<ask next=\"A\" timeout=\"1s\">said</ask>");
    rig.emits("main_done3", "<result>said</result>");
    rig.says("main_p4", "no tag");
    rig.passes(2);
    let mut run = rig.run.clone();
    let reference = Payload::Stored { payload: "abc".into(), bytes: 4 };
    let texts = run.payloads_mut();
    assert!(texts.iter().all(|text| text.text().is_some()), "{texts:?}");
    assert_eq!(texts.len(), 6);
    texts.into_iter().for_each(|text| *text = reference.clone());
    let written = serde_json::to_string(&run).unwrap();
    assert!(!written.contains("said") && !written.contains("no tag"), "{written}");
    assert_eq!(through_snapshot(&run), run);
}
