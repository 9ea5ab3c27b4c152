//! "Did you mean": the known word nearest to one that is not known.

/// The candidate that fewest keystrokes turn `word` into, if it is near enough to be meant. The
/// case does not count.
pub fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let word: Vec<char> = word.to_uppercase().chars().collect();
    // A third of the letters may be wrong, and of short words one.
    let most = (word.len() / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let letters: Vec<char> = candidate.to_uppercase().chars().collect();
        if letters.len().abs_diff(word.len()) > most || letters.len() < 2 {
            continue;
        }
        let distance = distance(&word, &letters);
        if distance <= most && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.filter(|_| word.len() > 1).map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements, and neighbours exchanged.
fn distance(left: &[char], right: &[char]) -> usize {
    let width = right.len() + 1;
    let mut rows: Vec<usize> = vec![0; (left.len() + 1) * width];
    for (column, cell) in rows[..width].iter_mut().enumerate() {
        *cell = column;
    }
    for i in 1..=left.len() {
        rows[i * width] = i;
        for j in 1..=right.len() {
            let at = i * width + j;
            let replace = rows[at - width - 1] + usize::from(left[i - 1] != right[j - 1]);
            let mut least = replace.min(rows[at - width] + 1).min(rows[at - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                least = least.min(rows[at - 2 * width - 2] + 1);
            }
            rows[at] = least;
        }
    }
    rows[rows.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["VOTES", "CONTESTANTS", "AREA_CODE_STATE", "T1"];
        for (word, expected) in [
            ("votez", Some("VOTES")),
            ("vtoes", Some("VOTES")),
            ("contestant", Some("CONTESTANTS")),
            ("people", None),
            ("t2", Some("T1")),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), expected, "{word}");
        }
    }
}
