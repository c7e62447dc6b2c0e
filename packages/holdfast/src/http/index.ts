// `holdfast/http`: grants in requests, guards before handlers, and the `Idempotency-Key` header.
export { type ExpressRequest, type ExpressResponse, expressIdempotent } from './express.js'
export {
  type FastifyIdempotentHooks,
  type FastifyReply,
  type FastifyRequest,
  fastifyIdempotent,
  fastifyRun,
} from './fastify.js'
export { type FencedHandler, type FencedOptions, fenced } from './fenced.js'
export { type FencedFetchOptions, fencedFetch } from './fenced-fetch.js'
export type { IdempotentOptions, ResponseDecision } from './gate.js'
export { type ClaimForm, formatGrant, GRANT_HEADER, parseGrant } from './grant-header.js'
export { type HonoContext, honoIdempotent } from './hono.js'
export { type IdempotentHandler, idempotent } from './idempotent.js'
