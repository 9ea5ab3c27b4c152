//! Which of the known names was probably meant: the nearest, if it is only a slip of the pen away.

/// Longest name for which a likeness is looked for, in characters.
const NAME_CHARACTERS_MAX: usize = 64;

/// The candidate that is a slip of the pen away from `name`; the first of several.
pub(crate) fn nearest<'c>(name: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    let length = name.chars().count();
    if length > NAME_CHARACTERS_MAX {
        return None;
    }
    // A third of the letters may be wrong, and one of two or three.
    let tolerance = (length / 3).max(1);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = distance(name, candidate);
        let short = length <= 1 && distance > 0;
        if distance <= tolerance && !short && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Letters put in, left out, replaced or swapped with their neighbour, whatever their case.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_uppercase().chars().collect();
    let right: Vec<char> = right.to_uppercase().chars().collect();
    if right.len() > NAME_CHARACTERS_MAX {
        return usize::MAX;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row];
        for column in 1..=right.len() {
            let replaced = last[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let mut least = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            if swapped {
                least = least.min(before_last[column - 2] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, nearest};

    #[test]
    fn slips_of_the_pen_are_near() {
        assert_eq!(distance("NAME", "NAME"), 0);
        assert_eq!(distance("NAEM", "NAME"), 1);
        assert_eq!(distance("CONTESTNT", "CONTESTANT"), 1);
        assert_eq!(distance("", "ABC"), 3);
        assert_eq!(nearest("CUSTOMRE", ["ORDERS", "CUSTOMER"].into_iter()), Some("CUSTOMER"));
        assert_eq!(nearest("PRICE", ["ID", "NAME"].into_iter()), None);
        assert_eq!(nearest("X", ["Y"].into_iter()), None);
    }
}
