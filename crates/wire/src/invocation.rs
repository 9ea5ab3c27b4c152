//! Requests (wire-protocol section 3): parsed by the server without allocation, written by clients.

use crate::writer::Put;
use crate::{DecodeError, EncodeError, Parameter, ParameterSet, Parameters, Reader};
use ferrite_base::limits::{EXTENSIONS_MAX, FRAME_BYTES_MAX};

const PLAIN: i8 = 0;
const WITH_TIMEOUT: i8 = 1;
const WITH_EXTENSIONS: i8 = 2;

const TIMEOUT_NONE: i8 = -1;
const TIMEOUT_GIVEN: i8 = 1;

const BATCH_TIMEOUT: i8 = 1;
const ALL_PARTITION: i8 = 2;
const DESTINATION: i8 = 3;
const BATCH_CALL: i8 = 4;
const PRIORITY: i8 = 5;
const REQUEST_TIMEOUT: i8 = 6;

/// Size codes of extension payloads: 0 is none, else 2^(code - 1) bytes.
const SIZE_0: i8 = 0;
const SIZE_1: i8 = 1;
const SIZE_4: i8 = 3;

/// What a call says beyond procedure and parameters (wire-protocol 3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// Upper limit in milliseconds for the SQL of this call.
    pub batch_timeout_ms: Option<i32>,
    /// One leg of a call to every partition.
    pub all_partition: bool,
    /// Run on this partition. Any number a client cares to send: the node checks it.
    pub destination: Option<i32>,
    /// Bulk-load call: the destination replaces routing by parameter.
    pub batch_call: bool,
    /// 1 (most urgent) to 8; without it 4.
    pub priority: Option<u8>,
    /// Microseconds from the send that the client is willing to wait.
    pub request_timeout_us: Option<i32>,
}

/// One call, borrowed from its frame.
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// Never empty.
    pub procedure: &'a str,
    /// The caller's own number for the call; goes back unchanged.
    pub handle: i64,
    pub extensions: Extensions,
    pub parameters: Parameters<'a>,
}

/// A request that cannot be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InvocationError {
    /// Present when the frame was good up to there: the call can be answered. Without it the
    /// connection is closed.
    pub handle: Option<i64>,
    pub reason: DecodeError,
}

impl From<DecodeError> for InvocationError {
    fn from(reason: DecodeError) -> Self {
        InvocationError { handle: None, reason }
    }
}

impl<'a> Invocation<'a> {
    /// Parses a frame's body. The parameters' values are not looked at yet.
    #[inline]
    pub fn parse(body: &'a [u8]) -> Result<Invocation<'a>, InvocationError> {
        let mut reader = Reader::new(body);
        let layout = reader.i8()?;
        let mut extensions = Extensions::default();
        match layout {
            PLAIN | WITH_EXTENSIONS => {}
            WITH_TIMEOUT => extensions.batch_timeout_ms = read_timeout(&mut reader)?,
            _ => return Err(DecodeError::UnknownLayout(layout).into()),
        }
        let name = reader.bytes()?;
        let handle = reader.i64()?;
        let with_handle = |reason| InvocationError { handle: Some(handle), reason };
        if name.is_empty() {
            return Err(with_handle(DecodeError::EmptyProcedureName));
        }
        let procedure = crate::reader::utf8(name).map_err(with_handle)?;
        if layout == WITH_EXTENSIONS {
            let count = reader.i8().map_err(with_handle)?;
            if count != 0 {
                extensions = read_extensions(&mut reader, count).map_err(with_handle)?;
            }
        }
        let parameters = Parameters::parse(reader.rest()).map_err(with_handle)?;
        Ok(Invocation { procedure, handle, extensions, parameters })
    }
}

fn read_timeout(reader: &mut Reader<'_>) -> Result<Option<i32>, DecodeError> {
    match reader.i8()? {
        TIMEOUT_NONE => Ok(None),
        TIMEOUT_GIVEN => reader.i32().map(Some),
        kind => Err(DecodeError::UnknownTimeoutKind(kind)),
    }
}

fn read_extensions(reader: &mut Reader<'_>, count: i8) -> Result<Extensions, DecodeError> {
    if usize::try_from(count).is_ok_and(|count| count <= EXTENSIONS_MAX) {
        let mut extensions = Extensions::default();
        for _ in 0..count {
            read_extension(reader, &mut extensions)?;
        }
        Ok(extensions)
    } else {
        Err(DecodeError::ExtensionCount(count))
    }
}

#[inline]
fn read_extension(reader: &mut Reader<'_>, extensions: &mut Extensions) -> Result<(), DecodeError> {
    let id = reader.i8()?;
    let size_code = reader.i8()?;
    match (id, size_code) {
        (BATCH_TIMEOUT, SIZE_4) => extensions.batch_timeout_ms = Some(reader.i32()?),
        (ALL_PARTITION, SIZE_0) => extensions.all_partition = true,
        (DESTINATION, SIZE_4) => extensions.destination = Some(reader.i32()?),
        (BATCH_CALL, SIZE_0) => extensions.batch_call = true,
        (PRIORITY, SIZE_1) => match reader.i8()? {
            priority @ 1..=8 => extensions.priority = Some(priority as u8),
            _ => return Err(DecodeError::BadExtension(id)),
        },
        (REQUEST_TIMEOUT, SIZE_4) => extensions.request_timeout_us = Some(reader.i32()?),
        (BATCH_TIMEOUT..=REQUEST_TIMEOUT, _) => return Err(DecodeError::BadExtension(id)),
        (_, SIZE_0) => {}
        // A frame has less than 2^26 bytes, so a larger size cannot be there.
        (_, 1..=27) => {
            reader.raw_bytes(1 << (size_code - 1))?;
        }
        _ => return Err(DecodeError::Truncated),
    }
    Ok(())
}

impl Extensions {
    /// In the order in which the existing clients write them.
    fn write(&self, out: &mut Vec<u8>) {
        let count_at = out.len();
        out.put_i8(0);
        let mut count = 0;
        let mut begin = |out: &mut Vec<u8>, id: i8, size_code: i8| {
            count += 1;
            out.put_i8(id);
            out.put_i8(size_code);
        };
        if let Some(timeout) = self.batch_timeout_ms {
            begin(out, BATCH_TIMEOUT, SIZE_4);
            out.put_i32(timeout);
        }
        if self.all_partition {
            begin(out, ALL_PARTITION, SIZE_0);
        }
        if let Some(destination) = self.destination {
            begin(out, DESTINATION, SIZE_4);
            out.put_i32(destination);
        }
        if self.batch_call {
            begin(out, BATCH_CALL, SIZE_0);
        }
        if let Some(priority) = self.priority {
            begin(out, PRIORITY, SIZE_1);
            out.put_i8(priority as i8);
        }
        if let Some(timeout) = self.request_timeout_us {
            begin(out, REQUEST_TIMEOUT, SIZE_4);
            out.put_i32(timeout);
        }
        out[count_at] = count;
    }
}

/// Appends a whole plain (type 0) request. On an error `out` is as before.
#[inline]
pub fn write_call(
    out: &mut Vec<u8>,
    procedure: &str,
    handle: i64,
    parameters: &(impl ParameterSet + ?Sized),
) -> Result<(), EncodeError> {
    let start = out.len();
    write_plain_prefix(out, procedure, handle);
    finish_request(out, start, |out| parameters.write_set(out))
}

/// Appends a whole request with extensions (type 2). On an error `out` is as before.
pub fn write_call_with(
    out: &mut Vec<u8>,
    procedure: &str,
    handle: i64,
    extensions: &Extensions,
    parameters: &(impl ParameterSet + ?Sized),
) -> Result<(), EncodeError> {
    let start = out.len();
    write_extended_prefix(out, procedure, handle, extensions);
    finish_request(out, start, |out| parameters.write_set(out))
}

#[inline]
fn write_plain_prefix(out: &mut Vec<u8>, procedure: &str, handle: i64) {
    out.reserve(32 + procedure.len());
    out.put_i32(0);
    out.put_i8(PLAIN);
    out.put_string(procedure);
    out.put_i64(handle);
}

fn write_extended_prefix(out: &mut Vec<u8>, procedure: &str, handle: i64, extensions: &Extensions) {
    out.put_i32(0);
    out.put_i8(WITH_EXTENSIONS);
    out.put_string(procedure);
    out.put_i64(handle);
    extensions.write(out);
}

#[inline]
fn finish_request(
    out: &mut Vec<u8>,
    start: usize,
    write_rest: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let result = write_rest(out)
        .and_then(|()| if out.len() - start - 4 > FRAME_BYTES_MAX { Err(EncodeError::FrameTooLarge) } else { Ok(()) });
    match result {
        Ok(()) => out.patch_length(start),
        Err(_) => out.truncate(start),
    }
    result
}

/// A request whose parameters are appended one by one. Dropped without [`RequestWriter::finish`] it
/// leaves nothing.
#[must_use = "a request is sent only when finished"]
pub struct RequestWriter<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count_at: usize,
    count: usize,
    error: Option<EncodeError>,
    finished: bool,
}

impl<'o> RequestWriter<'o> {
    /// A plain (type 0) request.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, procedure: &str, handle: i64) -> RequestWriter<'o> {
        let start = out.len();
        write_plain_prefix(out, procedure, handle);
        Self::after_prefix(out, start)
    }

    /// A request with extensions (type 2).
    pub fn begin_with(
        out: &'o mut Vec<u8>,
        procedure: &str,
        handle: i64,
        extensions: &Extensions,
    ) -> RequestWriter<'o> {
        let start = out.len();
        write_extended_prefix(out, procedure, handle, extensions);
        Self::after_prefix(out, start)
    }

    #[inline]
    fn after_prefix(out: &'o mut Vec<u8>, start: usize) -> RequestWriter<'o> {
        let count_at = out.len();
        out.put_i16(0);
        RequestWriter { out, start, count_at, count: 0, error: None, finished: false }
    }

    /// Appends a parameter. An error is kept for [`RequestWriter::finish`].
    #[inline]
    pub fn parameter(&mut self, parameter: &(impl Parameter + ?Sized)) -> &mut Self {
        self.count += 1;
        if let Err(error) = parameter.write(self.out) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Completes the frame.
    #[inline]
    pub fn finish(mut self) -> Result<(), EncodeError> {
        let count = i16::try_from(self.count).map_err(|_| EncodeError::TooMany);
        let result = match (self.error, count) {
            (Some(error), _) | (None, Err(error)) => Err(error),
            (None, Ok(count)) => {
                self.out.patch_i16(self.count_at, count);
                Ok(())
            }
        };
        self.finished = true;
        finish_request(self.out, self.start, |_| result)
    }
}

impl Drop for RequestWriter<'_> {
    fn drop(&mut self) {
        if !self.finished {
            self.out.truncate(self.start);
        }
    }
}
