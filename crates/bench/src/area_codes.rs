//! The area codes of Voter, read from the example's own schema file so that they stand in one
//! place.

/// The example's schema, which `bench voter` and `demo` run.
pub const VOTER_DDL: &str = include_str!("../../../examples/voter/ddl.sql");

/// The first digits of phone numbers, and the state they belong to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AreaCode {
    pub code: u16,
    pub state: [u8; 2],
}

impl AreaCode {
    pub fn state_name(&self) -> &str {
        std::str::from_utf8(&self.state).expect("states are read from text")
    }
}

/// All area codes that the schema's `Initialize` inserts, in its order.
pub fn area_codes() -> Vec<AreaCode> {
    VOTER_DDL
        .split('(')
        .filter_map(|item| {
            // 205, 'AL')...
            let (code, rest) = item.split_once(", '")?;
            let (state, _) = rest.split_once("')")?;
            Some(AreaCode { code: code.parse().ok()?, state: state.as_bytes().try_into().ok()? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The counts of the original application (wire-protocol, appendix C.1).
    const COUNTS: &str = "AK 1, AL 4, AR 3, AZ 5, CA 36, CO 4, CT 4, DC 1, DE 1, FL 19, GA 9, HI 1, IA 5, ID 1, IL 14, IN 6, \
        KS 4, KY 4, LA 5, MA 9, MD 4, ME 1, MI 14, MN 7, MO 8, MS 4, MT 1, NC 8, ND 1, NE 2, NH 1, NJ 9, NM 3, NV 2, NY 14, \
        OH 12, OK 3, OR 3, PA 11, RI 1, SC 3, SD 1, TN 6, TX 25, UT 3, VA 8, VT 1, WA 6, WI 5, WV 1, WY 1";

    #[test]
    fn as_many_as_the_original_has() {
        let codes = area_codes();
        assert_eq!(codes.len(), 305);
        let mut counts = BTreeMap::new();
        for code in &codes {
            *counts.entry(code.state_name()).or_insert(0) += 1;
        }
        let counts: Vec<String> = counts.iter().map(|(state, count)| format!("{state} {count}")).collect();
        assert_eq!(counts.join(", "), COUNTS);
        let mut numbers: Vec<u16> = codes.iter().map(|code| code.code).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), numbers[0], numbers[304]), (305, 201, 989));
    }
}
