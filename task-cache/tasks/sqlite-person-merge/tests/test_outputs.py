"""Runs /app/migrate.sql on databases made here and compares each table with what Python works out for itself."""

import random
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path("/app/migrate.sql")
OLD_SCHEMA = """
PRAGMA user_version = 1;
CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT, email TEXT, phone TEXT, created_at TEXT NOT NULL);
CREATE TABLE orders   (id INTEGER PRIMARY KEY, customer_id INTEGER, placed_at TEXT NOT NULL, amount TEXT);
CREATE TABLE label    (customer_id INTEGER, label TEXT);
"""
NEW_SCHEMA = """
CREATE TABLE person   (id INTEGER PRIMARY KEY, name TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE alias    (old_id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL REFERENCES person(id));
CREATE TABLE contact  (kind TEXT NOT NULL CHECK (kind IN ('email', 'phone')), value TEXT NOT NULL,
                       person_id INTEGER NOT NULL REFERENCES person(id), PRIMARY KEY (kind, value));
CREATE TABLE purchase (id INTEGER PRIMARY KEY, person_id INTEGER NOT NULL REFERENCES person(id),
                       placed_at TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE orphan   (id INTEGER PRIMARY KEY, customer_id INTEGER, placed_at TEXT NOT NULL, cents INTEGER NOT NULL);
CREATE TABLE person_label (person_id INTEGER NOT NULL REFERENCES person(id), label TEXT NOT NULL,
                       PRIMARY KEY (person_id, label));
"""
LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
AMOUNT = re.compile(r"(-?)([0-9]+)(?:\.([0-9]{1,2}))?\Z")


class Shop:
    """The rows of one old database."""

    def __init__(self, customers, orders, labels):
        self.customers, self.orders, self.labels = customers, orders, labels

    def write(self, path):
        db = sqlite3.connect(path)
        db.executescript(OLD_SCHEMA)
        db.executemany("INSERT INTO customer VALUES (?, ?, ?, ?, ?)", self.customers)
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?)", self.orders)
        db.executemany("INSERT INTO label VALUES (?, ?)", self.labels)
        db.commit()
        db.close()


def clean_email(text):
    text = (text or "").strip(" ").translate(LOWER)
    return text if "@" in text else None


def clean_phone(text):
    text = re.sub(r"[ \-().\/]", "", text or "")
    if text.startswith("00"):
        text = "+" + text[2:]
    return text if len(text) >= 6 else None


def cents(text):
    match = AMOUNT.match(re.sub("[ ,]", "", text))
    sign, whole, part = match.groups()
    value = int(whole) * 100 + int(((part or "") + "00")[:2])
    return -value if sign else value


def expected(shop):
    """Every new table as a set of rows, by union-find."""
    parent = {row[0]: row[0] for row in shop.customers}

    def root(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    first = {}
    for ident, _, email, phone, _ in shop.customers:
        for key in (("email", clean_email(email)), ("phone", clean_phone(phone))):
            if key[1] is not None:
                parent[root(first.setdefault(key, ident))] = root(ident)
    groups = {}
    for row in shop.customers:
        groups.setdefault(root(row[0]), []).append(row)
    person, alias = set(), {}
    for members in groups.values():
        members.sort(key=lambda row: (row[4], row[0]))
        names = [row[1].strip(" ") for row in members if row[1] and row[1].strip(" ")]
        person.add((members[0][0], names[-1] if names else "(unknown)", members[0][4]))
        alias.update({row[0]: members[0][0] for row in members})
    return {
        "person": person,
        "alias": set(alias.items()),
        "contact": {(kind, value, alias[ident]) for (kind, value), ident in first.items()},
        "purchase": {(i, alias[c], at, cents(a)) for i, c, at, a in shop.orders if c in alias},
        "orphan": {(i, c, at, cents(a)) for i, c, at, a in shop.orders if c not in alias},
        "person_label": {
            (alias[c], text.strip(" ").translate(LOWER))
            for c, text in shop.labels
            if c in alias and text and text.strip(" ")
        },
    }


def migrate(path, limit=60):
    with SCRIPT.open("rb") as script:
        return subprocess.run(
            ["/usr/bin/sqlite3", "-batch", "-bail", "-safe", str(path)],
            stdin=script, capture_output=True, timeout=limit, check=False, cwd="/",
        )


def model():
    """An empty database of the new schema."""
    db = sqlite3.connect(":memory:")
    db.executescript(NEW_SCHEMA)
    return db


def schema(db):
    """Columns with types, NOT NULL and key positions, and the foreign keys, of each table (views and triggers too)."""
    names = db.execute("SELECT name FROM sqlite_schema WHERE type <> 'index' AND name NOT LIKE 'sqlite_%'").fetchall()
    return {
        name: (
            db.execute(f'PRAGMA table_info("{name}")').fetchall(),
            sorted(row[2:7] for row in db.execute(f'PRAGMA foreign_key_list("{name}")')),
        )
        for (name,) in names
    }


def rows(db, table):
    return db.execute(f"SELECT * FROM {table}").fetchall()


def check(shop, tmp_path):
    path = tmp_path / "shop.db"
    shop.write(path)
    done = migrate(path)
    assert done.returncode == 0, done.stderr[-500:]
    db = sqlite3.connect(path)
    assert schema(db) == schema(model())
    want = expected(shop)
    for table, rows_wanted in want.items():
        got = rows(db, table)
        assert len(got) == len(set(got)), f"{table}: the same row twice"
        assert sorted(map(repr, set(got) ^ rows_wanted))[:3] == [], table
    with pytest.raises(sqlite3.IntegrityError):
        db.execute("INSERT INTO contact SELECT 'fax', 'x', id FROM person LIMIT 1")
    db.rollback()
    for column in ("purchase", "orphan"):
        kinds = {kind for (kind,) in db.execute(f"SELECT DISTINCT typeof(cents) FROM {column}")}
        assert kinds <= {"integer"}, column
    assert db.execute("PRAGMA user_version").fetchone() == (2,)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    return db


def moment(rng):
    return f"20{rng.randrange(10, 25):02}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02} 12:00:{rng.randrange(60):02}"


def shuffled(rng, text):
    """The same phone number in another spelling."""
    out = text[0]
    for char in text[1:]:
        out += rng.choice(["", "", "", " ", "-", "/", ".", "(", ")"]) + char
    return "00" + out[1:] if out.startswith("+") and rng.random() < 0.5 else out


def random_shop(rng, people, most):
    customers, orders, labels = [], [], []
    idents = iter(rng.sample(range(1, 50 * people * most), people * most))
    for who in range(people):
        emails = [f"p{who}.{i}@mail.example" for i in range(3)]
        phones = [f"+49{rng.randrange(10**5, 10**9)}{who:05}" for _ in range(3)]
        day = moment(rng)
        for _ in range(rng.randint(1, most)):
            email = rng.choice([*emails, "", None, "none", " "])
            phone = rng.choice([*phones, "", None, "110", "n/a"])
            if email and rng.random() < 0.5:
                email = "  " * rng.randrange(2) + email.upper() + " "
            name = rng.choice([None, "", "  ", f"Name {rng.randrange(99)}", f" É. Straße {who} "])
            at = day if rng.random() < 0.4 else moment(rng)
            customers.append((next(idents), name, email, shuffled(rng, phone) if phone else phone, at))
    rng.shuffle(customers)
    known = [row[0] for row in customers]
    for number in range(len(customers) * 2):
        whole = rng.randrange(10 ** rng.randrange(1, 17))
        text = rng.choice([str(whole), f"{whole:,}"]) + rng.choice(["", f".{rng.randrange(10)}", f".{rng.randrange(100):02}"])
        text = rng.choice(["", "", "-", "- "]) + text + rng.choice(["", " "])
        who = rng.choice(known) if rng.random() < 0.9 else rng.choice([None, -1, 10**9])
        orders.append((number * 3 + 1, who, moment(rng)[:10], text))
        labels.append((rng.choice([*known[:40], 10**9]), rng.choice(["VIP", " vip", "", " ", None, "new", "Ünü", "ünü"])))
    return Shop(customers, orders, labels)


def test_script_is_there_and_only_sql():
    assert SCRIPT.is_file()
    assert not re.search(rb"^\.[a-z]", SCRIPT.read_bytes(), re.MULTILINE)


@pytest.mark.parametrize("round_", range(4))
def test_random_shops(tmp_path, round_):
    seed = random.SystemRandom().randrange(2**32)
    print("seed", seed)
    check(random_shop(random.Random(seed), 60, 8), tmp_path)


def test_shop_of_people_who_share_nothing(tmp_path):
    customers = [(i, f"N{i}", "", " ", "2020-01-01 00:00:00") for i in range(1, 30)]
    customers += [(i, None, "no mail", "12345", "2020-01-01 00:00:00") for i in range(30, 60)]
    customers += [(i, "short once cleaned", None, "000-123", "2020-01-01 00:00:00") for i in range(70, 75)]
    customers += [(60, "x", "a@b", None, "2020-01-01 00:00:00"), (61, "x", None, "a@b", "2020-01-01 00:00:00")]
    check(Shop(customers, [], []), tmp_path)


def test_chain_of_forty(tmp_path):
    rng = random.Random(3)
    numbers = [f"+4930{rng.randrange(10**6, 10**7)}" for _ in range(41)]
    order = rng.sample(range(100, 140), 40)
    customers = [
        (ident, f"N{ident}", f"m{(i + 1) // 2}@chain.example", numbers[i // 2], f"2020-01-{1 + i % 3:02} 00:00:00")
        for i, ident in enumerate(order)
    ]
    db = check(Shop(customers, [], []), tmp_path)
    assert len(rows(db, "person")) == 1


def test_cents_are_exact(tmp_path):
    texts = ["19.99", "0.29", "1.1", "-0.07", "4.35", "1,0.1,0", "9999999999999999.99", "-9007199254740993.01", "007", "-0"]
    texts += [f"{n / 100:.2f}" for n in range(0, 3000, 7)]
    customers = [(1, "A", None, None, "2020-01-01 00:00:00")]
    check(Shop(customers, [(i, 1 + i % 2, "2020-01-01", t) for i, t in enumerate(texts, 1)], []), tmp_path)


BAD = [None, "", " ", "-", ".5", "5.", "1.234", "1.2.3", "--5", "+5", "5-", "1e3", "abc", "0x10", "12.-5", "٣", "12\n", "12 EUR", "-.5"]


@pytest.mark.parametrize("bad", BAD, ids=repr)
@pytest.mark.parametrize("owner", [1, 77], ids=["purchase", "orphan"])
def test_bad_amount_changes_nothing(tmp_path, bad, owner):
    shop = Shop(
        [(1, "A", "a@b", None, "2020-01-01 00:00:00"), (2, "B", "A@B", None, "2020-01-02 00:00:00")],
        [(1, 1, "2020-01-01", "5"), (2, owner, "2020-01-01", bad), (3, 2, "2020-01-01", "6")],
        [(1, "x")],
    )
    path = tmp_path / "shop.db"
    shop.write(path)
    before = "\n".join(sqlite3.connect(path).iterdump())
    done = migrate(path)
    assert done.returncode != 0
    db = sqlite3.connect(path)
    assert "\n".join(db.iterdump()) == before
    assert db.execute("PRAGMA user_version").fetchone() == (1,)


def test_large_shop_in_time(tmp_path):
    rng = random.Random(random.SystemRandom().randrange(2**32))
    shop = random_shop(rng, 440, 40)
    shop.customers = shop.customers[:9500]
    kept = {row[0] for row in shop.customers}
    assert len(kept) > 6000
    check(shop, tmp_path)
