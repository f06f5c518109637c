//! The proxy that mangles answers.

use tenon_testkit::{Chaos, Mischief, Reply, Server, Wire, reply};

use crate::client::Connection;

fn words() -> Reply {
    reply().text_chunks((0..40).map(|number| format!("word {number} "))).usage(1, 2).until_close().forever()
}

/// All bytes of some answers, each on a connection of its own, and how often mischief happened.
fn heard(seed: u64, mischief: Mischief) -> (Vec<Vec<u8>>, usize) {
    let server = Server::start([words()]);
    let chaos = Chaos::start(&server, seed, mischief);
    let heard = Wire::ALL.map(|wire| {
        let mut connection = Connection::to(chaos.port());
        connection.post_on(wire, "{}");
        connection.rest()
    });
    (heard.to_vec(), chaos.deeds())
}

#[test]
fn without_mischief_nothing_changes() {
    let server = Server::start([words()]);
    let direct = Wire::ALL.map(|wire| {
        let mut connection = Connection::open(&server);
        connection.post_on(wire, "{}");
        connection.rest()
    });
    assert_eq!(heard(1, Mischief::default()), (direct.to_vec(), 0));
}

#[test]
fn each_mischief_does_what_it_says() {
    let (whole, _) = heard(1, Mischief::default());
    let few = 0.05;
    let (late, deeds) = heard(2, Mischief { delay: few, ..Mischief::default() });
    assert!(deeds > 0 && late == whole);

    let (cut, _) = heard(3, Mischief { cut: few, ..Mischief::default() });
    assert!(cut.iter().zip(&whole).all(|(cut, whole)| whole.starts_with(cut)) && cut != whole);

    let (twice, _) = heard(4, Mischief { duplicate: few, ..Mischief::default() });
    assert!(twice.iter().zip(&whole).all(|(twice, whole)| twice.len() >= whole.len()) && twice != whole);

    let (shorter, _) = heard(5, Mischief { truncate: few, ..Mischief::default() });
    assert!(shorter.iter().zip(&whole).all(|(shorter, whole)| shorter.len() <= whole.len()));
    assert!(shorter != whole);

    let (garbled, deeds) = heard(6, Mischief { garble: few, ..Mischief::default() });
    let pairs = garbled.concat().into_iter().zip(whole.concat());
    let changed = pairs.filter(|(garbled, whole)| garbled != whole).count();
    // The last piece of an answer may end before the byte that was to change.
    assert!(changed <= deeds && changed + Wire::ALL.len() >= deeds, "{changed} of {deeds}");
    assert_eq!(garbled.concat().len(), whole.concat().len());
}

#[test]
fn the_same_seed_is_the_same_mischief() {
    let all = Mischief { cut: 0.01, delay: 0.05, duplicate: 0.02, truncate: 0.02, garble: 0.05 };
    let first = heard(7, all);
    assert!(first.1 > 0);
    assert_eq!(heard(7, all), first);
    assert_ne!(heard(8, all), first);
}

#[test]
fn damage_does_not_leave_a_client_waiting() {
    let server = Server::start([reply().text_chunks(["a"; 40])]);
    let chaos = Chaos::start(&server, 1, Mischief { truncate: 1.0, ..Mischief::default() });
    let mut connection = Connection::to(chaos.port());
    connection.post("{}");
    connection.rest();
}
