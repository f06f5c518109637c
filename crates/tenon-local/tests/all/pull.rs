//! Weights come from a source that is not there, stops in the middle, or lies.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream;
use ring::digest::{SHA256, digest};
use tenon_core::BoxFut;
use tenon_local::{
    Download, Entry, Got, LocalError, Network, Progress, Pull, Source, Store, Weights, entries, entry,
};
use tenon_testkit::{TinyFamily, TinyFormat, TinyModel};

/// A server of one file.
struct Fake {
    file: Vec<u8>,
    /// Bytes after which each answer breaks off.
    stops: Vec<usize>,
    asked: Mutex<Vec<u64>>,
    count: AtomicUsize,
    /// Does it heed the start it is asked for?
    heeds: bool,
}

impl Fake {
    fn new(file: &[u8]) -> Fake {
        Fake {
            file: file.to_vec(),
            stops: Vec::new(),
            asked: Mutex::default(),
            count: AtomicUsize::new(0),
            heeds: true,
        }
    }
}

impl Download for Fake {
    fn get(&self, url: &str, from: u64) -> BoxFut<'_, Result<Got, String>> {
        let gone = url.contains("gone");
        Box::pin(async move {
            if gone {
                return Err("there is no such host".to_owned());
            }
            self.asked.lock().unwrap().push(from);
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let from = if self.heeds { from } else { 0 };
            let rest = &self.file[from as usize..];
            let mut pieces: Vec<Result<Vec<u8>, String>> = Vec::new();
            match self.stops.get(number) {
                Some(stop) => {
                    pieces.push(Ok(rest[..*stop].to_vec()));
                    pieces.push(Err("the connection broke".to_owned()));
                }
                None => pieces.extend(rest.chunks(10_000).map(|piece| Ok(piece.to_vec()))),
            }
            Ok(Got { from, body: Box::pin(stream::iter(pieces)) })
        })
    }
}

fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn entry_of(file: &[u8], sources: &'static [Source]) -> Entry {
    let sha256 = digest(&SHA256, file).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    Entry { name: "tiny", about: "x", licence: "x", sha256: leak(sha256), bytes: file.len() as u64, sources }
}

fn pull(
    store: &Store,
    from: &Fake,
    network: Network,
    entry: &Entry,
    seen: &Mutex<Vec<Progress>>,
) -> Result<(), LocalError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let progress = |step| seen.lock().unwrap().push(step);
    let pull = Pull { store, download: from, network, secret_env: &[], progress: &progress };
    runtime.block_on(pull.run(entry)).map(drop)
}

fn model() -> Vec<u8> {
    TinyModel { family: TinyFamily::Llama, format: TinyFormat::F32, seed: 1 }.bytes()
}

const ONE: &[Source] = &[Source::Url("https://models.example/tiny.gguf")];
const TWO: &[Source] =
    &[Source::Url("https://gone.example/tiny.gguf"), Source::Url("https://models.example/tiny.gguf")];

#[test]
fn a_model_is_fetched_checked_converted_and_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("models"));
    let file = model();
    let entry = entry_of(&file, TWO);
    let seen = Mutex::default();
    assert!(store.installed(&entry).is_none());
    pull(&store, &Fake::new(&file), Network::Allowed, &entry, &seen).unwrap();
    let installed = store.installed(&entry).unwrap();
    assert!(installed.bytes < entry.bytes, "it is stored with eight bits a number");
    crate::model::ask_text(&installed.path, "hi").unwrap();
    let seen = seen.into_inner().unwrap();
    assert_eq!(
        seen.iter().rev().nth(2),
        Some(&Progress::Downloading { done: entry.bytes, total: entry.bytes })
    );
    assert_eq!(seen.last(), Some(&Progress::Converting));
    let left: Vec<_> =
        std::fs::read_dir(store.folder()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the file and the lock: {left:?}");
    pull(&store, &Fake::new(b""), Network::Forbidden, &entry, &Mutex::default()).unwrap();
    assert!(store.remove(&entry).unwrap());
    assert!(!store.remove(&entry).unwrap());
}

#[test]
fn a_download_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_owned());
    let file = model();
    let entry = entry_of(&file, ONE);
    let fake = Fake { stops: vec![1_000, 500], ..Fake::new(&file) };
    for _ in 0..2 {
        let error = pull(&store, &fake, Network::Allowed, &entry, &Mutex::default()).unwrap_err();
        assert!(error.to_string().contains("the connection broke"), "{error}");
    }
    pull(&store, &fake, Network::Allowed, &entry, &Mutex::default()).unwrap();
    assert_eq!(*fake.asked.lock().unwrap(), [0, 1_000, 1_500]);

    let stubborn = Fake { stops: vec![1_000], heeds: false, ..Fake::new(&file) };
    store.remove(&entry).unwrap();
    pull(&store, &stubborn, Network::Allowed, &entry, &Mutex::default()).unwrap_err();
    pull(&store, &stubborn, Network::Allowed, &entry, &Mutex::default()).unwrap();
}

#[test]
fn another_file_is_not_taken_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_owned());
    let file = model();
    let entry = entry_of(&file, ONE);
    let mut other = file.clone();
    *other.last_mut().unwrap() ^= 1;
    let error = pull(&store, &Fake::new(&other), Network::Allowed, &entry, &Mutex::default()).unwrap_err();
    assert!(matches!(&error, LocalError::WrongChecksum { .. }), "{error}");
    assert!(store.installed(&entry).is_none());
    let longer = [file.clone(), vec![0]].concat();
    let error = pull(&store, &Fake::new(&longer), Network::Allowed, &entry, &Mutex::default()).unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
    // What is left of the lie does not spoil the next try.
    pull(&store, &Fake::new(&file), Network::Allowed, &entry, &Mutex::default()).unwrap();
}

#[test]
fn errors_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("models"));
    let file = model();
    let entry = entry_of(&file, ONE);
    let offline = pull(&store, &Fake::new(&file), Network::Forbidden, &entry, &Mutex::default()).unwrap_err();
    assert!(offline.to_string().contains("TENON_OFFLINE"), "{offline}");
    assert!(!store.folder().exists(), "nothing was touched");
    let gone = entry_of(&file, &[Source::Url("https://gone.example/a")]);
    let nowhere = pull(&store, &Fake::new(&file), Network::Allowed, &gone, &Mutex::default()).unwrap_err();
    assert!(nowhere.to_string().contains("no such host") && nowhere.hint().is_some(), "{nowhere}");
    let huge = Entry { bytes: u64::MAX / 8, ..entry };
    let space = pull(&store, &Fake::new(&file), Network::Allowed, &huge, &Mutex::default()).unwrap_err();
    assert!(matches!(space, LocalError::NoSpace { .. }), "{space}");
    let missing = store.ready(&Weights::Named(&entries()[0]), &mut |_| {}, &mut || true).unwrap_err();
    assert!(missing.hint().is_some_and(|hint| hint.contains("tenon local pull")), "{missing}");
}

#[test]
fn a_file_of_ones_own_is_converted_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("models"));
    let path = folder.path().join("own.gguf");
    std::fs::write(&path, model()).unwrap();
    let told = Mutex::new(0);
    let ready = || {
        store.ready(&Weights::File(path.clone()), &mut |_| *told.lock().unwrap() += 1, &mut || true).unwrap()
    };
    let first = ready();
    assert_ne!(first, path);
    assert_eq!(ready(), first);
    assert_eq!(*told.lock().unwrap(), 1);
    std::fs::write(&path, TinyModel::new(9).bytes()).unwrap();
    assert_eq!(ready(), path, "this one is ready as it is");
}

#[test]
fn a_conversion_that_is_stopped_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("models"));
    let path = folder.path().join("own.gguf");
    std::fs::write(&path, model()).unwrap();
    let stopped = store.ready(&Weights::File(path), &mut |_| {}, &mut || false).unwrap_err();
    assert!(matches!(stopped, LocalError::Cancelled), "{stopped}");
    assert_eq!(std::fs::read_dir(store.folder().join("cache")).unwrap().count(), 0);
}

#[test]
fn names_and_files() {
    let here = std::path::Path::new("/w");
    let default = Weights::Named(&entries()[0]);
    assert_eq!(Weights::find(None, here).unwrap(), default);
    assert_eq!(Weights::find(Some("smollm2-135m"), here).unwrap(), default);
    assert_eq!(Weights::find(Some("a/b.gguf"), here).unwrap(), Weights::File("/w/a/b.gguf".into()));
    assert_eq!(Weights::find(Some("/x.gguf"), here).unwrap(), Weights::File("/x.gguf".into()));
    let unknown = Weights::find(Some("gpt-9"), here).unwrap_err();
    assert!(unknown.hint().is_some_and(|hint| hint.contains("smollm2-135m")), "{unknown}");
}

#[test]
fn the_manifest_is_in_order() {
    for known in entries() {
        assert_eq!(known.sha256.len(), 64);
        assert!(known.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(!known.sources.is_empty() && known.bytes > 0);
        assert_eq!(entry(known.name), Some(known));
    }
}
