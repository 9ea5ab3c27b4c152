// The Node.js driver as the suite sees it: commands on standard input, answers on standard output.
// See README.md for their form.

import { createInterface } from 'node:readline'
import { CallError, Client, Type, Typed, Timestamp } from '../../clients/node/dist/esm/index.js'

const NAMES = new Map(Object.entries(Type).map(([name, code]) => [code, name]))
const hex = (text) => Buffer.from(String(text), 'utf8').toString('hex')
const text = (hexadecimal) => Buffer.from(hexadecimal, 'hex').toString('utf8')
let client
let hammer

const VALUE = {
  TINYINT: BigInt, SMALLINT: BigInt, INTEGER: BigInt, BIGINT: BigInt, FLOAT: Number, STRING: String, DECIMAL: String, DATE: String,
  BOOLEAN: (value) => value === 'true',
  TIMESTAMP: (value) => new Timestamp(BigInt(value)),
  VARBINARY: (value) => Buffer.from(value, 'hex'),
  GEOGRAPHY_POINT: (value) => ({ longitude: Number(value.split(' ')[0]), latitude: Number(value.split(' ')[1]) }),
}

function parameter(field) {
  const [type, value, array] = field.split('=')
  if (type === 'NULL') return null
  if (type === 'ARRAY') return new Typed(Type[value], array === '' ? [] : array.split(',').map((each) => (each === '-' ? null : VALUE[value](text(each)))))
  return new Typed(Type[type], VALUE[type](text(value)))
}

function cell(value) {
  if (value === null) return '-'
  if (value instanceof Timestamp) return hex(value.microseconds)
  if (Buffer.isBuffer(value)) return hex(value.toString('hex'))
  if (typeof value === 'object' && 'rings' in value) return hex(value.rings.map((ring) => ring.map((point) => `${point.longitude} ${point.latitude}`).join(',')).join(';'))
  if (typeof value === 'object') return hex(`${value.longitude} ${value.latitude}`)
  return hex(value)
}

function table(one) {
  const columns = one.columns.map(({ name, type }) => `${hex(name)}:${NAMES.get(type)}`).join(',')
  return [columns, ...Array.from(one.arrays(), (row) => row.map(cell).join(','))].join('|')
}

async function callers(procedure, count) {
  hammer = { running: true, made: 0, answered: [], failed: 0, unknown: 0, notSent: 0 }
  const caller = async () => {
    while (hammer.running) {
      const id = hammer.made++
      try {
        await client.call(procedure, [id])
        hammer.answered.push(id)
      } catch (error) {
        hammer[error.outcome === 'not-sent' ? 'notSent' : error.outcome] += 1
        await new Promise((resolve) => setTimeout(resolve, 1))
      }
    }
  }
  hammer.all = Promise.all(Array.from({ length: count }, caller))
}

const COMMANDS = {
  connect: async ([servers, timeoutMs, shape]) => {
    const alone = shape === 'plain' ? { affinity: false, discover: false } : {}
    client = await Client.connect({ servers, timeoutMs: Number(timeoutMs), reconnect: { minMs: 10, maxMs: 100 }, ...alone })
    return 'ok'
  },
  call: async ([procedure, ...fields]) => {
    const result = await client.call(procedure, fields.map(parameter))
    return ['ok', ...result.tables.map(table)].join('\t')
  },
  hammer: async ([procedure, count]) => {
    callers(procedure, Number(count))
    return 'ok'
  },
  answered: async () => `ok\t${hammer.answered.length}`,
  stop: async () => {
    hammer.running = false
    await hammer.all
    return ['ok', hammer.made, hammer.failed, hammer.unknown, hammer.notSent, hammer.answered.join(',')].join('\t')
  },
  close: async () => {
    await client.close()
    return 'ok'
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...fields] = line.split('\t')
  const answer = await COMMANDS[command](fields).catch((error) =>
    error instanceof CallError ? [error.outcome, error.status, hex(error.message), error.code].join('\t') : `error\t0\t${hex(error.message)}\t${error.code}`,
  )
  process.stdout.write(`${answer}\n`)
  if (command === 'close') break
}
process.stdin.destroy() // Else it would keep the process alive; nothing of the driver's does.
