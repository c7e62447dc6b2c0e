PRAGMA page_size = 1024;
PRAGMA journal_mode = wal;
PRAGMA application_id = 1215063142;
PRAGMA user_version = 1;
CREATE TABLE holdfast_lease (
  key TEXT NOT NULL COLLATE BINARY PRIMARY KEY,
  token INTEGER NOT NULL,
  claim TEXT NOT NULL,
  holder TEXT NOT NULL,
  ttl_ms INTEGER NOT NULL,
  granted_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  revoked INTEGER NOT NULL,
  changes INTEGER NOT NULL,
  meta TEXT,
  last_ended TEXT NOT NULL,
  ended TEXT,
  queue TEXT,
  reserved_until_ms INTEGER NOT NULL,
  at_ms INTEGER NOT NULL
) WITHOUT ROWID, STRICT;
CREATE TABLE holdfast_file (
  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  offset_ms INTEGER NOT NULL,
  pruned_token INTEGER NOT NULL
) STRICT;
-- rows
INSERT INTO holdfast_file (id, offset_ms, pruned_token) VALUES (1, 0, 0);
INSERT INTO holdfast_lease (key, token, claim, holder, ttl_ms, granted_ms, expires_ms, revoked, changes, meta, last_ended, ended, queue, reserved_until_ms, at_ms)
VALUES ('golden', 1800000000000000, 'claim-2', 'host:1', 30000, 1700000000000, 4102444800000, 0, 2, '{"job":"report"}', 'claim-1',
  '[{"claim":"claim-0","untilMs":4102444800000,"revoked":false}]',
  '[{"claim":"claim-3","holder":"host:2","sinceMs":1700000000000,"pollMs":1000,"freshUntilMs":4102444800000}]', 0, 1700000000000);
