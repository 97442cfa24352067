"""Makes the repository of the task: the same objects, and so the same hashes, wherever it runs."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
PEOPLE = [("Ada Brandt", "ada@shop.example"), ("Ivo Kern", "ivo@shop.example"), ("Mei Tanaka", "mei@shop.example")]
SHARES = {
    "half up": "    return (cents * percent + 50) // 100\n",
    "decimal": (
        "    exact = decimal.Decimal(cents * percent) / 100\n"
        "    return int((exact + decimal.Decimal('0.5')).to_integral_value(decimal.ROUND_FLOOR))\n"
    ),
    "tidy": "    return round(cents * percent / 100)\n",
    "scaled": "    return round(cents * rate / scale)\n",
}
clock = 1_700_000_000
count = 0


def git(*arguments: str) -> str:
    who, mail = PEOPLE[count % len(PEOPLE)]
    stamp = f"{clock} +0100"
    env = {
        **os.environ,
        "GIT_AUTHOR_NAME": who, "GIT_AUTHOR_EMAIL": mail, "GIT_AUTHOR_DATE": stamp,
        "GIT_COMMITTER_NAME": who, "GIT_COMMITTER_EMAIL": mail, "GIT_COMMITTER_DATE": stamp,
        "GIT_CONFIG_NOSYSTEM": "1", "HOME": "/nonexistent",
    }
    return subprocess.run(["git", "-C", ROOT, *arguments], check=True, env=env, capture_output=True, text=True).stdout


class Shop:
    """What the files say at one commit."""

    def __init__(self) -> None:
        self.share = "half up"
        self.coupons: dict[str, int] = {"WELCOME": 10}
        self.taxes: dict[str, int] = {}
        self.broken = False
        self.bulk: list[tuple[int, int]] = []
        self.notes: list[str] = []

    def write(self) -> None:
        scaled = self.share == "scaled"
        tax = "share(net, TAXES[land], 1000)" if scaled else "share(net, TAXES[land] // 10)"
        text = '"""Prices in cents. Halves of a cent round up."""\n\nimport decimal\nimport json\nimport sys\n\n'
        text += "COUPONS = {\n" + "".join(f"    {name!r}: {part},\n" for name, part in self.coupons.items()) + "}\n"
        text += "TAXES = {\n" + "".join(f"    {name!r}: {part},\n" for name, part in self.taxes.items()) + "}\n"
        if self.bulk:
            text += f"BULK = {self.bulk!r}\n"
        text += "\n\ndef share(cents, rate, scale=100):\n" if scaled else "\n\ndef share(cents, percent):\n"
        text += SHARES[self.share]
        text += "\n\ndef total(unit, amount, coupon=None, land=None):\n    net = unit * amount\n"
        if self.bulk:
            text += "    for least, part in BULK:\n        if amount >= least:\n            net -= share(net, part)\n"
        text += "    if coupon is not None:\n        net -= share(net, COUPONS[coupon])\n"
        text += f"    if land is not None:\n        net += {tax}\n    return net\n"
        text += "\n\nif __name__ == '__main__':\n    for line in sys.stdin:\n        print(total(*json.loads(line)))\n"
        if self.broken:
            text = text.replace("def total(", "def total((", 1)
        (ROOT / "pricing.py").write_text(text)
        (ROOT / "NOTES").write_text("".join(f"* {note}\n" for note in self.notes))


def commit(shop: Shop, subject: str, body: str = "") -> str:
    global clock, count
    clock += 5_400 + 977 * (count % 13)
    shop.notes.append(subject)
    shop.write()
    git("add", "-A")
    git("commit", "-q", "-m", subject + (f"\n\n{body}" if body else ""))
    count += 1
    return git("rev-parse", "HEAD").strip()


def coupons(shop: Shop, names: list[str], start: int) -> None:
    for place, name in enumerate(names):
        shop.coupons[name] = 3 + (start + 7 * place) % 43
        commit(shop, f"Add the coupon {name}")


git("init", "-q", "-b", "main")
git("config", "gc.auto", "0")
git("config", "core.logAllRefUpdates", "false")
git("config", "user.name", "Release Desk")
git("config", "user.email", "desk@shop.example")

shop = Shop()
commit(shop, "Prices of single lines")
coupons(shop, ["SPRING", "LOYAL", "STAFF", "FRIDAY"], 1)
shop.taxes = {"DE": 190, "AT": 200}
commit(shop, "Taxes of the first two countries")
coupons(shop, ["SUMMER", "PRESS", "SCHOOL"], 5)
git("tag", "v1.0")
shop.share = "decimal"
commit(shop, "Fix rounding: exact decimals", "Floats are not involved any more. Same results, says Ivo.")
coupons(shop, ["AUTUMN", "CLUB"], 9)
shop.share = "half up"
commit(shop, "Rounding: back to whole numbers", "Decimals were slow, and the results are the same.")
shop.broken = True
commit(shop, "WIP before lunch")
coupons(shop, ["WINTER"], 2)
shop.broken = False
commit(shop, "Repair the file after lunch")
shop.taxes["FR"] = 200
commit(shop, "Taxes of France")

# A topic branch in which the behaviour changes, and main goes on beside it.
main_shop_coupons = dict(shop.coupons)
git("checkout", "-q", "-b", "cleanup")
commit(shop, "NOTES: say who may grant coupons")
shop.share = "tidy"
culprit = commit(shop, "Tidy up share()", "No change in behaviour.")
shop.notes.append("(housekeeping)")
commit(shop, "Sort out the notes")
topic_notes = list(shop.notes)
git("checkout", "-q", "main")
clock += 4_000
git("merge", "-q", "--no-ff", "-m", "Merge branch 'cleanup'", "cleanup")
git("branch", "-q", "-D", "cleanup")
count += 1

coupons(shop, ["EASTER", "MAYDAY"], 4)
shop.broken = True
commit(shop, "WIP: taxes per mille")
shop.broken = False
shop.share = "scaled"
shop.taxes.update({"CH": 81, "NL": 210})
commit(shop, "Taxes per mille, for Switzerland")
coupons(shop, ["VIP", "NIGHT", "REFER", "AUCTION", "OUTLET"], 6)
shop.taxes["FI"] = 255
commit(shop, "Taxes of Finland")
coupons(shop, ["PARTNER", "TEAM", "LASTCALL"], 8)

# A branch whose ref was deleted by mistake; its older versions dangle too.
for version, (subject, bulk) in enumerate(
    [
        ("Bulk prices: draft", [(10, 4)]),
        ("Bulk prices: after review", [(10, 4), (100, 6)]),
        ("Bulk prices: final", [(10, 3), (100, 6), (1000, 9)]),
        ("Bulk prices: what if", [(5, 50)]),
    ]
):
    git("checkout", "-q", "-b", f"bulk{version}", "main")
    shop.bulk = bulk
    kept = list(shop.notes)
    commit(shop, subject)
    if subject.endswith("final"):
        commit(shop, "Bulk prices: say so in the notes")
    shop.notes = kept
    git("checkout", "-q", "main")
    git("branch", "-q", "-D", f"bulk{version}")
shop.bulk = []
