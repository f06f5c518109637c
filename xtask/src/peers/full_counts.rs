//! Tests that take long at their full count: most start the binary for each case, one goes over every order of every
//! small graph. A small count of each belongs to every change.

use crate::Failure;
use crate::peers::workspace::{Binary, cargo_test};

pub fn chaos(_: &Binary) -> Result<(), Failure> {
    at_full_count("2000", "chaos::every_run_ends_in_a_payload_or_the_right_failure")
}

pub fn markers(_: &Binary) -> Result<(), Failure> {
    at_full_count("1000", "markers::no_marker_is_found_where_it_does_not_belong")
}

pub fn sessions(_: &Binary) -> Result<(), Failure> {
    at_full_count("200", "session_crashes::a_session_cut_at_any_byte_resumes")?;
    at_full_count("20", "session_crashes::a_run_killed_in_mid_call_is_not_repeated")
}

pub fn crashes(_: &Binary) -> Result<(), Failure> {
    at_full_count("500", "engine::crashes::runs_that_are_killed_at_random_end_as_if_they_had_not_been")
}

pub fn many_turns(_: &Binary) -> Result<(), Failure> {
    at_full_count("10000", "many_turns::many_turns_are_answered_in_order_and_leave_nothing_behind")
}

pub fn rough_clients(_: &Binary) -> Result<(), Failure> {
    at_full_count("600", "rough_clients::a_client_may_close_its_side_after_any_byte")?;
    at_full_count("600", "rough_clients::a_client_may_be_stopped_at_any_moment")?;
    at_full_count("300", "rough_clients::a_client_may_close_its_side_at_any_line_it_is_told")?;
    // Thousands of requests.
    at_full_count(
        "1000",
        "rough_clients::a_flood_of_requests_whose_answers_nobody_reads_does_not_fill_the_memory",
    )?;
    // Milliseconds.
    at_full_count("60000", "rough_clients::a_client_that_stops_reading_for_a_while_loses_nothing")
}

/// Every graph of up to five steps.
pub fn schedules(_: &Binary) -> Result<(), Failure> {
    at_full_count("5", "every_order::every_order_of_every_small_graph_gives_the_same_results")
}

pub fn at_full_count(runs: &str, test: &str) -> Result<(), Failure> {
    let output =
        cargo_test().args(["--quiet", "--", "--exact", test]).env("PROPTEST_CASES", runs).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        println!("{said}{}", String::from_utf8_lossy(&output.stderr));
        return Err(Failure::other(format!("a run of `{test}` went wrong; its seed is above")));
    }
    // A test that was renamed would pass by not being there.
    if !said.contains("1 passed") {
        return Err(Failure::other(format!("there is no test `{test}`")));
    }
    println!("{runs} runs ended as they should");
    Ok(())
}
