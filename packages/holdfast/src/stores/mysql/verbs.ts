// The procedures that the store calls: one call a verb, one transaction a call, for any number of operations, which come as JSON in
// the order of their keys. The plain ones are done all at once by one statement, whose WHERE says when it decides as a step would;
// the others step by step. Texts travel as hex digits: no character set, no escape and no `sql_mode` can change a name on its way.
import { IS_THERE, NOW } from './steps.js'

/**
 * So much time may pass between the reading of the clock and the lock of a row in a statement that does many at once. A lease that
 * has less left is done by a step, and when more has passed afterwards, all are.
 */
const SLACK_US = 250_000

/**
 * One transaction at READ COMMITTED, whatever the session's default: no gap is locked, and what decides is what is committed. Where
 * it waits for others at all, when two make the same row, it does so for a second at most (MySQL knows no less, and with 0 MariaDB 10.11
 * answers SKIP LOCKED with error 1180). The session is left as it was. When it is in a transaction already, SET TRANSACTION fails and
 * nothing is touched.
 */
const transaction = (declare: string, body: string) => `BEGIN
  DECLARE v_lock_wait INT DEFAULT @@SESSION.innodb_lock_wait_timeout;
  SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
  BEGIN
    ${declare}
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN
      ROLLBACK AND NO CHAIN NO RELEASE;
      SET SESSION innodb_lock_wait_timeout = v_lock_wait;
      RESIGNAL;
    END;
    START TRANSACTION READ WRITE;
    SET SESSION innodb_lock_wait_timeout = 1;
    ${body}
  END;
END`

const END = `COMMIT AND NO CHAIN NO RELEASE;
    SET SESSION innodb_lock_wait_timeout = v_lock_wait;`

/** The operations as rows. JSON arrays: key, claim, ttl, poll, place of the holder, the rest. */
const ops = (...columns: string[]) => `JSON_TABLE(p_ops, '$[*]' COLUMNS (${columns.join(', ')})) o`
const I = 'i FOR ORDINALITY'
const K = "k VARCHAR(1024) CHARACTER SET ascii PATH '$[0]'"
const C = "c VARCHAR(510) CHARACTER SET ascii PATH '$[1]'"
const T = "t BIGINT PATH '$[2]'"
const Q = "q BIGINT PATH '$[3]'"
const H = "h INT PATH '$[4]'"
const X = "x INT EXISTS PATH '$[5]'"

/** A statement that may meet a lock that another has: then only itself is undone, and the steps find out who is locked. */
const attempt = (statement: string, done = 'ROW_COUNT()') => `BEGIN
        DECLARE EXIT HANDLER FOR 1205 BEGIN
          IF @@innodb_rollback_on_timeout THEN RESIGNAL; END IF;
        END;
        ${statement};
        SET v_done = ${done};
      END`

/** What the loops over the operations that are left have in common. */
const LOOP_VARIABLES = `DECLARE v_us, v_ttl, v_poll BIGINT;
    DECLARE v_i, v_over, v_done, v_is INT DEFAULT 0;
    DECLARE v_key VARBINARY(512);
    DECLARE v_claim, v_wake VARBINARY(255);
    DECLARE v_answers LONGTEXT CHARACTER SET ascii DEFAULT '';`

/**
 * (operations, their number, holders) → at_us, answers. An operation without an answer of its own was granted with the token at_us.
 * Answers: `place,is,token,left,replaced,holder,wake;` each, texts as hex digits.
 */
const ACQUIRE = `PROCEDURE P_acquire(IN p_ops LONGTEXT CHARACTER SET ascii, IN p_count INT, IN p_holders LONGTEXT CHARACTER SET ascii)
${transaction(
  `${LOOP_VARIABLES}
    DECLARE v_token, v_left, v_floor BIGINT;
    DECLARE v_holder INT;
    DECLARE v_more, v_replaced INT;
    DECLARE v_who, v_first, v_by VARBINARY(1024);
    DECLARE v_replaces VARBINARY(255);
    DECLARE v_meta MEDIUMBLOB;
    DECLARE v_cursor CURSOR FOR
      SELECT o.i, UNHEX(o.k), UNHEX(o.c), o.t, o.q, o.h, o.x FROM ${ops(I, K, C, T, Q, H, X)}
      WHERE p_count = 1 OR NOT EXISTS (SELECT 1 FROM L l WHERE l.lease_key = UNHEX(o.k) AND l.claim = UNHEX(o.c)
        AND l.granted_us = v_us AND l.token = v_us)
      ORDER BY o.i;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;`,
  `SET v_us = ${NOW};
    IF p_count > 1 THEN
      SET v_first = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(p_holders, '$[0]')));
      ${attempt(`INSERT INTO L (lease_key, token, claim, holder, ttl_ms, granted_us, expires_us)
        SELECT l.lease_key, v_us, UNHEX(o.c), v_first, o.t, v_us, v_us + o.t * 1000
        FROM ${ops(K, C, T, H, X)} STRAIGHT_JOIN L l FORCE INDEX (PRIMARY) ON l.lease_key = UNHEX(o.k)
        WHERE o.h = 0 AND o.x = 0 AND l.token < v_us AND l.expires_us <= v_us AND l.last_ended <> UNHEX(o.c) AND l.more = 0
        FOR UPDATE SKIP LOCKED
        ON DUPLICATE KEY UPDATE token = VALUES(token), claim = VALUES(claim), holder = VALUES(holder), ttl_ms = VALUES(ttl_ms),
          granted_us = VALUES(granted_us), expires_us = VALUES(expires_us), revoked = 0, changes = L.changes + 1, meta = NULL`)};
    END IF;
    IF p_count > 1 AND v_done < 2 * p_count THEN
      ${attempt(
        `INSERT IGNORE INTO L (lease_key, token, claim, holder, ttl_ms, granted_us, expires_us, changes)
        SELECT UNHEX(o.k), v_us, UNHEX(o.c), v_first, o.t, v_us, v_us + o.t * 1000, 1
        FROM ${ops(K, C, T, H, X)} LEFT JOIN L l ON l.lease_key = UNHEX(o.k)
        WHERE l.lease_key IS NULL AND o.h = 0 AND o.x = 0 AND v_us > (SELECT pruned_token FROM M)`,
        'v_done + 2 * ROW_COUNT()',
      )};
    END IF;
    IF v_done < 2 * p_count THEN
      OPEN v_cursor;
      every_op: LOOP
        FETCH v_cursor INTO v_i, v_key, v_claim, v_ttl, v_poll, v_holder, v_more;
        IF v_over THEN LEAVE every_op; END IF;
        SET v_who = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(p_holders, CONCAT('$[', v_holder, ']'))));
        SET v_replaces = NULL, v_floor = 0, v_meta = NULL, v_wake = NULL;
        IF v_more THEN
          SET v_replaces = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(p_ops, CONCAT('$[', v_i - 1, '][5]'))));
          SET v_floor = JSON_EXTRACT(p_ops, CONCAT('$[', v_i - 1, '][6]'));
          SET v_meta = UNHEX(JSON_UNQUOTE(JSON_EXTRACT(p_ops, CONCAT('$[', v_i - 1, '][7]'))));
        END IF;
        CALL P_acquire_one(v_key, v_claim, v_who, v_ttl, v_poll, NULLIF(v_replaces, ''), v_floor, NULLIF(v_meta, ''),
          v_is, v_token, v_left, v_by, v_replaced, v_wake);
        SET v_answers = CONCAT(v_answers, v_i, ',', v_is, ',', COALESCE(v_token, 0), ',', COALESCE(v_left, 0), ',',
          COALESCE(v_replaced, -1), ',', COALESCE(HEX(v_by), ''), ',', COALESCE(HEX(v_wake), ''), ';');
      END LOOP;
      CLOSE v_cursor;
    END IF;
    ${END}
    SELECT CAST(v_us AS CHAR) AS at_us, v_answers AS answers;`,
)}`

/** (operations, their number) → answers `place,is;` of those that were not simply renewed. */
const RENEW = `PROCEDURE P_renew(IN p_ops LONGTEXT CHARACTER SET ascii, IN p_count INT)
${transaction(
  `${LOOP_VARIABLES}
    DECLARE v_cursor CURSOR FOR
      SELECT o.i, UNHEX(o.k), UNHEX(o.c), o.t FROM ${ops(I, K, C, T)}
      WHERE v_us = 0 OR NOT EXISTS (SELECT 1 FROM L l WHERE l.lease_key = UNHEX(o.k) AND l.claim = UNHEX(o.c)
        AND l.revoked = 0 AND l.expires_us >= v_us + o.t * 1000)
      ORDER BY o.i;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;`,
  `SET v_us = 0;
    IF p_count > 1 THEN
      SET v_us = ${NOW};
      ${attempt(`INSERT INTO L (lease_key, expires_us)
        SELECT l.lease_key, GREATEST(l.expires_us, v_us + o.t * 1000)
        FROM ${ops(K, C, T)} STRAIGHT_JOIN L l FORCE INDEX (PRIMARY) ON l.lease_key = UNHEX(o.k)
        WHERE l.claim = UNHEX(o.c) AND l.expires_us > v_us + ${SLACK_US} AND l.revoked = 0
        FOR UPDATE SKIP LOCKED
        ON DUPLICATE KEY UPDATE expires_us = VALUES(expires_us)`)};
      IF ${NOW} > v_us + ${SLACK_US} THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION READ WRITE;
        SET v_us = 0, v_done = 0;
      END IF;
    END IF;
    IF v_done < 2 * p_count THEN
      OPEN v_cursor;
      every_op: LOOP
        FETCH v_cursor INTO v_i, v_key, v_claim, v_ttl;
        IF v_over THEN LEAVE every_op; END IF;
        CALL P_renew_one(v_key, v_claim, v_ttl, v_is);
        IF v_is <> 1 THEN SET v_answers = CONCAT(v_answers, v_i, ',', v_is, ';'); END IF;
      END LOOP;
      CLOSE v_cursor;
    END IF;
    ${END}
    SELECT v_answers AS answers;`,
)}`

/** (operations, their number) → answers `place,is,wake;` of those that were not simply released. */
const RELEASE = `PROCEDURE P_release(IN p_ops LONGTEXT CHARACTER SET ascii, IN p_count INT)
${transaction(
  `${LOOP_VARIABLES}
    DECLARE v_cursor CURSOR FOR
      SELECT o.i, UNHEX(o.k), UNHEX(o.c) FROM ${ops(I, K, C)}
      WHERE v_us = 0 OR NOT EXISTS (SELECT 1 FROM L l WHERE l.lease_key = UNHEX(o.k) AND l.claim = ''
        AND l.last_ended = UNHEX(o.c) AND l.expires_us = v_us)
      ORDER BY o.i;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;`,
  `SET v_us = 0;
    IF p_count > 1 THEN
      SET v_us = ${NOW};
      ${attempt(`INSERT INTO L (lease_key, expires_us)
        SELECT l.lease_key, v_us
        FROM ${ops(K, C)} STRAIGHT_JOIN L l FORCE INDEX (PRIMARY) ON l.lease_key = UNHEX(o.k)
        WHERE l.claim = UNHEX(o.c) AND l.expires_us > v_us + ${SLACK_US} AND l.more = 0
        FOR UPDATE SKIP LOCKED
        ON DUPLICATE KEY UPDATE last_ended = L.claim, claim = '', revoked = 0, expires_us = VALUES(expires_us)`)};
      IF ${NOW} > v_us + ${SLACK_US} THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION READ WRITE;
        SET v_us = 0, v_done = 0;
      END IF;
    END IF;
    IF v_done < 2 * p_count THEN
      OPEN v_cursor;
      every_op: LOOP
        FETCH v_cursor INTO v_i, v_key, v_claim;
        IF v_over THEN LEAVE every_op; END IF;
        SET v_wake = NULL;
        CALL P_release_one(v_key, v_claim, v_is, v_wake);
        SET v_answers = CONCAT(v_answers, v_i, ',', v_is, ',', COALESCE(HEX(v_wake), '-'), ';');
      END LOOP;
      CLOSE v_cursor;
    END IF;
    ${END}
    SELECT v_answers AS answers;`,
)}`

/** (key, claim, retention) → answers: `is,wake`. */
const WITHDRAW = `PROCEDURE P_withdraw(IN p_key VARBINARY(512), IN p_claim VARBINARY(255), IN p_keep_ms BIGINT)
${transaction(
  `DECLARE v_is INT;
    DECLARE v_wake VARBINARY(255);`,
  `CALL P_forget_one(p_key, p_claim, p_keep_ms, 0, v_is, v_wake);
    ${END}
    SELECT CONCAT(v_is, ',', COALESCE(HEX(v_wake), '-')) AS answers;`,
)}`

/** The columns of a record, with one row for each waiter that still asks. */
const RECORD = `CAST(v_us AS CHAR) AS at_us, l.lease_key AS lease_key, CAST(l.token AS CHAR) AS token, l.claim AS claim,
      l.holder AS holder, CAST(l.ttl_ms AS CHAR) AS ttl_ms, CAST(l.granted_us AS CHAR) AS granted_us,
      CAST(l.expires_us AS CHAR) AS expires_us, l.revoked AS revoked, CAST(l.changes AS CHAR) AS changes, l.meta AS meta,
      w.holder AS waiter, CAST(w.since_us AS CHAR) AS since_us`

/** (key, force, retention) → first the record as it was, then answers: `is,wake`; is: 1 revoked, 0 nobody held it, -7 locked. */
const REVOKE = `PROCEDURE P_revoke(IN p_key VARBINARY(512), IN p_force INT, IN p_keep_ms BIGINT)
${transaction(
  `DECLARE v_us, v_token, v_expires BIGINT;
    DECLARE v_claim, v_wake VARBINARY(255);
    DECLARE v_is, v_there INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;`,
  `SELECT token, claim, expires_us INTO v_token, v_claim, v_expires FROM L WHERE lease_key = p_key FOR UPDATE SKIP LOCKED;
    SET v_us = ${NOW};
    SELECT ${RECORD} FROM L l LEFT JOIN W w ON w.lease_key = l.lease_key AND w.fresh_us > v_us
      WHERE l.lease_key = p_key ORDER BY w.place;
    IF v_token IS NULL THEN
      ${IS_THERE};
      SET v_is = IF(v_there, -7, 0);
    ELSEIF v_claim <> '' AND v_us < v_expires THEN
      SET v_is = 1;
      IF p_force THEN CALL P_forget_one(p_key, v_claim, p_keep_ms, 1, v_is, v_wake);
      ELSE UPDATE L SET revoked = 1 WHERE lease_key = p_key;
      END IF;
    END IF;
    ${END}
    SELECT CONCAT(v_is, ',', COALESCE(HEX(v_wake), '-')) AS answers;`,
)}`

/** (key) → its record. */
const INSPECT = `PROCEDURE P_inspect(IN p_key VARBINARY(512))
${transaction(
  'DECLARE v_us BIGINT;',
  `SET v_us = ${NOW};
    SELECT ${RECORD} FROM L l LEFT JOIN W w ON w.lease_key = l.lease_key AND w.fresh_us > v_us
      WHERE l.lease_key = p_key ORDER BY w.place;
    ${END}`,
)}`

/** (after, prefix, also free, limit) → records of the next few keys, in the order of the keys' bytes. */
const LIST = `PROCEDURE P_list(IN p_after VARBINARY(512), IN p_prefix VARBINARY(512), IN p_free INT, IN p_limit INT)
${transaction(
  'DECLARE v_us BIGINT;',
  `SET v_us = ${NOW};
    SELECT ${RECORD} FROM (
      SELECT * FROM L WHERE lease_key > p_after AND lease_key >= p_prefix
        AND (p_free OR more OR (claim <> '' AND expires_us > v_us)) ORDER BY lease_key LIMIT p_limit
    ) l LEFT JOIN W w ON w.lease_key = l.lease_key AND w.fresh_us > v_us ORDER BY l.lease_key, w.place;
    ${END}`,
)}`

/** (keys and claims) → the places of those whose key may be free for them: one look for all who wait in a process. */
const LOOK = `PROCEDURE P_look(IN p_ops LONGTEXT CHARACTER SET ascii)
${transaction(
  'DECLARE v_us BIGINT;',
  `SET v_us = ${NOW};
    SELECT o.i AS place FROM ${ops(I, K, C)} LEFT JOIN L l ON l.lease_key = UNHEX(o.k)
      WHERE l.lease_key IS NULL OR (NOT (l.claim <> '' AND v_us < l.expires_us) AND (l.more = 0 OR v_us >= l.reserved_us
        OR COALESCE((SELECT w.claim FROM W w WHERE w.lease_key = l.lease_key AND w.fresh_us > v_us ORDER BY w.place LIMIT 1),
          UNHEX(o.c)) = UNHEX(o.c)));
    ${END}`,
)}`

/**
 * (after, limit, age) → how many of the next few keys were forgotten, and the last that was looked at; NULL at the end. A token that is
 * ahead of the clock is kept until the clock has passed it: else those of all keys would be.
 */
const PRUNE = `PROCEDURE P_prune(IN p_after VARBINARY(512), IN p_limit INT, IN p_older_ms BIGINT)
${transaction(
  `DECLARE v_us, v_token, v_top BIGINT DEFAULT 0;
    DECLARE v_key, v_last VARBINARY(512);
    DECLARE v_over, v_count INT DEFAULT 0;
    DECLARE v_cursor CURSOR FOR SELECT lease_key FROM L
      WHERE lease_key > p_after AND (v_last IS NULL OR lease_key <= v_last)
        AND (claim = '' OR expires_us <= v_us) AND expires_us <= v_us - p_older_ms * 1000 AND token <= v_us ORDER BY lease_key;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = 1;`,
  `SET v_us = ${NOW};
    SELECT lease_key INTO v_last FROM L WHERE lease_key > p_after ORDER BY lease_key LIMIT p_limit, 1;
    SET v_over = 0;
    OPEN v_cursor;
    every_op: LOOP
      FETCH v_cursor INTO v_key;
      IF v_over THEN LEAVE every_op; END IF;
      SET v_token = NULL;
      SELECT token INTO v_token FROM L WHERE lease_key = v_key AND (claim = '' OR expires_us <= v_us)
        AND expires_us <= v_us - p_older_ms * 1000 AND token <= v_us
        AND NOT EXISTS (SELECT 1 FROM W WHERE lease_key = v_key AND fresh_us > v_us)
        AND NOT EXISTS (SELECT 1 FROM E WHERE lease_key = v_key AND until_us > v_us) FOR UPDATE SKIP LOCKED;
      IF v_token IS NOT NULL THEN
        DELETE FROM W WHERE lease_key = v_key;
        DELETE FROM E WHERE lease_key = v_key;
        DELETE FROM L WHERE lease_key = v_key;
        SET v_count = v_count + 1, v_top = GREATEST(v_top, v_token);
      END IF;
      SET v_over = 0;
    END LOOP;
    CLOSE v_cursor;
    IF v_count > 0 THEN UPDATE M SET pruned_token = GREATEST(pruned_token, v_top); END IF;
    ${END}
    SELECT v_count AS forgotten, v_last AS last_key;`,
)}`

/** () → the name that these tables were given when they were made. */
const NAME = `PROCEDURE P_name()
${transaction(
  'DECLARE v_name CHAR(36);',
  `SELECT name INTO v_name FROM M;
    ${END}
    SELECT v_name AS name;`,
)}`

export const VERBS: readonly string[] = [ACQUIRE, RENEW, RELEASE, WITHDRAW, REVOKE, INSPECT, LIST, LOOK, PRUNE, NAME]
