// Which partition owns a key: MurmurHash3 (x64, 128 bits, seed 0), its upper 32 bits, and the ring
// of tokens. 64-bit numbers are pairs of 32-bit halves: a routed call hashes once, and bigint
// arithmetic would cost more than the call.

/** 64-bit arithmetic on halves in a scratch array: [high, low] pairs, unsigned. */
function multiply(h: number, l: number, ch: number, cl: number, out: Uint32Array): void {
  const l0 = l & 0xffff
  const l1 = l >>> 16
  const c0 = cl & 0xffff
  const c1 = cl >>> 16
  const low = l0 * c0
  const middle = l1 * c0 + (low >>> 16)
  const middle2 = l0 * c1 + (middle % 65536)
  out[1] = ((middle2 & 0xffff) << 16) | (low & 0xffff)
  const carry = l1 * c1 + Math.floor(middle / 65536) + Math.floor(middle2 / 65536)
  out[0] = (carry + Math.imul(h, cl) + Math.imul(l, ch)) | 0
}

const C1 = [0x87c37b91, 0x114253d5] as const
const C2 = [0x4cf5ad43, 0x2745937f] as const
const scratch = new Uint32Array(2)

interface Word {
  h: number
  l: number
}

function times(a: Word, c: readonly [number, number]): Word {
  multiply(a.h >>> 0, a.l >>> 0, c[0], c[1], scratch)
  return { h: scratch[0]!, l: scratch[1]! }
}
function rotate(a: Word, by: number): Word {
  if (by >= 32) {
    const rest = by - 32
    if (rest === 0) return { h: a.l, l: a.h }
    return { h: ((a.l << rest) | (a.h >>> (32 - rest))) >>> 0, l: ((a.h << rest) | (a.l >>> (32 - rest))) >>> 0 }
  }
  return { h: ((a.h << by) | (a.l >>> (32 - by))) >>> 0, l: ((a.l << by) | (a.h >>> (32 - by))) >>> 0 }
}
function plus(a: Word, b: Word): Word {
  const low = (a.l >>> 0) + (b.l >>> 0)
  return { h: ((a.h >>> 0) + (b.h >>> 0) + (low > 0xffffffff ? 1 : 0)) >>> 0, l: low >>> 0 }
}
function xor(a: Word, b: Word): Word {
  return { h: (a.h ^ b.h) >>> 0, l: (a.l ^ b.l) >>> 0 }
}
function mixed(k: Word): Word {
  let value = { h: k.h, l: (k.l ^ (k.h >>> 1)) >>> 0 } // k ^= k >>> 33
  value = times(value, [0xff51afd7, 0xed558ccd])
  value = { h: value.h, l: (value.l ^ (value.h >>> 1)) >>> 0 }
  value = times(value, [0xc4ceb9fe, 0x1a85ec53])
  return { h: value.h, l: (value.l ^ (value.h >>> 1)) >>> 0 }
}

/** The token of some bytes: the upper half of the hash's first word, signed. */
export function token(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  let h1: Word = { h: 0, l: 0 }
  let h2: Word = { h: 0, l: 0 }
  const full = bytes.length - (bytes.length % 16)
  for (let at = 0; at < full; at += 16) {
    const k1 = { l: view.getUint32(at, true), h: view.getUint32(at + 4, true) }
    const k2 = { l: view.getUint32(at + 8, true), h: view.getUint32(at + 12, true) }
    h1 = xor(h1, times(rotate(times(k1, C1), 31), C2))
    h1 = plus(times(plus(rotate(h1, 27), h2), [0, 5]), { h: 0, l: 0x52dce729 })
    h2 = xor(h2, times(rotate(times(k2, C2), 33), C1))
    h2 = plus(times(plus(rotate(h2, 31), h1), [0, 5]), { h: 0, l: 0x38495ab5 })
  }
  const tail = bytes.length - full
  if (tail > 0) {
    const last = new Uint8Array(16)
    last.set(bytes.subarray(full))
    const end = new DataView(last.buffer)
    if (tail > 8) {
      const k2 = { l: end.getUint32(8, true), h: end.getUint32(12, true) }
      h2 = xor(h2, times(rotate(times(k2, C2), 33), C1))
    }
    const k1 = { l: end.getUint32(0, true), h: end.getUint32(4, true) }
    h1 = xor(h1, times(rotate(times(k1, C1), 31), C2))
  }
  const length = { h: 0, l: bytes.length }
  h1 = xor(h1, length)
  h2 = xor(h2, length)
  h1 = plus(h1, h2)
  h2 = plus(h2, h1)
  return plus(mixed(h1), mixed(h2)).h | 0
}

const eight = new Uint8Array(8)
const eightView = new DataView(eight.buffer)

/** The token of an integer: its 64 bits, little-endian. */
export function tokenOfInteger(value: number | bigint): number {
  if (typeof value === 'bigint') eightView.setBigInt64(0, value, true)
  else {
    eightView.setUint32(0, value >>> 0, true)
    eightView.setInt32(4, Math.floor(value / 4294967296), true)
  }
  return token(eight)
}

/** Sorted tokens and who owns what follows each. */
export class Ring {
  private constructor(
    private readonly tokens: Int32Array,
    private readonly partitions: Int32Array,
  ) {}

  /** From the raw form: a count, then pairs of token and partition. Null if it is not one. */
  static parse(raw: Buffer): Ring | null {
    if (raw.length < 4) return null
    const count = raw.readInt32BE(0)
    if (count < 1 || raw.length !== 4 + 8 * count) return null
    const tokens = new Int32Array(count)
    const partitions = new Int32Array(count)
    for (let index = 0; index < count; index++) {
      tokens[index] = raw.readInt32BE(4 + 8 * index)
      partitions[index] = raw.readInt32BE(8 + 8 * index)
      if (index === 0 ? tokens[0] !== -2147483648 : tokens[index]! <= tokens[index - 1]!) return null
    }
    return new Ring(tokens, partitions)
  }

  /** The owner: the pair with the greatest token that is not above. */
  owner(of: number): number {
    let low = 0
    let high = this.tokens.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (this.tokens[middle]! <= of) low = middle
      else high = middle
    }
    return this.partitions[low]!
  }
}
