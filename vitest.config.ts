import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const source = (path: string) => fileURLToPath(new URL(`packages/holdfast/src/${path}`, import.meta.url))

export default defineConfig({
  resolve: {
    // Tests in this process run the sources; the programs that they start run what was built.
    alias: [
      { find: /^holdfast$/, replacement: source('index.ts') },
      { find: /^holdfast\/testing$/, replacement: source('testing/index.ts') },
      { find: /^holdfast\/testing\/proxy$/, replacement: source('testing-node/proxy.ts') },
      { find: /^holdfast\/(idempotency|http)$/, replacement: source('$1/index.ts') },
      { find: /^holdfast\/(memory|mysql|postgres|quorum|redis|sqlite)$/, replacement: source('stores/$1/index.ts') },
    ],
  },
  test: {
    include: ['packages/*/test/**/*.test.ts', 'test/**/*.test.ts', 'bench/test/**/*.test.ts'],
    exclude: ['**/node_modules/**', '**/clients/**'],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Most tests wait for servers and terms, not for a core.
    maxWorkers: 3,
  },
})
