// What a person would look at: that the page shows votes and goes on doing so under full load, asks
// nothing of other places, works with the keyboard, has no accessibility fault that axe finds, in
// light and dark, and ends with the totals that the database has. How often the page is fresh is
// said, not judged: that is the machine's affair too.

import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

const [address, pictures] = process.argv.slice(2)
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const PATIENCE_MS = 120_000
// The browser asks its maker for nothing.
const quiet = ['--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-quic', '--no-first-run']
const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', ...quiet]
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args, timeout: PATIENCE_MS })
const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' })
page.setDefaultTimeout(PATIENCE_MS)
const elsewhere = []
const faults = []
page.on('request', (request) => request.url().startsWith(address) || request.url().startsWith('data:') || elsewhere.push(request.url()))
page.on('console', (message) => message.type() === 'error' && faults.push(message.text()))
page.on('pageerror', (error) => faults.push(error.message))
try {
  await page.goto(address)
  await page.waitForFunction(() => document.querySelectorAll('#standings tbody tr').length === 6)
  await page.waitForFunction(() => !document.querySelector('#map').textContent.includes('–'))
  const shown = await number('#total')
  await page.waitForFunction((before) => Number(document.querySelector('#total').textContent.replaceAll(',', '')) > before, shown)
  console.log('ok: votes are shown and grow, every state has a leader')

  await page.waitForFunction(() => Number(document.querySelector('#cadence').dataset.count) >= 25)
  const { mean, worst } = await page.evaluate(() => ({ ...document.querySelector('#cadence').dataset }))
  console.log(`ok: refreshed every ${mean} ms under full load, the longest wait ${worst} ms`)

  await page.waitForFunction(() => document.querySelector('#sparkline .line').getAttribute('d').split('L').length > 10)
  await look('light')
  await page.keyboard.press('Tab')
  assert.equal(await focused(), 'Skip to the results')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  assert.equal(await focused(), 'Dark theme')
  await page.keyboard.press('Enter')
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), 'dark')
  await look('dark')
  await page.keyboard.press('Tab')
  const first = await page.locator('#detail').textContent()
  await page.keyboard.press('ArrowRight')
  const second = await page.locator('#detail').textContent()
  assert.match(first, /^Alaska: .* lead/)
  assert.match(second, /^Maine: .* lead/)
  console.log('ok: theme and map work with the keyboard')

  await page.setViewportSize({ width: 375, height: 800 })
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'the page is wider than a telephone')
  await page.setViewportSize({ width: 1280, height: 900 })

  await page.locator('#generator').press('Space')
  const deadline = Date.now() + PATIENCE_MS
  let generator
  do {
    generator = await page.evaluate(async () => (await (await fetch('api/results')).json()).generator)
    assert.ok(Date.now() < deadline, `the generator did not stop: ${JSON.stringify(generator)}`)
  } while (generator.running || generator.outstanding > 0)
  const totals = await page.evaluate(async () => (await fetch('api/totals')).json())
  assert.equal(totals.table, totals.view)
  await page.waitForFunction((total) => Number(document.querySelector('#total').textContent.replaceAll(',', '')) === total, totals.table)
  console.log(`ok: stopped with the keyboard; the page's total is the database's: ${totals.table}`)
  assert.deepEqual(elsewhere, [], 'asked of other places')
  assert.deepEqual(faults, [], 'errors in the page')
} finally {
  await browser.close()
}

async function number(selector) {
  return Number((await page.locator(selector).textContent()).replaceAll(',', ''))
}

async function focused() {
  return page.evaluate(() => document.activeElement.textContent.trim())
}

/** No fault that axe knows, and a picture if pictures are wanted. */
async function look(theme) {
  await page.evaluate(axe)
  const violations = await page.evaluate(async () => (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0].html} ${nodes[0].failureSummary}`))
  assert.deepEqual(violations, [], `accessibility, ${theme}`)
  console.log(`ok: nothing that axe finds fault with, ${theme}`)
  if (pictures) await page.screenshot({ path: join(pictures, `${theme}.png`) })
}
