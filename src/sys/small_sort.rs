//! Sorting of lists with few elements.

#![forbid(unsafe_code)]

/// Sorts stably; `before` says whether its first argument belongs before its second. For lists that are short or
/// printed once: time grows with the square of the length. Each use of a sort of the standard library adds 4 to 8 KB of
/// code for long lists to the library, each use of this 200 bytes.
pub fn sort<T>(list: &mut [T], before: impl Fn(&T, &T) -> bool) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && before(&list[at], &list[at - 1]) {
            list.swap(at, at - 1);
            at -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn equal_elements_keep_their_order() {
        let mut list: Vec<(u32, usize)> = (0..60).map(|i| (i as u32 * 7 % 11, i)).collect();
        let mut want = list.clone();
        want.sort_by_key(|x| x.0);
        super::sort(&mut list, |a, b| a.0 < b.0);
        assert_eq!(list, want);
        super::sort(&mut [(); 0], |_, _| true);
    }
}
