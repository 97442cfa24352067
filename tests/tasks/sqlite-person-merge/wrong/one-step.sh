#!/bin/bash
# Wrong: joins only customers that share a contact directly, not chains of them.
set -euo pipefail
cat > /app/migrate.sql <<'E'
PRAGMA foreign_keys = OFF;
BEGIN IMMEDIATE;

CREATE TABLE person   (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE alias    (old_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL REFERENCES person(id));
CREATE TABLE contact  (kind TEXT NOT NULL CHECK (kind IN ('email', 'phone')), value TEXT NOT NULL,
                       person_id INTEGER NOT NULL REFERENCES person(id), PRIMARY KEY (kind, value));
CREATE TABLE purchase (id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL REFERENCES person(id),
                       placed_at TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE orphan   (id INTEGER PRIMARY KEY, customer_id INTEGER, placed_at TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE person_label (person_id INTEGER NOT NULL REFERENCES person(id), label TEXT NOT NULL,
                       PRIMARY KEY (person_id, label));

-- Money. The sign, the part before the point and the part behind it, as text; NULL cents where the form is wrong, which
-- the NOT NULL of the scratch table turns into a failure of the whole transaction.
CREATE TEMP TABLE money (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL);
INSERT INTO money
SELECT id,
       CASE WHEN whole <> '' AND whole NOT GLOB '*[^0-9]*'
             AND (point = 0 OR (length(part) IN (1, 2) AND part NOT GLOB '*[^0-9]*'))
            THEN sign * (CAST(whole AS INTEGER) * 100 + CAST(substr(part || '00', 1, 2) AS INTEGER)) END
FROM (SELECT id, sign, point,
             CASE WHEN point = 0 THEN body ELSE substr(body, 1, point - 1) END AS whole,
             CASE WHEN point = 0 THEN '' ELSE substr(body, point + 1) END AS part
      FROM (SELECT id, sign, body, instr(body, '.') AS point
            FROM (SELECT id, CASE WHEN bare LIKE '-%' THEN -1 ELSE 1 END AS sign,
                         CASE WHEN bare LIKE '-%' THEN substr(bare, 2) ELSE bare END AS body
                  FROM (SELECT id, replace(replace(amount, ' ', ''), ',', '') AS bare FROM orders))));

-- Who says what about himself: one row per customer and counting contact.
CREATE TEMP TABLE said (kind TEXT, value TEXT, customer INTEGER, PRIMARY KEY (kind, value, customer)) WITHOUT ROWID;
INSERT INTO said SELECT 'email', lower(trim(email, ' ')), id FROM customer WHERE email LIKE '%@%';
INSERT INTO said
SELECT 'phone', number, id
FROM (SELECT id, CASE WHEN bare LIKE '00%' THEN '+' || substr(bare, 3) ELSE bare END AS number
      FROM (SELECT id, replace(replace(replace(replace(replace(replace(phone, ' ', ''), '-', ''), '(', ''), ')', ''),
                               '.', ''), '/', '') AS bare FROM customer))
WHERE length(number) >= 6;

CREATE TEMP TABLE pair (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
INSERT OR IGNORE INTO pair SELECT x.customer, y.customer FROM said x JOIN said y USING (kind, value);
INSERT OR IGNORE INTO pair SELECT id, id FROM customer;

-- Then the earliest member of everybody's group.
CREATE TEMP TABLE together (a INTEGER, b INTEGER, PRIMARY KEY (a, b)) WITHOUT ROWID;
INSERT INTO together
SELECT a, b FROM pair;

CREATE TEMP TABLE chosen (old_id INTEGER PRIMARY KEY, person_id INTEGER);
INSERT INTO chosen
SELECT a, b FROM (SELECT t.a, t.b, row_number() OVER (PARTITION BY t.a ORDER BY c.created_at, c.id) AS place
                  FROM together t JOIN customer c ON c.id = t.b)
WHERE place = 1;

INSERT INTO person
SELECT c.id,
       coalesce((SELECT trim(m.name, ' ') FROM together t JOIN customer m ON m.id = t.b
                 WHERE t.a = c.id AND trim(m.name, ' ') <> '' ORDER BY m.created_at DESC, m.id DESC LIMIT 1),
                '(unknown)'),
       c.created_at
FROM customer c JOIN chosen h ON h.old_id = c.id AND h.person_id = c.id;
INSERT INTO alias SELECT old_id, person_id FROM chosen;
INSERT OR IGNORE INTO contact SELECT DISTINCT s.kind, s.value, h.person_id FROM said s JOIN chosen h ON h.old_id = s.customer;
INSERT INTO purchase
SELECT o.id, h.person_id, o.placed_at, m.cents FROM orders o JOIN money m USING (id) JOIN chosen h ON h.old_id = o.customer_id;
INSERT INTO orphan
SELECT o.id, o.customer_id, o.placed_at, m.cents FROM orders o JOIN money m USING (id)
WHERE o.customer_id IS NULL OR o.customer_id NOT IN (SELECT old_id FROM chosen);
INSERT OR IGNORE INTO person_label
SELECT h.person_id, lower(trim(l.label, ' ')) FROM label l JOIN chosen h ON h.old_id = l.customer_id
WHERE trim(l.label, ' ') <> '';

DROP TABLE label;
DROP TABLE orders;
DROP TABLE customer;
PRAGMA user_version = 2;
COMMIT;
E
cp /app/legacy.db /tmp/try.db
sqlite3 -batch -bail -safe /tmp/try.db < /app/migrate.sql
sqlite3 /tmp/try.db 'SELECT * FROM person; SELECT * FROM purchase;'
