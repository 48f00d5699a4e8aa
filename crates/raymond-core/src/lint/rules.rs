//! The table of rules: a new rule is a file beside this one and a line in each list.

mod almost_a_tag;
mod ambiguous_name;
mod another_backend;
mod broken_tag;
mod call_without_result;
mod cannot_be_loaded;
mod contradicting_nexts;
mod dead_end;
mod empty_prompt;
mod endless_loop;
mod forbidden_tag;
mod forbidden_workflow;
mod force_implicit;
mod fork_without_continuation;
mod implicit_transition;
mod incomplete_tag;
mod invalid_effort;
mod invalid_model;
mod invalid_result_schema;
mod join_without_fork;
mod misplaced_settings;
mod missing_state;
mod missing_twin;
mod missing_workflow;
mod no_entry;
mod outside_of_workflow;
mod path_as_target;
mod reserved_variable;
mod secret;
mod two_entries;
mod unknown_key;
mod unmentioned_transition;
mod unreachable_state;
mod unread_script;
mod unreadable_settings;
mod unset_variable;
mod unsupported_attribute;
mod unused_result_schema;
mod wrong_input;
mod wrong_platform;
mod wrong_test;

pub use outside_of_workflow::{Outside, outside};

use super::Rule;

/// All rules, in the order of their codes.
pub static RULES: [&Rule; 41] = [
    &unreadable_settings::RULE,
    &invalid_effort::RULE,
    &no_entry::RULE,
    &two_entries::RULE,
    &missing_state::RULE,
    &incomplete_tag::RULE,
    &fork_without_continuation::RULE,
    &ambiguous_name::RULE,
    &wrong_platform::RULE,
    &path_as_target::RULE,
    &unsupported_attribute::RULE,
    &reserved_variable::RULE,
    &force_implicit::RULE,
    &missing_workflow::RULE,
    &cannot_be_loaded::RULE,
    &unknown_key::RULE,
    &unreachable_state::RULE,
    &dead_end::RULE,
    &call_without_result::RULE,
    &join_without_fork::RULE,
    &unmentioned_transition::RULE,
    &forbidden_tag::RULE,
    &unset_variable::RULE,
    &contradicting_nexts::RULE,
    &endless_loop::RULE,
    &missing_twin::RULE,
    &secret::RULE,
    &almost_a_tag::RULE,
    &implicit_transition::RULE,
    &unread_script::RULE,
    &forbidden_workflow::RULE,
    &invalid_model::RULE,
    &misplaced_settings::RULE,
    &broken_tag::RULE,
    &empty_prompt::RULE,
    &invalid_result_schema::RULE,
    &unused_result_schema::RULE,
    &wrong_input::RULE,
    &wrong_test::RULE,
    &another_backend::RULE,
    &outside_of_workflow::RULE,
];
