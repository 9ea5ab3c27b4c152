// Answers as values: frames, responses, tables. Every length is checked against what is there;
// tables are read when asked for. Does not know sockets.

import { FerriteError, ValueError } from './errors.js'
import { formatDecimal, Timestamp, Type, typeName, type Point, type Polygon, type Value, type ValueModes } from './types.js'

const NULL_BIGINT = -(2n ** 63n)
const NULL_DECIMAL_HIGH = -(2n ** 63n)
const DEGREES = 180 / Math.PI

/** What came is not the protocol: the connection cannot go on. */
export class ProtocolError extends FerriteError {
  override name = 'ProtocolError'
  constructor(message: string) {
    super(message, '08P01')
  }
}

export interface Column {
  readonly name: string
  readonly type: number
}

/**
 * A row as an object whose keys are the columns' names as the server gives them (upper case unless
 * quoted).
 */
export type Row = Record<string, Value>

/** A position in bytes that were received; refuses to go past their end. */
export class Cursor {
  private readonly view: DataView
  constructor(
    readonly bytes: Buffer,
    public at = 0,
    readonly end = bytes.length,
  ) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  }
  private step(count: number): number {
    const at = this.at
    if (count < 0 || count > this.end - at) throw new ProtocolError(`an answer ends early: ${count} bytes at ${at} of ${this.end}`)
    this.at = at + count
    return at
  }
  i8(): number {
    return this.view.getInt8(this.step(1))
  }
  i16(): number {
    return this.view.getInt16(this.step(2))
  }
  i32(): number {
    return this.view.getInt32(this.step(4))
  }
  u32(): number {
    return this.view.getUint32(this.step(4))
  }
  i64(): bigint {
    return this.view.getBigInt64(this.step(8))
  }
  f64(): number {
    return this.view.getFloat64(this.step(8))
  }
  /** Bytes with a length before them; null for -1. Not copied. */
  ascii(length: number): string {
    const at = this.step(length)
    return this.bytes.toString('latin1', at, at + length)
  }
  bytes32(): Buffer | null {
    const length = this.i32()
    if (length === -1) return null
    const at = this.step(length)
    return this.bytes.subarray(at, at + length)
  }
  string(): string | null {
    const length = this.i32()
    if (length === -1) return null
    const at = this.step(length)
    return this.bytes.toString('utf8', at, at + length)
  }
  skip(count: number): void {
    this.step(count)
  }
}

/**
 * One result table. Rows are decoded when they are read; the table keeps the bytes of the answer.
 */
export class Table<R = Row> implements Iterable<R> {
  /** Status that the procedure gave the table; null if none. */
  readonly status: number | null
  readonly columns: readonly Column[]
  readonly rowCount: number
  private readonly start: number

  constructor(
    private readonly bytes: Buffer,
    at: number,
    private readonly end: number,
    private readonly modes: ValueModes,
  ) {
    const cursor = new Cursor(bytes, at, end)
    const header = cursor.i32()
    const body = cursor.at + header
    const status = cursor.i8()
    this.status = status === -128 ? null : status
    const count = cursor.i16()
    if (count < 0 || header < 0 || body > end) throw new ProtocolError('the head of a table is wrong')
    const types: number[] = []
    for (let index = 0; index < count; index++) types.push(cursor.i8())
    this.columns = types.map((type) => ({ name: cursor.string() ?? '', type }))
    cursor.at = body
    this.rowCount = cursor.i32()
    if (this.rowCount < 0) throw new ProtocolError('a table with a negative number of rows')
    this.start = cursor.at
  }

  /** Rows as objects, one after the other. */
  *[Symbol.iterator](): IterableIterator<R> {
    const names = this.columns.map((column) => column.name)
    for (const values of this.arrays()) {
      const row: Row = {}
      for (let index = 0; index < names.length; index++) row[names[index]!] = values[index]!
      yield row as R
    }
  }

  /** Rows as arrays in column order. */
  *arrays(): IterableIterator<Value[]> {
    const cursor = new Cursor(this.bytes, this.start, this.end)
    const columns = this.columns
    for (let row = 0; row < this.rowCount; row++) {
      const length = cursor.i32()
      const next = cursor.at + length
      if (length < 0 || next > this.end) throw new ProtocolError('a row ends after its table')
      const values: Value[] = new Array(columns.length)
      for (let index = 0; index < columns.length; index++) values[index] = readValue(cursor, columns[index]!, this.modes)
      cursor.at = next
      yield values
    }
  }

  /** All rows as objects. */
  rows(): R[] {
    return Array.from(this)
  }

  /** The first row, or null. */
  first(): R | null {
    for (const row of this) return row
    return null
  }

  /** The first column of the first row, or null. */
  scalar(): Value {
    if (this.rowCount === 0) return null
    // The usual answer of a procedure, one BIGINT, without building a row.
    const cursor = new Cursor(this.bytes, this.start, this.end)
    cursor.i32()
    const column = this.columns[0]
    return column ? readValue(cursor, column, this.modes) : null
  }

  /** One column of all rows. */
  column(name: string): Value[] {
    const wanted = name.toUpperCase()
    const index = this.columns.findIndex((column) => column.name.toUpperCase() === wanted)
    if (index < 0) {
      throw new ValueError(`there is no column ${name}; there are ${this.columns.map((column) => column.name).join(', ')}`)
    }
    return Array.from(this.arrays(), (row) => row[index]!)
  }

  toJSON(): { columns: readonly Column[]; rows: unknown[][] } {
    const plain = (value: Value): unknown => (typeof value === 'bigint' ? value.toString() : value)
    return { columns: this.columns, rows: Array.from(this.arrays(), (row) => row.map(plain)) }
  }
}

/** Reads one cell. */
export function readValue(cursor: Cursor, column: Column, modes: ValueModes): Value {
  switch (column.type) {
    case Type.TINYINT: {
      const value = cursor.i8()
      return value === -128 ? null : value
    }
    case Type.SMALLINT: {
      const value = cursor.i16()
      return value === -32768 ? null : value
    }
    case Type.INTEGER: {
      const value = cursor.i32()
      return value === -2147483648 ? null : value
    }
    case Type.BIGINT:
      return readBigint(cursor, column, modes)
    case Type.FLOAT: {
      const value = cursor.f64()
      return value <= -1.7e308 ? null : value
    }
    case Type.STRING:
      return cursor.string()
    case Type.TIMESTAMP: {
      const value = cursor.i64()
      return value === NULL_BIGINT ? null : new Timestamp(value)
    }
    case Type.DATE: {
      const value = cursor.i32()
      return value === -2147483648 ? null : dateText(value)
    }
    case Type.BOOLEAN: {
      const value = cursor.i8()
      return value === 127 ? null : value !== 0
    }
    case Type.DECIMAL: {
      const high = cursor.i64()
      const low = BigInt.asUintN(64, cursor.i64())
      if (high === NULL_DECIMAL_HIGH && low === 0n) return null
      const text = formatDecimal((high << 64n) | low)
      return modes.decimal === 'number' ? Number(text) : text
    }
    case Type.VARBINARY: {
      const bytes = cursor.bytes32()
      return bytes === null ? null : Buffer.from(bytes)
    }
    case Type.GEOGRAPHY_POINT: {
      const longitude = cursor.f64()
      const latitude = cursor.f64()
      return longitude === 360 && latitude === 360 ? null : { longitude, latitude }
    }
    case Type.GEOGRAPHY: {
      const bytes = cursor.bytes32()
      return bytes === null ? null : polygon(bytes)
    }
    default:
      throw new ProtocolError(`column ${column.name} is of ${typeName(column.type)}, which this driver does not know`)
  }
}

function readBigint(cursor: Cursor, column: Column, modes: ValueModes): bigint | number | null {
  if (modes.bigint === 'bigint') {
    const value = cursor.i64()
    return value === NULL_BIGINT ? null : value
  }
  const high = cursor.i32()
  const low = cursor.u32()
  if (high === -2147483648 && low === 0) return null
  const value = high * 4294967296 + low
  if (Number.isSafeInteger(value)) return value
  const exact = (BigInt(high) << 32n) | BigInt(low)
  if (modes.bigint === 'auto') return exact
  throw new ValueError(`column ${column.name}: ${exact} is too large for a number; use the option bigint: 'bigint' or 'auto'`)
}

function dateText(value: number): string {
  const pad = (number: number, width: number): string => number.toString().padStart(width, '0')
  return `${pad(value >> 16, 4)}-${pad((value >> 8) & 0xff, 2)}-${pad(value & 0xff, 2)}`
}

function polygon(bytes: Buffer): Polygon {
  const cursor = new Cursor(bytes, 3)
  const count = cursor.i32()
  const rings: Point[][] = []
  for (let ring = 0; ring < count; ring++) {
    cursor.skip(1)
    const vertices = cursor.i32()
    if (vertices < 0 || vertices > bytes.length / 24) throw new ProtocolError('a polygon with more vertices than bytes')
    const points: Point[] = []
    for (let vertex = 0; vertex < vertices; vertex++) {
      const [x, y, z] = [cursor.f64(), cursor.f64(), cursor.f64()]
      points.push({ longitude: Math.atan2(y, x) * DEGREES, latitude: Math.atan2(z, Math.hypot(x, y)) * DEGREES })
    }
    cursor.skip(1)
    const depth = cursor.i32()
    cursor.skip(33)
    // Holes are kept reversed behind their first vertex, so that every ring is counter-clockwise;
    // as text they are clockwise.
    rings.push(depth % 2 === 1 && points.length > 0 ? [points[0]!, ...points.slice(1).reverse()] : points)
  }
  return { rings }
}

/** One answer, with its tables not yet read. */
export interface Response {
  handleHigh: number
  handleLow: number
  status: number
  statusText: string | null
  applicationStatus: number | null
  applicationStatusText: string | null
  /** Milliseconds that the server spent on the call. */
  serverMs: number
  tables: Table[]
  /** SQLSTATE of a failure. */
  code: string | null
}

/** Reads a response from the body of a frame. */
export function readResponse(frame: Buffer, start: number, end: number, modes: ValueModes): Response {
  const cursor = new Cursor(frame, start, end)
  cursor.skip(1)
  const handleHigh = cursor.i32()
  const handleLow = cursor.u32()
  const fields = cursor.i8()
  const status = cursor.i8()
  const statusText = fields & 0x20 ? cursor.string() : null
  const applicationStatus = cursor.i8()
  const applicationStatusText = fields & 0x80 ? cursor.string() : null
  const serverMs = cursor.i32()
  if (fields & 0x40) cursor.bytes32()
  if (fields & 0x10) cursor.skip(4 * cursor.i16())
  const count = cursor.i16()
  const tables: Table[] = []
  for (let index = 0; index < count; index++) {
    const length = cursor.i32()
    const at = cursor.at
    cursor.skip(length)
    tables.push(new Table(frame, at, at + length, modes))
  }
  return {
    handleHigh,
    handleLow,
    status,
    statusText,
    applicationStatus: applicationStatus === -128 ? null : applicationStatus,
    applicationStatusText,
    serverMs,
    tables,
    code: cursor.at < end ? readCode(cursor, end) : null,
  }
}

/**
 * Behind the tables of a failure: fields of id, length and bytes. Number 1 is the code; later
 * servers may have more.
 */
function readCode(cursor: Cursor, end: number): string | null {
  let code: string | null = null
  while (cursor.at < end) {
    const id = cursor.i8()
    const text = cursor.ascii(cursor.i8())
    if (id === 1) code = text
  }
  return code
}

/**
 * Cuts a stream into frames. Keeps what is incomplete; a frame that came in one piece is not
 * copied.
 */
export class FrameSplitter {
  private pieces: Buffer[] = []
  private kept = 0
  private wanted = 4

  /** Calls `each` with every complete frame's buffer, start and end. */
  push(chunk: Buffer, each: (frame: Buffer, start: number, end: number) => void): void {
    let data = chunk
    if (this.kept > 0) {
      this.pieces.push(chunk)
      this.kept += chunk.length
      if (this.kept < this.wanted) return
      data = Buffer.concat(this.pieces, this.kept)
      this.pieces = []
      this.kept = 0
    }
    let at = 0
    for (;;) {
      const rest = data.length - at
      if (rest < 4) {
        this.wanted = 4
        break
      }
      const length = data.readInt32BE(at)
      if (length <= 0 || length > 52428800) throw new ProtocolError(`a message of ${length} bytes`)
      if (rest < 4 + length) {
        this.wanted = 4 + length
        break
      }
      each(data, at + 4, at + 4 + length)
      at += 4 + length
    }
    if (at < data.length) {
      this.pieces.push(at === 0 ? data : data.subarray(at))
      this.kept = data.length - at
    }
  }
}

/** What a successful login says. */
export interface Login {
  hostId: number
  connectionId: bigint
  clusterStart: bigint
  leaderAddress: number
  build: string
}

/**
 * Behind the code of a refusal: of a node that is not open yet the reason, of another server
 * perhaps something else, or nothing.
 */
function reasonOf(cursor: Cursor): string | null {
  try {
    return cursor.at < cursor.end ? cursor.string() : null
  } catch (error) {
    if (error instanceof ProtocolError) return null
    throw error
  }
}

/** Reads the answer to a login: what the node is, or the code of the refusal. */
export function readLogin(frame: Buffer, start: number, end: number): Login | { refused: number; reason: string | null } {
  const cursor = new Cursor(frame, start, end)
  cursor.skip(1)
  const result = cursor.i8()
  if (result !== 0) return { refused: result, reason: reasonOf(cursor) }
  return {
    hostId: cursor.i32(),
    connectionId: cursor.i64(),
    clusterStart: cursor.i64(),
    leaderAddress: cursor.i32(),
    build: cursor.string() ?? '',
  }
}
