// Compiles the library twice, as ES modules and as CommonJS, or (--tests) once together with its
// tests. It is the package's `prepare`, too: an installation from a checkout builds it, and fetches
// the compiler first where that is missing.
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const findCompiler = () => {
  try {
    return join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  } catch {
    return undefined
  }
}
const installTools = () => {
  // Its own lock and settings, not those of the installation that has called this one.
  const environment = Object.entries(process.env).filter(([name]) => !/^npm_config_(global|omit|include|production|prefix)/i.test(name))
  const options = ['ci', '--include=dev', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  execFileSync('npm', options, { cwd: here, env: Object.fromEntries(environment), stdio: 'inherit', shell: process.platform === 'win32' })
}
if (!findCompiler()) installTools()
const compiler = findCompiler()
const compile = (project) => execFileSync(process.execPath, [compiler, '-p', join(here, project)], { stdio: 'inherit' })
const kindOf = (folder, type) => {
  mkdirSync(join(here, folder), { recursive: true })
  writeFileSync(join(here, folder, 'package.json'), JSON.stringify({ type }) + '\n')
}

if (process.argv.includes('--tests')) {
  rmSync(join(here, 'dist/tests'), { recursive: true, force: true })
  compile('tsconfig.tests.json')
} else {
  for (const folder of ['dist/esm', 'dist/cjs']) rmSync(join(here, folder), { recursive: true, force: true })
  compile('tsconfig.json')
  compile('tsconfig.cjs.json')
  kindOf('dist/esm', 'module')
  kindOf('dist/cjs', 'commonjs')
}
