//! Files from anywhere: cut, changed, made to harm. An error each time; never a panic, never more memory than
//! the file is long.

use std::path::Path;

use proptest::prelude::*;
use tenon_local::{Gguf, GgufError, Kind, Store, Weights, examine};
use tenon_testkit::{TinyFamily, TinyFormat, TinyModel, cases};

fn tiny() -> Vec<u8> {
    TinyModel::new(1).bytes()
}

fn header(tensors: u64, values: u64) -> Vec<u8> {
    [b"GGUF".as_slice(), &3_u32.to_le_bytes(), &tensors.to_le_bytes(), &values.to_le_bytes()].concat()
}

fn text(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text].concat()
}

#[test]
fn a_file_in_order_is_read() {
    let bytes = tiny();
    let file = Gguf::parse(&bytes).expect("it is in order");
    assert_eq!(file.text("general.architecture"), Ok(Some("llama")));
    assert_eq!(file.integer("llama.context_length"), Ok(Some(4096)));
    assert_eq!(file.integer("nothing"), Ok(None));
    let table = file.tensor("token_embd.weight").expect("it is there");
    assert_eq!((table.dimensions[0], table.kind), (64, Kind::Q8_0));
    assert!(matches!(file.integer("general.architecture"), Err(GgufError::Broken(_))));
}

#[test]
fn what_claims_too_much_is_refused() {
    let endless_text =
        [header(0, 1), text(b"a"), 8_u32.to_le_bytes().to_vec(), u64::MAX.to_le_bytes().to_vec()].concat();
    let endless_list = [
        header(0, 1),
        text(b"a"),
        9_u32.to_le_bytes().to_vec(),
        4_u32.to_le_bytes().to_vec(),
        u64::MAX.to_le_bytes().to_vec(),
    ]
    .concat();
    let endless_texts = [
        header(0, 1),
        text(b"a"),
        9_u32.to_le_bytes().to_vec(),
        8_u32.to_le_bytes().to_vec(),
        (1_u64 << 60).to_le_bytes().to_vec(),
    ]
    .concat();
    let nested = [
        header(0, 1),
        text(b"a"),
        9_u32.to_le_bytes().to_vec(),
        9_u32.to_le_bytes().to_vec(),
        1_u64.to_le_bytes().to_vec(),
    ]
    .concat();
    let tensor = |dimensions: &[u64], kind: u32, offset: u64| {
        let mut bytes = [header(1, 0), text(b"t"), (dimensions.len() as u32).to_le_bytes().to_vec()].concat();
        dimensions.iter().for_each(|size| bytes.extend(size.to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.resize(bytes.len() + 256, 0);
        bytes
    };
    for (what, bytes) in [
        ("nothing", Vec::new()),
        ("no magic", b"GGML\x03\0\0\0".to_vec()),
        ("another version", [b"GGUF".as_slice(), &9_u32.to_le_bytes()].concat()),
        ("many values", header(0, u64::MAX)),
        ("many tensors", header(u64::MAX, 0)),
        ("an endless text", endless_text),
        ("an endless list", endless_list),
        ("endless texts", endless_texts),
        ("a list of lists", nested),
        ("an unknown type", [header(0, 1), text(b"a"), 77_u32.to_le_bytes().to_vec()].concat()),
        ("sizes that overflow", tensor(&[1 << 40, 1 << 40], 0, 0)),
        ("bytes that overflow", tensor(&[u64::MAX / 2], 0, 0)),
        ("a place that overflows", tensor(&[4], 0, u64::MAX)),
        ("a place behind the end", tensor(&[4], 0, 1 << 30)),
        ("no size", tensor(&[0], 0, 0)),
        ("no dimensions", tensor(&[], 0, 0)),
        ("many dimensions", tensor(&[1; 9], 0, 0)),
        ("half a block", tensor(&[33], 8, 0)),
        ("an unknown format", tensor(&[32], 99, 0)),
    ] {
        assert!(Gguf::parse(&bytes).is_err(), "{what}");
    }
}

/// Opens it as a user's file is opened, up to the converted copy.
fn open(bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.gguf");
    std::fs::write(&path, bytes).expect("it is written");
    let store = Store::new(folder.path().join("models"));
    let ready =
        store.ready(&Weights::File(path), &mut |_| {}, &mut || true).map_err(|error| error.to_string())?;
    crate::model::ask_text(&ready, "hi").map(drop)
}

#[test]
fn a_cut_file_is_an_error() {
    let whole = tiny();
    for length in [0, 3, 24, 60, 500, 20_000, whole.len() / 2, whole.len() - 64] {
        let error = open(&whole[..length]).expect_err("it is cut");
        assert!(!error.contains("panic"), "{error}");
    }
    open(&whole).expect("whole, it is fine");
}

#[test]
fn a_file_of_another_family_says_so() {
    let mut bytes = tiny();
    let at = bytes.windows(5).position(|window| window == b"llama").expect("it is named");
    bytes[at..at + 5].copy_from_slice(b"mamba");
    let error = open(&bytes).expect_err("it is unknown");
    assert!(error.contains("`mamba`"), "{error}");
}

#[test]
fn every_family_is_read_and_converted() {
    for family in [TinyFamily::Llama, TinyFamily::Qwen2, TinyFamily::Qwen3] {
        open(&TinyModel { family, format: TinyFormat::F32, seed: 3 }.bytes()).expect("it is in order");
    }
}

/// What the fuzzer keeps, and what it starts from.
#[test]
fn the_corpus_is_read_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/gguf");
    let mut seen = 0;
    for file in std::fs::read_dir(folder).expect("the corpus") {
        let _ = examine(&std::fs::read(file.expect("a file").path()).expect("its bytes"));
        seen += 1;
    }
    assert!(seen >= 5);
    examine(&tiny()).expect("it is in order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(64)))]

    #[test]
    fn changed_bytes_never_panic(changes in prop::collection::vec((0_usize..30_000, any::<u8>()), 1..8)) {
        let mut bytes = tiny();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        // An error or not: both are fine.
        let _ = open(&bytes);
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Gguf::parse(&bytes);
        let _ = Gguf::parse(&[header(2, 2), bytes].concat());
    }
}
