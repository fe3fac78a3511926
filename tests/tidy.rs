//! A test that reads the tree: who imports whom, how long things are, which words are not used.
//! What a machine can check is not discussed in review.

use std::fs;
use std::path::{Path, PathBuf};

/// A source file.
struct Source {
    /// Relative to the root, with forward slashes.
    path: String,
    text: String,
}

/// One thing that is not as it should be.
fn complaint(source: &Source, line: usize, what: &str) -> String {
    format!("{}:{}: {what}", source.path, line + 1)
}

#[track_caller]
fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files of one folder of the root.
fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("sources are text");
            let path = path.strip_prefix(root()).expect("it is below the root");
            found.push(Source { path: path.to_string_lossy().replace('\\', "/"), text });
        }
    }
}

impl Source {
    /// The lines, up to the unit tests at the end.
    fn lines(&self) -> Vec<&str> {
        let lines: Vec<&str> = self.text.lines().collect();
        if self.path.ends_with("/tests.rs") || lines.contains(&"#![cfg(test)]") {
            return Vec::new();
        }
        // A module that is only named is a file of its own.
        let tests = lines.windows(2).position(|pair| {
            pair[0].starts_with("#[cfg(")
                && pair[0].contains("test")
                && pair[1].starts_with("mod ")
                && pair[1].ends_with('{')
        });
        match tests {
            Some(at) => lines[..at].to_vec(),
            None => lines,
        }
    }

    /// Number and text of the lines that are code: no unit tests, no comments.
    fn code(&self) -> Vec<(usize, &str)> {
        let lines = self.lines().into_iter().enumerate();
        lines.filter(|(_, line)| !line.trim_start().starts_with("//")).collect()
    }

    /// The module directly below the crate that the file belongs to.
    fn module(&self) -> &str {
        let rest = self.path.strip_prefix("src/").unwrap_or(&self.path);
        rest.split(['/', '.']).next().unwrap_or(rest)
    }
}

/// Modules that everybody may import: names, buffers, limits, and the ways between threads.
const BASE: [&str; 9] =
    ["calendar", "key", "buf", "timers", "limits", "error", "mailbox", "guard", "workers"];

/// What each floor of the house may import beside the base and itself.
const FLOORS: [(&str, &[&str]); 8] = [
    ("rpc", &[]),
    ("http", &[]),
    ("mcp", &["rpc"]),
    ("exchange", &["rpc", "http", "mcp"]),
    ("filter", &["rpc", "http", "mcp", "exchange"]),
    ("engine", &["rpc", "http", "mcp", "exchange", "filter"]),
    ("dispatcher", &["rpc", "http", "mcp", "exchange", "filter", "engine"]),
    ("server", &["rpc", "http", "mcp", "exchange", "filter", "engine", "dispatcher"]),
];

/// Whether one module may import another; none for a module without a place in the house.
fn may_import(importer: &str, imported: &str) -> Option<bool> {
    if importer == "lib" {
        return Some(true);
    }
    if BASE.contains(&importer) {
        return Some(BASE.contains(&imported));
    }
    let (_, below) = FLOORS.iter().find(|(floor, _)| *floor == importer)?;
    Some(importer == imported || BASE.contains(&imported) || below.contains(&imported))
}

/// The modules that a line of code names by their path from the crate.
fn imports(line: &str) -> Vec<&str> {
    let rests = line.split("crate::").skip(1);
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    rests.map(|rest| rest.split(|c| !is_word(c)).next().unwrap_or("")).collect()
}

#[test]
fn a_module_imports_only_from_floors_below_it() {
    let mut complaints = Vec::new();
    for source in &sources("src") {
        for (number, line) in source.code() {
            for imported in imports(line) {
                match may_import(source.module(), imported) {
                    Some(true) => {}
                    Some(false) => {
                        let what = format!("{} may not import {imported}", source.module());
                        complaints.push(complaint(source, number, &what));
                    }
                    None => {
                        let what = format!("{} has no floor", source.module());
                        complaints.push(complaint(source, number, &what));
                    }
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn paths_from_the_crate_are_spelled_so_that_floors_can_be_checked() {
    let mut complaints = Vec::new();
    for source in &sources("src") {
        let is_top = source.path.matches('/').count() == 1 || source.path.ends_with("/mod.rs");
        for (number, line) in source.code() {
            if is_top && source.path.matches('/').count() <= 2 && line.contains("super::") {
                complaints.push(complaint(source, number, "say crate:: instead of super::"));
            }
            if line.contains("use crate::{") || line.contains("use crate::*") {
                complaints.push(complaint(source, number, "import from one module a line"));
            }
        }
    }
    assert_none(&complaints);
}

/// Words that belong to some modules only, with the modules they belong to.
const OWNED: [(&[&str], &[&str]); 2] = [
    (
        &["mio", "socket2", "signal_hook", "signal_hook_mio", "TcpStream", "TcpListener"],
        &["dispatcher"],
    ),
    (&["Instant::now", "SystemTime::now"], &["dispatcher"]),
];

/// Whether `word` stands in the line and is not a part of a longer one.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        !is_part(before.chars().next_back()) && !is_part(after.chars().next())
    })
}

#[test]
fn sockets_and_the_clock_are_the_dispatcher_s_alone() {
    let mut complaints = Vec::new();
    for source in &sources("src") {
        for (words, owners) in OWNED {
            if owners.contains(&source.module()) {
                continue;
            }
            for (number, line) in source.code() {
                for word in words.iter().filter(|word| has_word(line, word)) {
                    complaints.push(complaint(source, number, &format!("{word} is not for here")));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn http_knows_no_json_and_mcp_knows_no_header() {
    let foreign: [(&str, &[&str]); 3] = [
        ("http", &["serde", "jsonrpc", "json-rpc", "mcp"]),
        ("rpc", &["mcp-", "\"initialize\"", "tools/", "session"]),
        (
            "mcp",
            &[
                "mcp-session-id",
                "mcp-protocol-version",
                "mcp-method",
                "mcp-name",
                "mcp-param",
                "last-event-id",
                "content-type",
                "text/event-stream",
            ],
        ),
    ];
    let mut complaints = Vec::new();
    for source in &sources("src") {
        for (module, words) in foreign {
            if source.module() != module {
                continue;
            }
            for (number, line) in source.code() {
                let line = line.to_lowercase();
                for word in words.iter().filter(|word| line.contains(**word)) {
                    complaints.push(complaint(source, number, &format!("{module} says {word:?}")));
                }
            }
        }
    }
    assert_none(&complaints);
}

/// The widest line that fits two columns of a review.
const LINE_CHARS_MAX: usize = 100;
/// A function that is longer does more than one thing.
const FUNCTION_LINES_MAX: usize = 70;
/// A file that is longer is about more than one noun.
const FILE_LINES_MAX: usize = 500;

fn all_sources() -> Vec<Source> {
    ["src", "tests", "examples", "benches"].into_iter().flat_map(sources).collect()
}

#[test]
fn lines_are_short() {
    let mut complaints = Vec::new();
    for source in &all_sources() {
        for (number, line) in source.text.lines().enumerate() {
            if line.chars().count() > LINE_CHARS_MAX {
                complaints.push(complaint(source, number, "the line is too long"));
            }
            if line.ends_with(' ') || line.contains('\t') {
                complaints.push(complaint(source, number, "blanks where none belong"));
            }
        }
    }
    assert_none(&complaints);
}

/// Where functions begin, and how many lines each has.
fn functions(text: &str) -> Vec<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let declared = line.trim_start();
        let declared = declared
            .strip_prefix("pub")
            .map_or(declared, |rest| rest.split_once(' ').map_or(rest, |(_, declared)| declared));
        let declared = declared.strip_prefix("const ").unwrap_or(declared);
        if !declared.starts_with("fn ") || line.ends_with(';') || line.ends_with('}') {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let length = lines[start..].iter().position(|line| *line == end);
        found.push((start, length.map_or(0, |length| length + 1)));
    }
    found
}

#[test]
fn functions_are_short() {
    let mut complaints = Vec::new();
    for source in &all_sources() {
        for (start, length) in functions(&source.text) {
            if length > FUNCTION_LINES_MAX {
                let what = format!("the function has {length} lines");
                complaints.push(complaint(source, start, &what));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn files_are_about_one_thing() {
    let mut complaints = Vec::new();
    for source in &sources("src") {
        let count = source.lines().len();
        if count > FILE_LINES_MAX {
            complaints.push(complaint(source, count, &format!("the file has {count} lines")));
        }
        if !source.text.starts_with("//!") {
            complaints.push(complaint(source, 0, "the file does not say what it is about"));
        }
    }
    for source in sources("examples").iter().chain(&sources("tests")) {
        if !source.text.starts_with("//!") {
            complaints.push(complaint(source, 0, "the file does not say what it is about"));
        }
    }
    assert_none(&complaints);
}

/// Words that no file may have, put together so that this file has none.
const NOWHERE: [&str; 8] = [
    concat!("to", "do!"),
    concat!("TO", "DO"),
    concat!("unimple", "mented!"),
    concat!("d", "bg!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("#[ign", "ore"),
    concat!("un", "safe {"),
];

/// Words that only tests may have.
const TESTS_ONLY: [&str; 6] = [
    concat!(".un", "wrap()"),
    concat!("R", "c<"),
    concat!("Ref", "Cell"),
    concat!("print", "ln!"),
    concat!("#[al", "low("),
    concat!("process", "::exit"),
];

#[test]
fn some_words_are_not_used() {
    let mut complaints = Vec::new();
    for source in &all_sources() {
        for (number, line) in source.text.lines().enumerate() {
            for word in NOWHERE.iter().filter(|word| line.contains(**word)) {
                complaints.push(complaint(source, number, &format!("{word} is left here")));
            }
        }
    }
    // Examples show what blocking tools are for; the loop and the tests never wait for luck.
    let sleep = concat!("thread::", "sleep");
    for source in sources("src").iter().chain(&sources("tests")) {
        for (number, _) in source.code().iter().filter(|(_, line)| line.contains(sleep)) {
            complaints.push(complaint(source, *number, "nothing sleeps here"));
        }
    }
    for source in &sources("src") {
        for (number, line) in source.code() {
            // An Arc is no Rc.
            let line = line.replace(concat!("Ar", "c<"), "");
            for word in TESTS_ONLY.iter().filter(|word| line.contains(**word)) {
                complaints.push(complaint(source, number, &format!("{word} is for tests only")));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn panics_are_caught_in_one_place() {
    let word = concat!("catch", "_unwind");
    let sources = sources("src");
    let catching =
        sources.iter().filter(|source| source.code().iter().any(|(_, line)| line.contains(word)));
    let paths: Vec<&str> = catching.map(|source| source.path.as_str()).collect();
    assert_eq!(paths, ["src/guard.rs"]);
}

#[test]
fn the_top_level_holds_what_it_should() {
    let known =
        ["Cargo.toml", "Cargo.lock", "LICENSE", "README.md", "src", "tests", "examples", "benches"];
    let entries = fs::read_dir(root()).expect("the root can be read");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("the root can be read").file_name().to_string_lossy().into())
        .filter(|name: &String| !name.starts_with('.') && name != "target")
        .collect();
    names.sort();
    let strange: Vec<_> = names.iter().filter(|name| !known.contains(&name.as_str())).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// A file as it might stand in the tree.
fn sample(path: &str, text: &str) -> Source {
    Source { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn the_checks_see_what_they_are_for() {
    assert_eq!(may_import("http", "rpc"), Some(false));
    assert_eq!(may_import("engine", "filter"), Some(true));
    assert_eq!(may_import("key", "http"), Some(false));
    assert_eq!(may_import("attic", "key"), None);
    assert_eq!(imports("use crate::mcp::model; let x = crate::rpc::Id;"), ["mcp", "rpc"]);

    assert!(has_word("use mio::Poll;", "mio") && has_word("(mio)", "mio"));
    assert!(!has_word("use mionet::Poll;", "mio") && !has_word("signal_hook_mio", "mio"));

    let text = "code\n// crate::engine\n#[cfg(test)]\nmod tests {\n    crate::engine\n}\n";
    let file = sample("src/http/x.rs", text);
    assert_eq!(file.code(), [(0, "code")]);
    assert_eq!(file.module(), "http");
    assert_eq!(sample("src/key.rs", "").module(), "key");
    let outside = sample("src/http/mod.rs", "a\n#[cfg(test)]\nmod tests;\nb\n");
    assert_eq!(outside.code().len(), 4);

    let long =
        format!("impl A {{\n    pub(crate) fn f() {{\n{}    }}\n}}\n", "        x;\n".repeat(69));
    assert_eq!(functions(&long), [(1, 71)]);
    assert_eq!(functions("fn a() {}\nfn b();\nconst fn c() {\n    1\n}\n"), [(2, 3)]);
}
