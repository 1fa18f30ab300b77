//! Cases that have failed before, each the shortest of its kind. Random seeds rarely reach them.

use super::Operation::*;
use super::disk::Heads;
use super::*;

/// Runs a case three times, because ids are random and determine the order in which files are
/// visited.
fn check(heads: Heads, operations: &[Operation]) {
    for _ in 0..3 {
        let played = play(heads, Holding::Links, Finishing::All, operations);
        played.unwrap_or_else(|error| panic!("{error}\nwith {operations:#?}"));
    }
}

#[test]
fn data_that_is_read_again_is_checked_first() {
    let rewritten =
        [Append(2, false, 1), Poll(1), Rewrite(2, Size::Same), Lose(false), CopyTruncate(2, true)];
    check(Heads::Differ, &rewritten);
}

#[test]
fn a_file_that_is_rewritten_while_it_waits_is_checked_before_it_is_read_on() {
    let waits =
        [Begin(1, false), Poll(1), Rewrite(1, Size::Shorter), Advance(200), Poll(1), CopyAway(1)];
    check(Heads::Short, &waits);
    let grown = [
        Append(1, false, 37),
        Poll(1),
        Rewrite(1, Size::Same),
        Advance(200),
        CopyTruncate(1, true),
    ];
    check(Heads::Short, &grown);
}

#[test]
fn a_file_that_is_shorter_than_its_copy_was_rewritten() {
    let same = [Begin(0, false), CopyTruncate(0, true), Rewrite(0, Size::Same)];
    check(Heads::Long, &same);
}

#[test]
fn a_file_that_differs_from_its_copy_was_rewritten() {
    let longer = [
        Begin(1, false),
        Poll(1),
        Rewrite(1, Size::Same),
        CopyTruncate(1, true),
        Append(1, false, 1),
    ];
    check(Heads::Long, &longer);
}

#[test]
fn a_finished_file_is_no_copy_of_another_that_begins_like_it() {
    let finished = [
        Append(2, false, 1),
        Settle,
        CopyAway(2),
        Advance(12_000),
        Poll(1),
        Begin(2, false),
        Advance(6000),
        Poll(1),
        CopyAway(2),
    ];
    check(Heads::Long, &finished);
}

#[test]
fn a_copy_of_rewritten_content_of_the_same_size_is_recognized() {
    for begin in [Append(1, false, 1), Begin(1, false)] {
        let copied = [begin, Settle, Rewrite(1, Size::Same), CopyTruncate(1, true)];
        check(Heads::Differ, &copied);
    }
    let linked = [Switch, Settle, Rewrite(2, Size::Same), CopyTruncate(2, true)];
    check(Heads::Differ, &linked);
}

#[test]
fn a_compressed_file_is_no_copy_of_another_that_begins_like_it() {
    let compressed = [
        Append(1, false, 1),
        Rotate(1),
        Begin(1, false),
        CopyTruncate(2, true),
        Compress(1, false),
        CopyAway(1),
    ];
    check(Heads::Long, &compressed);
}

#[test]
fn a_copy_is_of_the_file_that_has_all_of_it() {
    let replaced =
        [Begin(0, false), Settle, Stop(Ending::Drained), Replace(0), Start, CopyTruncate(0, true)];
    check(Heads::Long, &replaced);
    let switched = [
        Append(0, false, 1),
        Append(2, false, 1),
        Poll(1),
        Rotate(0),
        Stop(Ending::Killed),
        Start,
        Switch,
        CopyTruncate(2, true),
    ];
    check(Heads::Long, &switched);
}

#[test]
fn of_two_copies_the_one_with_more_of_the_data_is_read() {
    let compressed = [
        Begin(1, false),
        CopyTruncate(1, true),
        Append(1, false, 10),
        Advance(200),
        Compress(1, true),
        CopyTruncate(1, false),
    ];
    check(Heads::Long, &compressed);
    let longer = [
        Begin(0, false),
        CopyTruncate(0, true),
        CopyTruncate(0, false),
        Append(0, false, 11),
        CopyTruncate(0, true),
    ];
    check(Heads::Long, &longer);
}

#[test]
fn a_held_file_that_was_rewritten_is_held_under_its_new_id() {
    let switched = [Switch, Poll(1), Rewrite(2, Size::Same), Switch, Advance(2500)];
    check(Heads::Differ, &switched);
    let killed = [
        Switch,
        Append(0, false, 1),
        Append(0, false, 1),
        CopyTruncate(2, true),
        Switch,
        Advance(2500),
        Settle,
        Stop(Ending::Killed),
    ];
    check(Heads::Differ, &killed);
    let replaced = [
        Append(2, false, 1),
        CopyTruncate(2, true),
        Append(2, false, 1),
        Replace(2),
        Stop(Ending::Drained),
        Start,
        CopyTruncate(0, true),
        Stop(Ending::TimedOut),
    ];
    check(Heads::Differ, &replaced);
}

#[test]
fn generations_of_a_finished_file_that_is_awaited_are_read() {
    let compressed = [
        Rotate(0),
        Append(0, false, 1),
        Compress(0, false),
        Rotate(0),
        Compress(0, false),
        Append(1, false, 1),
    ];
    let played = play_rotations(Finishing::All, &compressed);
    played.unwrap_or_else(|error| panic!("{error}\nwith {compressed:#?}"));
}
