// Values between JavaScript and the database: type codes, exact decimals, timestamps with
// microseconds, parameters with a type. Knows no bytes.

import { ValueError } from './errors.js'

/** Type codes of the protocol. */
export const Type = {
  NULL: 1,
  TINYINT: 3,
  SMALLINT: 4,
  INTEGER: 5,
  BIGINT: 6,
  FLOAT: 8,
  STRING: 9,
  TIMESTAMP: 11,
  DATE: 12,
  TABLE: 21,
  DECIMAL: 22,
  BOOLEAN: 23,
  VARBINARY: 25,
  GEOGRAPHY_POINT: 26,
  GEOGRAPHY: 27,
  ARRAY: -99,
} as const

export type TypeCode = (typeof Type)[keyof typeof Type]

const NAMES = new Map<number, string>(Object.entries(Type).map(([name, code]) => [code, name]))

/** Name of a type code for messages. */
export function typeName(code: number): string {
  return NAMES.get(code) ?? `type ${code}`
}

/**
 * How BIGINT comes: exact as bigint (default); as number, refused when it would change; or bigint
 * only where a number would change.
 */
export type BigintMode = 'bigint' | 'number' | 'auto'
/** How DECIMAL comes: exact text such as '12.5' (default), or the nearest number. */
export type DecimalMode = 'string' | 'number'

export interface ValueModes {
  bigint: BigintMode
  decimal: DecimalMode
}

export interface Point {
  longitude: number
  latitude: number
}

/**
 * A polygon: rings of points without the repeated last one; the first ring is the outer one,
 * counter-clockwise.
 */
export interface Polygon {
  rings: Point[][]
}

/** A column's value as it comes from the server. */
export type Value = null | bigint | number | string | boolean | Buffer | Timestamp | Point | Polygon

/**
 * What can be sent as a parameter. Integers choose the smallest type that holds them; other numbers
 * are FLOAT.
 */
export type Parameter =
  | null
  | undefined
  | bigint
  | number
  | string
  | boolean
  | Uint8Array
  | Date
  | Point
  | Polygon
  | Typed
  | readonly Parameter[]

/**
 * A parameter with its type said: `typed(Type.DECIMAL, '12.50')`, or `typed(Type.BIGINT, [1, 2])`
 * for an array.
 */
export class Typed {
  constructor(
    readonly type: TypeCode,
    readonly value: Parameter,
  ) {}
}

export function typed(type: TypeCode, value: Parameter): Typed {
  return new Typed(type, value)
}

/** A decimal parameter from its text or number, at most 26 digits before and 12 after the point. */
export function decimal(value: string | number | bigint): Typed {
  return new Typed(Type.DECIMAL, String(value))
}

/**
 * A moment with the database's microseconds. As a Date it is cut to milliseconds, towards the past.
 */
export class Timestamp extends Date {
  readonly microseconds: bigint

  constructor(microseconds: bigint) {
    const rest = ((microseconds % 1000n) + 1000n) % 1000n
    super(Number((microseconds - rest) / 1000n))
    this.microseconds = microseconds
  }

  static of(date: Date): bigint {
    if (date instanceof Timestamp) return date.microseconds
    const time = date.getTime()
    if (Number.isNaN(time)) throw new ValueError('an invalid Date cannot be sent as TIMESTAMP')
    return BigInt(time) * 1000n
  }

  /** ISO 8601 with six digits of seconds. */
  override toISOString(): string {
    const rest = ((this.microseconds % 1000n) + 1000n) % 1000n
    return super.toISOString().replace('Z', `${rest.toString().padStart(3, '0')}Z`)
  }

  override toJSON(): string {
    return this.toISOString()
  }
}

const SCALE = 10n ** 12n
const LIMIT = 10n ** 38n

/**
 * The scaled integer of a decimal's text. Digits after the twelfth are refused, not rounded away.
 */
export function parseDecimal(text: string): bigint {
  const match = /^\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,4}))?\s*$/.exec(text)
  if (!match || (match[2] === '' && (match[3] ?? '') === '')) throw new ValueError(`'${text}' is not a decimal number`)
  let digits = match[2] + (match[3] ?? '')
  let scale = (match[3] ?? '').length - Number(match[4] ?? 0)
  while (scale > 12 && digits.endsWith('0')) {
    digits = digits.slice(0, -1)
    scale -= 1
  }
  if (scale > 12) throw new ValueError(`'${text}' has more than 12 digits after the point; round it before sending`)
  if (digits.length + 12 - scale > 200) throw new ValueError(`'${text}' is too large for DECIMAL: at most 26 digits before the point`)
  const magnitude = BigInt(digits === '' ? '0' : digits) * 10n ** BigInt(12 - scale)
  if (magnitude >= LIMIT) throw new ValueError(`'${text}' is too large for DECIMAL: at most 26 digits before the point`)
  return match[1] === '-' ? -magnitude : magnitude
}

/** Text of a scaled integer, without zeros that say nothing. */
export function formatDecimal(scaled: bigint): string {
  const magnitude = scaled < 0n ? -scaled : scaled
  const whole = (magnitude / SCALE).toString()
  const rest = (magnitude % SCALE).toString().padStart(12, '0').replace(/0+$/, '')
  return (scaled < 0n ? '-' : '') + whole + (rest === '' ? '' : '.' + rest)
}
