//! Bytes as text (RFC 4648, with padding): how a jar stands in a schema statement.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};

/// Bits behind the last byte do not matter: earlier releases took, and logged, such texts.
const ENGINE: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub fn encode(bytes: &[u8]) -> String {
    ENGINE.encode(bytes)
}

/// None: not such a text.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    ENGINE.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        let cases =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy"), ("fooba", "Zm9vYmE=")];
        for (bytes, text) in cases {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for bad in ["Zg=", "Zg", "Z===", "====", "Zm9v Zm9", "Zm=v"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        assert_eq!(decode("Zh==").as_deref(), Some(&b"f"[..]), "bits behind the last byte");
    }
}
