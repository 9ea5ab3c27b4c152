// Requests as bytes: login, invocation, parameters. Writes into one growing buffer so that many
// calls leave in one system call. Does not know sockets.

import { createHash } from 'node:crypto'
import { ValueError } from './errors.js'
import { parseDecimal, Timestamp, Type, Typed, typeName, type Parameter, type Point, type Polygon } from './types.js'

const NULL_BIGINT = -(2n ** 63n)
const NULL_DOUBLE = Buffer.from('ffee42d130773b76', 'hex')
const ARRAY_MAX = 32767
const MESSAGE_MAX = 52428800

/**
 * A growing buffer of frames. `take` hands over what has gathered and goes on with fresh memory.
 */
export class Writer {
  private buffer: Buffer
  length = 0

  constructor(private readonly block = 65536) {
    this.buffer = Buffer.allocUnsafeSlow(block)
  }

  /** Everything written since the last time. The bytes belong to the caller. */
  take(): Buffer {
    const taken = this.buffer.subarray(0, this.length)
    // What is left of a block serves the next batch; a socket may still be reading the part before
    // it.
    const rest = this.buffer.subarray(this.length)
    this.buffer = rest.length >= 4096 ? rest : Buffer.allocUnsafeSlow(this.block)
    this.length = 0
    return taken
  }

  /** Makes room and returns the place to write to. */
  private reserve(bytes: number): number {
    const at = this.length
    const end = at + bytes
    if (end > this.buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(this.block, end * 2))
      this.buffer.copy(larger, 0, 0, at)
      this.buffer = larger
    }
    this.length = end
    return at
  }

  i8(value: number): void {
    const at = this.reserve(1)
    this.buffer[at] = value & 0xff
  }
  i16(value: number): void {
    const at = this.reserve(2)
    this.buffer.writeInt16BE(value, at)
  }
  i32(value: number): void {
    const at = this.reserve(4)
    this.buffer.writeInt32BE(value, at)
  }
  i64(value: bigint): void {
    const at = this.reserve(8)
    this.buffer.writeBigInt64BE(value, at)
  }
  /** An integer that a number holds exactly, as 64 bits; without going through bigint. */
  i64OfNumber(value: number): void {
    const at = this.reserve(8)
    this.buffer.writeInt32BE(Math.floor(value / 4294967296), at)
    this.buffer.writeUInt32BE(value >>> 0, at + 4)
  }
  f64(value: number): void {
    const at = this.reserve(8)
    this.buffer.writeDoubleBE(value, at)
  }
  raw(bytes: Uint8Array): void {
    const at = this.reserve(bytes.length)
    this.buffer.set(bytes, at)
  }
  bytes(bytes: Uint8Array): void {
    this.i32(bytes.length)
    this.raw(bytes)
  }
  string(text: string): void {
    if (text.length < 24) {
      // Short ASCII, the usual case, faster than a call into the encoder.
      const at = this.reserve(4 + text.length)
      let index = 0
      for (; index < text.length; index++) {
        const code = text.charCodeAt(index)
        if (code > 127) break
        this.buffer[at + 4 + index] = code
      }
      if (index === text.length) {
        this.buffer.writeInt32BE(index, at)
        return
      }
      this.length = at
    }
    const size = Buffer.byteLength(text)
    const at = this.reserve(4 + size)
    this.buffer.writeInt32BE(size, at)
    this.buffer.write(text, at + 4)
  }

  /** Begins a frame; `endFrame` fills its length in. */
  beginFrame(): number {
    return this.reserve(4)
  }
  endFrame(start: number): void {
    const size = this.length - start - 4
    if (size > MESSAGE_MAX) {
      this.length = start
      throw new ValueError(`the call has ${size} bytes, more than a message may have (${MESSAGE_MAX})`)
    }
    this.buffer.writeInt32BE(size, start)
  }
  /** Forgets a frame that could not be finished. */
  abandon(start: number): void {
    this.length = start
  }
}

/** The login frame, version 1 with SHA-256. */
export function loginFrame(user: string, password: string): Buffer {
  const writer = new Writer(512)
  const start = writer.beginFrame()
  writer.i8(1)
  writer.i8(1)
  writer.string('database')
  writer.string(user)
  writer.raw(createHash('sha256').update(password, 'utf8').digest())
  writer.endFrame(start)
  return writer.take()
}

/** Where one leg of a call to every partition goes. */
export interface Destination {
  partition: number
}

/**
 * Writes one call. `name` is the procedure's name with its length, encoded once. Leaves no trace if
 * a parameter cannot be sent.
 */
export function writeCall(
  writer: Writer,
  name: Buffer,
  handle: number,
  parameters: readonly Parameter[],
  timeoutMs = 0,
  destination?: Destination,
): void {
  const start = writer.beginFrame()
  try {
    if (timeoutMs === 0 && destination === undefined) {
      writer.i8(0)
      writer.raw(name)
      writer.i64OfNumber(handle)
    } else {
      writer.i8(2)
      writer.raw(name)
      writer.i64OfNumber(handle)
      writer.i8((timeoutMs > 0 ? 1 : 0) + (destination ? 2 : 0))
      if (timeoutMs > 0) {
        writer.i8(1)
        writer.i8(3)
        writer.i32(timeoutMs)
      }
      if (destination) {
        writer.i8(2)
        writer.i8(0)
        writer.i8(3)
        writer.i8(3)
        writer.i32(destination.partition)
      }
    }
    const count = parameters.length
    if (count > ARRAY_MAX) throw new ValueError(`${count} parameters; a call can have ${ARRAY_MAX}`)
    writer.i16(count)
    for (let index = 0; index < count; index++) writeParameter(writer, parameters[index], index)
    writer.endFrame(start)
  } catch (error) {
    writer.abandon(start)
    throw error
  }
}

/** A procedure's name as it stands in a call. */
export function encodeName(name: string): Buffer {
  const text = Buffer.from(name, 'utf8')
  if (text.length === 0) throw new ValueError('the name of the procedure is empty')
  const encoded = Buffer.alloc(4 + text.length)
  encoded.writeInt32BE(text.length, 0)
  text.copy(encoded, 4)
  return encoded
}

function writeParameter(writer: Writer, value: Parameter, index: number): void {
  switch (typeof value) {
    case 'number':
      if (Number.isInteger(value) && !Object.is(value, -0)) {
        if (value > -2147483648 && value <= 2147483647) {
          writer.i8(Type.INTEGER)
          writer.i32(value)
          return
        }
        if (Number.isSafeInteger(value)) {
          writer.i8(Type.BIGINT)
          writer.i64OfNumber(value)
          return
        }
      }
      writer.i8(Type.FLOAT)
      writeDouble(writer, value, index)
      return
    case 'bigint':
      writer.i8(Type.BIGINT)
      writeBigint(writer, value, index)
      return
    case 'string':
      writer.i8(Type.STRING)
      writer.string(value)
      return
    case 'boolean':
      writer.i8(Type.TINYINT)
      writer.i8(value ? 1 : 0)
      return
    case 'undefined':
      writer.i8(Type.NULL)
      return
    case 'object':
      if (value === null) {
        writer.i8(Type.NULL)
      } else if (value instanceof Typed) {
        writeTyped(writer, value, index)
      } else if (Array.isArray(value)) {
        writeArray(writer, guessElementType(value, index), value, index)
      } else {
        const type = typeOfObject(value as object, index)
        writer.i8(type)
        writeAs(writer, type, value, index)
      }
      return
    default:
      throw new ValueError(`parameter ${index}: a ${typeof value} cannot be sent`)
  }
}

function typeOfObject(value: object, index: number): number {
  if (value instanceof Uint8Array) return Type.VARBINARY
  if (value instanceof Date) return Type.TIMESTAMP
  if ('longitude' in value && 'latitude' in value) return Type.GEOGRAPHY_POINT
  if ('rings' in value) return Type.GEOGRAPHY
  throw new ValueError(`parameter ${index}: this object cannot be sent; give text, a Buffer, a Date, a point, a polygon or typed(...)`)
}

function writeTyped(writer: Writer, parameter: Typed, index: number): void {
  if (Array.isArray(parameter.value)) {
    writeArray(writer, parameter.type, parameter.value, index)
  } else {
    writer.i8(parameter.type)
    writeAs(writer, parameter.type, parameter.value, index)
  }
}

function guessElementType(values: readonly Parameter[], index: number): number {
  let type: number | null = null
  for (const value of values) {
    if (value === null || value === undefined) continue
    let found: number
    if (typeof value === 'number') found = Number.isSafeInteger(value) ? Type.BIGINT : Type.FLOAT
    else if (typeof value === 'bigint') found = Type.BIGINT
    else if (typeof value === 'string') found = Type.STRING
    else if (typeof value === 'boolean') found = Type.TINYINT
    else if (value instanceof Typed) found = value.type
    else if (Array.isArray(value)) throw new ValueError(`parameter ${index}: arrays of arrays cannot be sent`)
    else found = typeOfObject(value as object, index)
    if (type === Type.BIGINT && found === Type.FLOAT) type = found
    else if (type === Type.FLOAT && found === Type.BIGINT) continue
    else if (type !== null && type !== found) {
      throw new ValueError(`parameter ${index}: the elements are of the types ${typeName(type)} and ${typeName(found)}; use typed(...)`)
    } else type = found
  }
  return type ?? Type.INTEGER
}

function writeArray(writer: Writer, type: number, values: readonly Parameter[], index: number): void {
  writer.i8(Type.ARRAY)
  writer.i8(type)
  if (type === Type.TINYINT) writer.i32(values.length)
  else if (values.length > ARRAY_MAX) throw new ValueError(`parameter ${index}: an array can have ${ARRAY_MAX} elements, this one has ${values.length}`)
  else writer.i16(values.length)
  for (const value of values) writeAs(writer, type, value instanceof Typed ? value.value : value, index)
}

/** One value in the layout of its type, without the type code. */
function writeAs(writer: Writer, type: number, value: Parameter, index: number): void {
  const missing = value === null || value === undefined
  switch (type) {
    case Type.NULL:
      return
    case Type.TINYINT:
      return writer.i8(missing ? -128 : integerWithin(value, 7, type, index))
    case Type.SMALLINT:
      return writer.i16(missing ? -32768 : integerWithin(value, 15, type, index))
    case Type.INTEGER:
      return writer.i32(missing ? -2147483648 : integerWithin(value, 31, type, index))
    case Type.BIGINT:
      if (missing) return writer.i64(NULL_BIGINT)
      if (typeof value === 'bigint') return writeBigint(writer, value, index)
      if (typeof value === 'number' && Number.isSafeInteger(value)) return writer.i64OfNumber(value)
      if (typeof value === 'string' && /^\s*[+-]?\d{1,20}\s*$/.test(value)) return writeBigint(writer, BigInt(value.trim()), index)
      throw wrong(value, type, index)
    case Type.FLOAT:
      if (missing) return writer.raw(NULL_DOUBLE)
      if (typeof value !== 'number' && typeof value !== 'bigint') throw wrong(value, type, index)
      return writeDouble(writer, Number(value), index)
    case Type.STRING:
      if (missing) return writer.i32(-1)
      if (typeof value === 'object') throw wrong(value, type, index)
      return writer.string(String(value))
    case Type.TIMESTAMP:
      if (missing) return writer.i64(NULL_BIGINT)
      if (value instanceof Date) return writer.i64(Timestamp.of(value))
      if (typeof value === 'bigint') return writeBigint(writer, value, index)
      throw wrong(value, type, index)
    case Type.DATE:
      if (missing) return writer.i32(-2147483648)
      if (value instanceof Date) return writer.i32(value.getUTCFullYear() * 65536 + (value.getUTCMonth() + 1) * 256 + value.getUTCDate())
      if (typeof value === 'string') {
        const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(value)
        if (match) return writer.i32(Number(match[1]) * 65536 + Number(match[2]) * 256 + Number(match[3]))
      }
      throw wrong(value, type, index)
    case Type.BOOLEAN:
      return writer.i8(missing ? 127 : value ? 1 : 0)
    case Type.DECIMAL:
      return writeDecimal(writer, missing ? null : parseDecimal(String(value)))
    case Type.VARBINARY:
      if (missing) return writer.i32(-1)
      if (!(value instanceof Uint8Array)) throw wrong(value, type, index)
      return writer.bytes(value)
    case Type.GEOGRAPHY_POINT: {
      const point = (missing ? { longitude: 360, latitude: 360 } : value) as Point
      if (typeof point.longitude !== 'number' || typeof point.latitude !== 'number') throw wrong(value, type, index)
      writer.f64(point.longitude)
      return writer.f64(point.latitude)
    }
    case Type.GEOGRAPHY:
      if (missing) return writer.i32(-1)
      return writePolygon(writer, value as Polygon, index)
    default:
      throw new ValueError(`parameter ${index}: ${typeName(type)} cannot be sent by this driver`)
  }
}

function wrong(value: Parameter, type: number, index: number): ValueError {
  return new ValueError(`parameter ${index}: ${String(value)} cannot be sent as ${typeName(type)}`)
}

function integerWithin(value: Parameter, bits: number, type: number, index: number): number {
  const number = typeof value === 'boolean' ? Number(value) : typeof value === 'bigint' ? Number(value) : value
  const limit = 2 ** bits
  // The lowest integer of each type means NULL on the wire.
  if (typeof number !== 'number' || !Number.isInteger(number) || number <= -limit || number >= limit) throw wrong(value, type, index)
  return number
}

function writeBigint(writer: Writer, value: bigint, index: number): void {
  if (value <= NULL_BIGINT || value >= 2n ** 63n) throw new ValueError(`parameter ${index}: ${value} is out of the range of BIGINT`)
  writer.i64(value)
}

function writeDouble(writer: Writer, value: number, index: number): void {
  if (!(value > -1.7e308)) {
    throw new ValueError(`parameter ${index}: ${value} cannot be sent as FLOAT${Number.isNaN(value) ? '' : ': it would mean NULL'}`)
  }
  writer.f64(value)
}

function writeDecimal(writer: Writer, scaled: bigint | null): void {
  const value = scaled ?? -(2n ** 127n)
  writer.i64(BigInt.asIntN(64, value >> 64n))
  writer.i64(BigInt.asIntN(64, value))
}

const RADIANS = Math.PI / 180
/** Clients leave bounds to the server: a box that says nothing. */
const NO_BOUND = Buffer.concat([Buffer.from([0]), ...Array.from({ length: 4 }, () => Buffer.from('4076800000000000', 'hex'))])

/** A polygon as vertices on the unit sphere. Holes go reversed behind their first vertex. */
function writePolygon(writer: Writer, polygon: Polygon, index: number): void {
  const rings = polygon?.rings
  if (!Array.isArray(rings) || rings.length === 0 || rings.some((ring) => ring.length < 3)) {
    throw new ValueError(`parameter ${index}: a polygon has at least one ring, a ring at least three points`)
  }
  const vertices = rings.reduce((sum, ring) => sum + ring.length, 0)
  writer.i32(40 + rings.length * 43 + vertices * 24)
  writer.i8(0)
  writer.i8(1)
  writer.i8(rings.length > 1 ? 1 : 0)
  writer.i32(rings.length)
  rings.forEach((ring, depth) => {
    writer.i8(0)
    writer.i32(ring.length)
    const ordered = depth === 0 ? ring : [ring[0]!, ...ring.slice(1).reverse()]
    for (const { longitude, latitude } of ordered) {
      const [lng, lat] = [longitude * RADIANS, latitude * RADIANS]
      writer.f64(Math.cos(lat) * Math.cos(lng))
      writer.f64(Math.cos(lat) * Math.sin(lng))
      writer.f64(Math.sin(lat))
    }
    writer.i8(0)
    writer.i32(depth === 0 ? 0 : 1)
    writer.raw(NO_BOUND)
  })
  writer.raw(NO_BOUND)
}
