//! `backcast sim replay`: numbers of recorded order books, and the exit status of damaged ones.

use crate::shelf::Shelf;

const MESSAGES: &str = "1,1,7,100,1000000,1\n2.5,4,7,40,1000000,1\n3,5,0,9,1000050,-1\n";
const BOOK: &str = "9999999999,0,1000000,100\n9999999999,0,1000000,60\n9999999999,0,1000000,60\n";

#[test]
fn the_files_of_a_recorded_book_are_counted() {
    let shelf = Shelf::new();
    let messages = shelf.file("messages.csv", MESSAGES);
    let book = shelf.file("book.csv", BOOK);
    let ran = shelf.run(&["sim", "replay", &messages, &book]).expect(0);
    assert_eq!(
        ran.out,
        "3 messages from 1 s to 3 s, levels 1\n\
         submitted 1, cancelled 0, deleted 0, executed 1, hidden 1, crosses 0, halts 0\n\
         49 shares traded, 0 differences\n"
    );
}

#[test]
fn damaged_files_end_with_status_1_and_the_line() {
    let shelf = Shelf::new();
    let messages = shelf.file("messages.csv", MESSAGES);
    let book = shelf.file("book.csv", &BOOK.replacen(",60", ",61", 1));
    let ran = shelf.run(&["sim", "replay", &messages, &book]).expect(1);
    assert!(ran.err.contains("line 2 of the order book file has 61 shares"), "{}", ran.err);
    let ran = shelf.run(&["sim", "replay", &messages, &book, "--follow"]).expect(0);
    assert!(ran.out.contains("2 differences"), "{}", ran.out);
    let ran = shelf.run(&["sim", "replay", "none.csv"]).expect(3);
    assert!(ran.err.contains("none.csv cannot be opened"), "{}", ran.err);
}
