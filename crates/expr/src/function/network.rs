//! Internet addresses as numbers, bytes and text.

use super::Function;
use crate::checks::mismatch;
use bumpalo::Bump;
use ferrite_base::{UserError, UserResult};
use ferrite_value::Value;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn call<'a>(function: Function, arguments: &[Value<'a>], arena: &'a Bump) -> UserResult<Value<'a>> {
    match (function, arguments) {
        (Function::InetAton, [Value::Text(text)]) => {
            let address: Ipv4Addr = text.parse().map_err(|_| not_an_address(text, 4))?;
            Ok(Value::Integer(u32::from(address) as i64))
        }
        (Function::InetNtoa, [Value::Integer(number)]) => {
            let number = u32::try_from(*number).map_err(|_| not_an_address(&number.to_string(), 4))?;
            Ok(Value::Text(bumpalo::format!(in arena, "{}", Ipv4Addr::from(number)).into_bump_str()))
        }
        (Function::Inet6Aton, [Value::Text(text)]) => {
            let address: Ipv6Addr = text.parse().map_err(|_| not_an_address(text, 6))?;
            Ok(Value::Bytes(arena.alloc_slice_copy(&address.octets())))
        }
        (Function::Inet6Ntoa, [Value::Bytes(bytes)]) => {
            let octets: [u8; 16] = (*bytes)
                .try_into()
                .map_err(|_| UserError::data("22018", format!("an IPv6 address has 16 bytes, not {}", bytes.len())))?;
            Ok(Value::Text(bumpalo::format!(in arena, "{}", Ipv6Addr::from(octets)).into_bump_str()))
        }
        (function, arguments) => Err(mismatch(&format!("{function:?}"), arguments)),
    }
}

#[cold]
fn not_an_address(text: &str, version: u8) -> UserError {
    UserError::data("22018", format!("'{text}' is not an IPv{version} address"))
}
