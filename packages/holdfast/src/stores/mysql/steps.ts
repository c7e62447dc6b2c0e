// The protocol of one key as stored procedures: what `store/protocol.ts` says in TypeScript, line for line, for a server that
// decides by its own clock. A step locks the key's row first and reads the clock afterwards, so that a lease granted after a wait
// has its whole ttl, and an expired one is never taken for live (G1, G4). Waiters and withdrawn claims are rows of their own,
// guarded by that lock. In these texts L, W, E and M stand for the tables, and P_ begins the names of the procedures.
//
// Instants are in µs of the server's clock since 1970, UTC, as the tokens are; ttl and poll are in ms. A key is free when `claim` is
// empty or `expires_us` has passed; of a free key `expires_us` says since when. `more`: there may be waiters or withdrawn claims.
// No step waits for a row: what another transaction has locked is answered with -7, and asked for again by the client.

/**
 * The clock. UTC_TIMESTAMP knows no time zone and no daylight saving, and within a procedure it is the time at which its statement
 * started, so that, read in a statement of its own, it comes after the lock. (SYSDATE would be the moment itself, but in the
 * session's zone, where an hour comes twice each autumn.)
 */
export const NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"

/** Reads and locks the row of a key into variables. v_token stays NULL when it is not there, or locked by another. */
const LOCK = `SELECT token, claim, holder, ttl_ms, expires_us, revoked, more, reserved_us, last_ended
    INTO v_token, v_claim, v_holder, v_ttl, v_expires, v_revoked, v_more, v_reserved, v_last_ended
    FROM L WHERE lease_key = p_key FOR UPDATE SKIP LOCKED`

/** The variables of LOCK. A row that is not found leaves them as they are. */
const ROW = `DECLARE v_us, v_token, v_ttl, v_expires, v_reserved BIGINT;
  DECLARE v_claim, v_last_ended, v_head VARBINARY(255);
  DECLARE v_holder VARBINARY(1024);
  DECLARE v_revoked, v_more, v_there, v_tries, v_place INT DEFAULT 0;`

/** Whether a row that could not be read is there, and so locked by another. A SELECT by itself: within SET or IF it would wait for the lock. */
export const IS_THERE = 'SELECT COUNT(*) INTO v_there FROM L WHERE lease_key = p_key'

const KEEP_VARIABLES = 'DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;'

/** As LOCK; a row that is not there is made. Leaves the step with -7 when another has it. */
const LOCK_OR_MAKE = `WHILE v_token IS NULL DO
    ${LOCK};
    IF v_token IS NULL THEN
      ${IS_THERE};
      SET v_tries = v_tries + 1;
      IF v_there OR v_tries > 3 THEN
        SET o_is = -7;
        LEAVE step;
      END IF;
      INSERT INTO L (lease_key, token, expires_us) SELECT p_key, pruned_token, ${NOW} FROM M
        ON DUPLICATE KEY UPDATE lease_key = VALUES(lease_key);
    END IF;
  END WHILE;
  SET v_us = ${NOW};`

/** Somebody else is just making the same row: only this statement is undone, unless the server is told to undo the transaction. */
const LOCKED_BY_ANOTHER = `DECLARE EXIT HANDLER FOR 1205 BEGIN
    IF @@innodb_rollback_on_timeout THEN RESIGNAL; END IF;
    SET o_is = -7;
  END;`

const HELD = "v_claim <> '' AND v_us < v_expires"

/** Whether the claim was the last to end what it held. */
const gaveBack = (claim: string) => `(v_last_ended = ${claim} AND NOT (v_more
    AND EXISTS (SELECT 1 FROM E WHERE lease_key = p_key AND claim = ${claim} AND revoked)))`

/** Why a claim does not hold: 0 expired, -1 taken, -2 revoked, -3 released. */
const WHY_LOST = `IF v_claim = p_claim THEN SET o_is = IF(v_revoked, -2, 0);
  ELSEIF v_more AND EXISTS (SELECT 1 FROM E WHERE lease_key = p_key AND claim = p_claim) THEN
    SET o_is = IF((SELECT revoked FROM E WHERE lease_key = p_key AND claim = p_claim), -2, -3);
  ELSEIF v_last_ended = p_claim THEN SET o_is = -3;
  ELSE SET o_is = IF(v_claim = '', 0, -1);
  END IF;`

/** Whose turn it is: passes it on when the key is free and somebody waits. Gives the head of the queue, or NULL. */
const PASS_TURN = `PROCEDURE P_pass_turn(IN p_key VARBINARY(512), IN p_us BIGINT, INOUT p_reserved BIGINT, OUT o_head VARBINARY(255))
BEGIN
  DECLARE v_before, v_poll BIGINT;
  DECLARE v_place BIGINT;
  DECLARE v_missed INT DEFAULT p_reserved <> 0 AND p_us >= p_reserved;
  ${KEEP_VARIABLES}
  SELECT place INTO v_before FROM W WHERE lease_key = p_key ORDER BY place LIMIT 1;
  IF v_before IS NOT NULL THEN
    DELETE FROM W WHERE lease_key = p_key AND (fresh_us <= p_us OR (v_missed AND place = v_before));
    SELECT place, claim, poll_ms INTO v_place, o_head, v_poll FROM W WHERE lease_key = p_key ORDER BY place LIMIT 1;
    IF v_place IS NULL THEN SET p_reserved = 0;
    ELSEIF v_place <> v_before OR p_reserved = 0 THEN SET p_reserved = p_us + v_poll * 1000;
    END IF;
  END IF;
END`

/** Ends a claim, held or not: it leaves the queue, and the lease if that is its own. */
const END_CLAIM = `PROCEDURE P_end_claim(IN p_key VARBINARY(512), IN p_claim VARBINARY(255), IN p_us BIGINT, INOUT p_reserved BIGINT)
BEGIN
  IF p_claim = (SELECT claim FROM W WHERE lease_key = p_key ORDER BY place LIMIT 1) THEN SET p_reserved = 0; END IF;
  DELETE FROM W WHERE lease_key = p_key AND claim = p_claim;
  UPDATE L SET last_ended = claim, expires_us = p_us, revoked = 0, claim = '' WHERE lease_key = p_key AND claim = p_claim;
END`

/** Writes what a step keeps beside the row: the reservation, and whether there is anything more. */
const SETTLE = `UPDATE L SET reserved_us = v_reserved,
      more = EXISTS (SELECT 1 FROM W WHERE lease_key = p_key) OR EXISTS (SELECT 1 FROM E WHERE lease_key = p_key)
    WHERE lease_key = p_key`

/** The answer of a refusal: who has it or whose turn it is, and for how long. */
const REFUSAL = `SET o_token = v_token, o_holder = '', o_left = 0;
  IF ${HELD} THEN
    SET o_holder = v_holder, o_left = v_expires - v_us;
  ELSEIF v_more THEN
    SELECT holder, GREATEST(0, v_reserved - v_us) INTO o_holder, o_left FROM W WHERE lease_key = p_key ORDER BY place LIMIT 1;
  END IF;`

/**
 * One acquire in general. o_is: 1 granted, -1 held, -2 reserved, -3 ended, -4 revoked, -7 locked, -8 no token left.
 * o_replaced: -1 not asked for, else whether the claim replaced still held. o_wake: whose turn has come.
 */
const ACQUIRE_ONE = `PROCEDURE P_acquire_one(
  IN p_key VARBINARY(512), IN p_claim VARBINARY(255), IN p_holder VARBINARY(1024), IN p_ttl BIGINT, IN p_poll BIGINT,
  IN p_replaces VARBINARY(255), IN p_floor BIGINT, IN p_meta MEDIUMBLOB,
  OUT o_is INT, OUT o_token BIGINT, OUT o_left BIGINT, OUT o_holder VARBINARY(1024), OUT o_replaced INT, OUT o_wake VARBINARY(255))
step: BEGIN
  ${ROW}
  DECLARE v_next, v_was_reserved BIGINT;
  DECLARE v_free INT;
  ${KEEP_VARIABLES}
  ${LOCKED_BY_ANOTHER}
  SET o_replaced = -1, o_left = 0, o_token = 0;
  ${LOCK_OR_MAKE}
  IF v_last_ended = p_claim OR (v_more AND EXISTS (SELECT 1 FROM E WHERE lease_key = p_key AND claim = p_claim)) THEN
    SET o_is = -3;
    ${REFUSAL}
    LEAVE step;
  END IF;
  IF NOT (${HELD}) OR v_claim <=> p_replaces THEN
    -- A change of hands waits for the transactions that commit only while the last holder has it (whileHeld of the fence).
    SELECT 1 INTO v_free FROM L FORCE INDEX (by_token) WHERE lease_key = p_key AND token = v_token FOR UPDATE SKIP LOCKED;
    IF v_free IS NULL THEN
      SET o_is = -7;
      LEAVE step;
    END IF;
    SET v_next = GREATEST(v_token + 1, IF(p_floor > 0, p_floor, v_us));
    IF v_next > 9007199254740991 THEN
      SET o_is = -8;
      LEAVE step;
    END IF;
  END IF;

  SET v_was_reserved = v_reserved;
  IF p_replaces IS NOT NULL THEN
    SET o_replaced = (v_claim = p_replaces AND v_us < v_expires) OR ${gaveBack('p_replaces')};
    CALL P_end_claim(p_key, p_replaces, v_us, v_reserved);
    IF v_claim = p_replaces THEN SET v_claim = '', v_last_ended = p_replaces, v_revoked = 0; END IF;
  END IF;
  IF v_more AND NOT (${HELD}) THEN CALL P_pass_turn(p_key, v_us, v_reserved, v_head); END IF;

  IF ${HELD} AND v_claim = p_claim AND v_revoked THEN
    SET o_is = -4;
    ${REFUSAL}
  ELSEIF ${HELD} AND v_claim = p_claim THEN
    SET o_is = 1, o_token = GREATEST(v_token, p_floor);
    UPDATE L SET token = o_token, expires_us = GREATEST(expires_us, v_us + p_ttl * 1000) WHERE lease_key = p_key;
  ELSEIF ${HELD} OR (v_head IS NOT NULL AND v_head <> p_claim) THEN
    SET o_is = IF(${HELD}, -1, -2);
    ${REFUSAL}
    IF p_poll > 0 THEN
      UPDATE W SET poll_ms = p_poll, fresh_us = v_us + 2000 * p_poll WHERE lease_key = p_key AND claim = p_claim;
      IF NOT EXISTS (SELECT 1 FROM W WHERE lease_key = p_key AND claim = p_claim) THEN
        DELETE FROM W WHERE lease_key = p_key AND fresh_us <= v_us;
        SET v_place = (SELECT COALESCE(MAX(place), 0) + 1 FROM W WHERE lease_key = p_key);
        INSERT INTO W (lease_key, place, claim, holder, since_us, poll_ms, fresh_us)
          VALUES (p_key, v_place, p_claim, p_holder, v_us, p_poll, v_us + 2000 * p_poll);
        IF NOT v_more THEN UPDATE L SET more = 1 WHERE lease_key = p_key; END IF;
      END IF;
    END IF;
    IF v_reserved <> v_was_reserved THEN
      SET o_wake = v_head;
      UPDATE L SET reserved_us = v_reserved WHERE lease_key = p_key;
    END IF;
    LEAVE step;
  ELSE
    SET o_is = 1, o_token = v_next, v_reserved = 0;
    IF v_head IS NOT NULL THEN DELETE FROM W WHERE lease_key = p_key AND claim = p_claim; END IF;
    IF v_more THEN DELETE FROM E WHERE lease_key = p_key AND until_us <= v_us; END IF;
    UPDATE L SET token = v_next, claim = p_claim, holder = p_holder, ttl_ms = p_ttl, granted_us = v_us,
      expires_us = v_us + p_ttl * 1000, revoked = 0, changes = changes + 1, meta = p_meta WHERE lease_key = p_key;
  END IF;
  IF v_more OR v_reserved <> v_was_reserved THEN ${SETTLE}; END IF;
END`

/** One renewal in general. o_is: 1 renewed, -7 locked, else why it is lost. */
const RENEW_ONE = `PROCEDURE P_renew_one(IN p_key VARBINARY(512), IN p_claim VARBINARY(255), IN p_ttl BIGINT, OUT o_is INT)
step: BEGIN
  ${ROW}
  ${KEEP_VARIABLES}
  ${LOCK};
  SET v_us = ${NOW};
  IF v_token IS NULL THEN
    ${IS_THERE};
    SET o_is = IF(v_there, -7, 0);
  ELSEIF v_claim = p_claim AND v_us < v_expires AND NOT v_revoked THEN
    UPDATE L SET expires_us = GREATEST(expires_us, v_us + p_ttl * 1000) WHERE lease_key = p_key;
    SET o_is = 1;
  ELSE
    ${WHY_LOST}
  END IF;
END`

/** One release in general. o_is: 1 released, -7 locked, else why it is lost. o_wake: whose turn has come; empty: anybody's. */
const RELEASE_ONE = `PROCEDURE P_release_one(IN p_key VARBINARY(512), IN p_claim VARBINARY(255), OUT o_is INT, OUT o_wake VARBINARY(255))
step: BEGIN
  ${ROW}
  ${KEEP_VARIABLES}
  ${LOCK};
  SET v_us = ${NOW};
  IF v_token IS NULL THEN
    ${IS_THERE};
    SET o_is = IF(v_there, -7, 0);
  ELSEIF NOT (v_claim = p_claim AND v_us < v_expires) THEN
    IF ${gaveBack('p_claim')} THEN SET o_is = 1;
    ELSE
      ${WHY_LOST}
    END IF;
  ELSE
    SET o_is = 1, o_wake = '';
    IF v_more THEN
      CALL P_end_claim(p_key, p_claim, v_us, v_reserved);
      CALL P_pass_turn(p_key, v_us, v_reserved, v_head);
      SET o_wake = COALESCE(v_head, '');
      ${SETTLE};
    ELSE
      UPDATE L SET last_ended = claim, expires_us = v_us, revoked = 0, claim = '' WHERE lease_key = p_key;
    END IF;
  END IF;
END`

/** Ends a claim and remembers it, so that a late acquire of it is refused (G6). o_is: 1, or -7 locked. */
const FORGET_ONE = `PROCEDURE P_forget_one(IN p_key VARBINARY(512), IN p_claim VARBINARY(255), IN p_keep_ms BIGINT, IN p_revoked INT,
  OUT o_is INT, OUT o_wake VARBINARY(255))
step: BEGIN
  ${ROW}
  ${KEEP_VARIABLES}
  ${LOCKED_BY_ANOTHER}
  ${LOCK_OR_MAKE}
  SET o_is = 1;
  DELETE FROM E WHERE lease_key = p_key AND until_us <= v_us;
  INSERT INTO E (lease_key, claim, until_us, revoked)
    VALUES (p_key, p_claim, v_us + GREATEST(p_keep_ms, 2 * v_ttl) * 1000, p_revoked)
    ON DUPLICATE KEY UPDATE until_us = VALUES(until_us), revoked = VALUES(revoked);
  CALL P_end_claim(p_key, p_claim, v_us, v_reserved);
  IF v_claim = p_claim OR NOT (${HELD}) THEN
    CALL P_pass_turn(p_key, v_us, v_reserved, v_head);
    SET o_wake = COALESCE(v_head, '');
  END IF;
  ${SETTLE};
END`

export const STEPS: readonly string[] = [PASS_TURN, END_CLAIM, ACQUIRE_ONE, RENEW_ONE, RELEASE_ONE, FORGET_ONE]
