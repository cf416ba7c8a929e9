//! Writes small PE files: libraries that pass functions on to another one.
#![forbid(unsafe_code)]

/// Address of the only section, and what addresses of sections are multiples of.
const START: u32 = 0x1000;
/// What the parts of the file are multiples of. The headers take one.
const PART: usize = 0x200;
/// Bytes of the headers before the list of directories, and the directories of exports and imports.
const DIRECTORIES: usize = 64 + 24 + 112;
const EXPORTS: usize = 0;
#[cfg(test)]
const IMPORTS: usize = 1;

/// What a library does for a name that it has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Export {
    /// Passes it on, such as to "ggml-base.ggml_init".
    To(String),
    /// Has code for it, at this address.
    #[cfg(test)]
    At(u32),
}

/// A PE file for x86-64.
#[derive(Default)]
pub struct Image {
    data: Vec<u8>,
    /// Name of the section; empty: ".rdata".
    section: &'static str,
    /// Address and size of each directory.
    directories: [(u32, u32); 16],
}

impl Image {
    /// The address of what is added next.
    fn next(&self) -> u32 {
        START + self.data.len() as u32
    }

    fn align(&mut self, to: usize) {
        self.data.resize(self.data.len().next_multiple_of(to), 0);
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.data.extend(word.to_le_bytes()));
    }

    /// The names that it has as the library `own_name`.
    pub fn exports(&mut self, own_name: &str, mut names: Vec<(&str, Export)>) {
        // The system searches by halves.
        names.sort();
        self.align(4);
        let (start, n) = (self.next(), names.len() as u32);
        let tables = start + 40;
        let mut texts = Vec::new();
        let mut place = |text: &str| {
            let at = tables + 10 * n + texts.len() as u32;
            texts.extend(text.bytes().chain([0]));
            at
        };
        let own = place(own_name);
        let (mut addresses, mut pointers) = (Vec::new(), Vec::new());
        for (name, export) in &names {
            pointers.push(place(name));
            addresses.push(match export {
                // An address in this directory is that of a text.
                Export::To(other) => place(other),
                #[cfg(test)]
                Export::At(address) => *address,
            });
        }
        self.words(&[0, 0, 0, own, 1, n, n, tables, tables + 4 * n, tables + 8 * n]);
        self.words(&addresses);
        self.words(&pointers);
        (0..n).for_each(|i| self.data.extend((i as u16).to_le_bytes()));
        self.data.extend(texts);
        self.directories[EXPORTS] = (start, self.next() - start);
    }

    /// The file: a library, or a program.
    pub fn finish(mut self, is_library: bool) -> Vec<u8> {
        let size = self.data.len() as u32;
        self.data.resize(self.data.len().next_multiple_of(PART), 0);
        let mut out = b"MZ".to_vec();
        out.resize(60, 0);
        let put = |out: &mut Vec<u8>, words: &[u32]| words.iter().for_each(|w| out.extend(w.to_le_bytes()));
        let both = |low: u32, high: u32| low | high << 16;
        put(&mut out, &[64]);
        out.extend(b"PE\0\0");
        // x86-64, one section; 240 bytes follow: it can run, with addresses beyond 2 GiB.
        put(&mut out, &[both(0x8664, 1), 0, 0, 0, both(240, if is_library { 0x2022 } else { 0x22 })]);
        // PE32+, without an entry. Places, multiples and versions.
        put(&mut out, &[0x20b, 0, self.data.len() as u32, 0, 0, START, 0x8000_0000, 1, START, PART as u32]);
        put(&mut out, &[both(6, 0), 0, both(6, 0), 0]);
        put(&mut out, &[(START + size).next_multiple_of(START), PART as u32, 0]);
        // A program with a console; at any address, without code in data. Stack and heap.
        put(&mut out, &[both(3, 0x160), 1 << 20, 0, START, 0, 1 << 20, 0, START, 0, 0, 16]);
        debug_assert_eq!(out.len(), DIRECTORIES);
        self.directories.iter().for_each(|(at, size)| put(&mut out, &[*at, *size]));
        let name = if self.section.is_empty() { ".rdata" } else { self.section };
        out.extend(name.bytes().chain([0; 8]).take(8));
        // Data that is read; a test's has code, too.
        put(&mut out, &[size, START, self.data.len() as u32, PART as u32, 0, 0, 0, 0x4000_0040]);
        out.resize(PART, 0);
        out.extend(self.data);
        out
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A name that is passed on.
    pub fn to(name: &str) -> Export {
        Export::To(name.to_owned())
    }

    impl Image {
        /// Adds bytes, and returns their address.
        pub fn add(&mut self, bytes: &[u8]) -> u32 {
            let at = self.next();
            self.data.extend(bytes);
            at
        }

        fn text(&mut self, text: &str) -> u32 {
            self.add(&[text.as_bytes(), &[0]].concat())
        }

        /// Names that it needs from each library.
        pub fn imports(&mut self, all: &[(&str, &[&str])]) {
            let mut rows = Vec::new();
            for (library, names) in all {
                let library = self.text(library);
                let mut hints: Vec<u32> = Vec::new();
                for name in *names {
                    self.align(2);
                    hints.push(self.add(&[0, 0]));
                    self.text(name);
                }
                self.align(8);
                let list = self.next();
                hints.iter().chain(&[0]).for_each(|hint| self.words(&[*hint, 0]));
                rows.push([list, 0, 0, library, list]);
            }
            self.align(4);
            let start = self.next();
            rows.iter().chain(&[[0; 5]]).for_each(|row| self.words(row));
            self.directories[IMPORTS] = (start, self.next() - start);
        }
    }

    /// A ggml-base.dll of libggml-rs with these functions.
    pub fn our_base(names: &[&str]) -> Image {
        let mut image = Image { section: ".ggmlnt", ..Image::default() };
        image.words(&[8, 28, 1]);
        image.add(b"ggml-rs\0");
        image.words(&[1, 2, 64]);
        image.add(b"0.28.0\0\0\0\0\0\0\0\0\0\0");
        let code = image.add(&[0xc3]);
        image.exports("ggml-base.dll", names.iter().map(|name| (*name, Export::At(code))).collect());
        image
    }

    /// A ggml-base.dll of this version and size of tensors, which also has these functions.
    pub fn base(version: &str, overhead: u32, more: &[&str]) -> Image {
        let mut image = Image::default();
        image.text(version);
        // lea rax, [rip + distance to the version]; ret. mov eax, overhead; ret.
        let distance = START.wrapping_sub(image.next() + 7);
        let of_version = image.add(&[&[0x48, 0x8d, 0x05], &distance.to_le_bytes()[..], &[0xc3]].concat());
        let of_overhead = image.add(&[&[0xb8], &overhead.to_le_bytes()[..], &[0xc3]].concat());
        let mut names =
            vec![("ggml_version", Export::At(of_version)), ("ggml_tensor_overhead", Export::At(of_overhead))];
        names.extend(more.iter().map(|name| (*name, Export::At(of_overhead))));
        image.exports("ggml-base.dll", names);
        image
    }
}
