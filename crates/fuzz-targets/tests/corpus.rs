//! Runs every target on its corpus, and on mutations of it that are the same each time.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::panic::catch_unwind;
    use std::path::Path;

    /// How many mutations are tried; those of targets that write files cost more.
    const MUTATIONS: usize = 4_000;
    const MUTATIONS_ON_DISK: usize = 600;
    const LONGEST: usize = 8_192;

    /// The parts of almost valid texts.
    const WORDS: [&[u8]; 40] = [
        b"<goto>",
        b"</goto>",
        b"<result>",
        b"</result>",
        b"<fork ",
        b"<print>",
        b"</print>",
        b"<ASK",
        b"=\"",
        b"\"",
        b"'",
        b"&amp;",
        b"<",
        b">",
        b"{{",
        b"}}",
        b"{{a}}",
        b"---\n",
        b"\n",
        b"\n\n",
        b"\r\n",
        b": ",
        b"- ",
        b"  ",
        b"|\n",
        b"&a ",
        b"*a",
        b"{",
        b"}",
        b"[",
        b"\\u0000",
        b"\\ud800",
        b",\"commit\":\"00000000\"}\n",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"-1",
        b"1e999",
        b"18446744073709551615",
        b"# raymond: ",
    ];

    /// A xorshift generator.
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % end.max(1)
        }

        fn range(&mut self, length: usize) -> std::ops::Range<usize> {
            let start = self.below(length + 1);
            let most = [4, 32, length][self.below(3)];
            start..(start + self.below(most + 1)).min(length)
        }

        fn mutate(&mut self, bytes: &mut Vec<u8>, others: &[Vec<u8>]) {
            let range = self.range(bytes.len());
            match self.below(7) {
                0 => drop(bytes.drain(range)),
                1 => {
                    let copied = bytes[range].to_vec();
                    let at = self.below(bytes.len() + 1);
                    bytes.splice(at..at, copied);
                }
                2 if !bytes.is_empty() => {
                    let at = self.below(bytes.len());
                    bytes[at] ^= 1 << self.below(8);
                }
                3 if !bytes.is_empty() => {
                    let at = self.below(bytes.len());
                    bytes[at] = self.below(256) as u8;
                }
                4 => {
                    let other = &others[self.below(others.len())];
                    let taken = other[self.range(other.len())].to_vec();
                    bytes.splice(range, taken);
                }
                5 => bytes.truncate(range.end),
                _ => {
                    let word = WORDS[self.below(WORDS.len())];
                    bytes.splice(range.start..range.start, word.iter().copied());
                }
            }
            bytes.truncate(LONGEST);
        }
    }

    fn corpus(target: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 5, "the corpus {} is too small", folder.display());
        files.iter().map(|file| fs::read(file).unwrap()).collect()
    }

    fn check(target: &str, check: fuzz_targets::Target, bytes: &[u8]) {
        if catch_unwind(|| check(bytes)).is_err() {
            panic!("{target} fails on \"{}\"", bytes.escape_ascii());
        }
    }

    fn run(target: &str, mutations: usize) {
        let (_, function) = fuzz_targets::TARGETS.into_iter().find(|(name, _)| *name == target).unwrap();
        let corpus = corpus(target);
        check(target, function, b"");
        corpus.iter().for_each(|bytes| check(target, function, bytes));
        let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
        for _ in 0..mutations {
            let mut bytes = corpus[chance.below(corpus.len())].clone();
            for _ in 0..=chance.below(6) {
                chance.mutate(&mut bytes, &corpus);
            }
            check(target, function, &bytes);
        }
    }

    #[test]
    fn agent_stream() {
        run("agent_stream", MUTATIONS);
    }

    #[test]
    fn archive() {
        run("archive", MUTATIONS);
    }

    #[test]
    fn frontmatter() {
        run("frontmatter", MUTATIONS);
    }

    #[test]
    fn header() {
        run("header", MUTATIONS);
    }

    #[test]
    fn inbox() {
        run("inbox", MUTATIONS_ON_DISK);
    }

    #[test]
    fn journal() {
        run("journal", MUTATIONS_ON_DISK);
    }

    #[test]
    fn manifest() {
        run("manifest", MUTATIONS);
    }

    #[test]
    fn one_file() {
        run("one_file", MUTATIONS);
    }

    #[test]
    fn recording() {
        run("recording", MUTATIONS);
    }

    #[test]
    fn replies() {
        run("replies", MUTATIONS);
    }

    #[test]
    fn tags() {
        run("tags", MUTATIONS);
    }

    #[test]
    fn template() {
        run("template", MUTATIONS);
    }

    #[test]
    fn test_file() {
        run("test_file", MUTATIONS);
    }

    /// Without a fuzzer in `fuzz/`, a target would never be fuzzed.
    #[test]
    fn every_target_has_a_fuzzer() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        for (name, _) in fuzz_targets::TARGETS {
            let text = fs::read_to_string(folder.join(format!("fuzz_targets/{name}.rs"))).unwrap();
            assert!(text.contains(&format!("fuzz_targets::{name}(data)")), "{text}");
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
        }
    }
}
